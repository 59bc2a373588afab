"""Notebooks as files: found, read, refreshed whole or not at all, and every house rule fires."""

import json
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from trex import paths
from trex.launch import notebooks
from trex.launch.notebooks import MAX_BYTES, MAX_CODE_CELLS, MAX_LINES, NotebookError, problems, refresh

LAST = "from trex.results import record\ndone = record('c', 'n', {'x': x}, label='measured', seed=seed)"


def good() -> NotebookNode:
    """A notebook fit to commit, as it is after execution."""
    cells = [
        new_markdown_cell("# A claim"),
        new_code_cell("seed = 0  # of the run\nname = 'flash'", metadata={"tags": ["parameters"]}, execution_count=1),
        new_code_cell(
            "x = 6 * 7\nprint(x)", execution_count=2, outputs=[new_output("stream", name="stdout", text="42\n")]
        ),
        new_code_cell(LAST, execution_count=3),
    ]
    return new_notebook(cells=cells, metadata=notebooks.METADATA)


def save(notebook: NotebookNode, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)
    return path


def test_notebooks_are_found_in_reading_order(tmp_path: Path) -> None:
    for name in ("02_b/01_x", "01_a/02_y", "01_a/01_z", "01_a/.ipynb_checkpoints/01_z", "drafts/01_d", "01_a/draft"):
        save(good(), tmp_path / f"{name}.ipynb")
    assert [notebooks.name(path) for path in notebooks.find(tmp_path)] == ["01_a/01_z", "01_a/02_y", "02_b/01_x"]


@pytest.mark.parametrize("text", ["", "no json", "[]", "3", "{}", '{"cells": 3}', '{"nbformat": 4, "cells": [{}]}'])
def test_what_is_no_notebook_is_told(text: str, tmp_path: Path) -> None:
    path = tmp_path / "n.ipynb"
    path.write_text(text)
    with pytest.raises(NotebookError, match=r"n\.ipynb is not a notebook"):
        notebooks.read(path)
    path.write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(NotebookError, match="is not a notebook"):
        notebooks.read(path)
    with pytest.raises(NotebookError, match="is not a notebook"):
        notebooks.read(tmp_path / "missing.ipynb")


def test_parameters_keep_their_order_and_types(tmp_path: Path) -> None:
    notebook = good()
    notebook.cells[1].source = "# any\nseed = 0\nratio = -2.5e-3\nname = 'π'\nsizes = [1, (2, None)]\nfast = True"
    found = notebooks.parameters(save(notebook, tmp_path / "n.ipynb"))
    assert list(found.items()) == [
        ("seed", 0), ("ratio", -0.0025), ("name", "π"), ("sizes", [1, (2, None)]), ("fast", True)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("seed = 1 + x", "the default of 'seed' is not a literal"),
        ("seed = {[]: 1}", "the default of 'seed' is not a literal"),
        ("import os", "line 1: only NAME = LITERAL is accepted"),
        ("seed = 0\na = b = 1", "line 2: only NAME = LITERAL is accepted"),
        ("a, b = 1, 2", "line 1: only NAME = LITERAL"),
        ("seed: int = 0", "line 1: only NAME = LITERAL"),
        ("x.y = 1", "line 1: only NAME = LITERAL"),
        ("seed = 0\nlayers =", "parameters cell, line 2: invalid syntax"),
    ],
)
def test_other_parameters_are_refused(source: str, told: str, tmp_path: Path) -> None:
    notebook = good()
    notebook.cells[1].source = source
    path = save(notebook, tmp_path / "n.ipynb")
    with pytest.raises(NotebookError, match=told):
        notebooks.parameters(path)
    assert any(told in text for text in problems(path))


def test_there_is_one_parameters_cell(tmp_path: Path) -> None:
    notebook = good()
    notebook.cells[1].metadata = {}
    with pytest.raises(NotebookError, match="0 cells tagged 'parameters'; there must be one"):
        notebooks.parameters(save(notebook, tmp_path / "n.ipynb"))


def test_a_good_notebook_has_no_problems(tmp_path: Path) -> None:
    assert list(problems(save(good(), tmp_path / "n.ipynb"))) == []


def change(number: int, **values: object) -> Callable[[NotebookNode], None]:
    """Replace parts of one cell (0 is the markdown cell)."""
    return lambda notebook: notebook.cells[number].update(values)


def say(**values: object) -> Callable[[NotebookNode], None]:
    """Give the second code cell one more output."""
    return lambda notebook: notebook.cells[2].outputs.append(new_output(**values))


BREACHES: dict[str, Callable[[NotebookNode], None]] = {
    "code cell 2: execution count 5, expected 2: not run from top to bottom": change(2, execution_count=5),
    "code cell 2: execution count None, expected 2: not run from top to bottom": change(2, execution_count=None),
    f"code cell 3: {MAX_LINES + 1} lines; at most {MAX_LINES}": change(3, source=LAST + "\nx" * (MAX_LINES - 1)),
    "code cell 2: defines a class: code belongs in trex": change(2, source="if True:\n    class A: ..."),
    "code cell 2: is not plain Python: line 1, invalid syntax": change(2, source="%matplotlib inline"),
    "code cell 2: tells nbval by a comment: use tags, which keep the page clean": change(
        2, source="#NBVAL_SKIP\nx = 1"
    ),
    "code cell 2: holds an error": say(output_type="error", ename="E", evalue="", traceback=[]),
    "code cell 2: writes to stderr: a warning is mended or silenced where it arises": say(
        output_type="stream", name="stderr", text="UserWarning"
    ),
    "code cell 2: its output names a folder of this machine": say(
        output_type="stream", name="stdout", text=f"saved to {paths.CHECKOUT}/runs"
    ),
    "the first code cell is not tagged 'parameters'": change(1, metadata={}),
    "the kernel is not python3": lambda notebook: notebook.metadata.kernelspec.update(name="julia"),
    "the last code cell records nothing: it calls trex.results.record": change(3, source="x"),
    "no cell's text output is compared: every output is tagged nbval-ignore-output": change(
        2, metadata={"tags": ["nbval-ignore-output"]}
    ),
    f"{MAX_CODE_CELLS + 1} code cells; at most {MAX_CODE_CELLS}": lambda notebook: notebook.cells.extend(
        new_code_cell(LAST, execution_count=4 + number) for number in range(MAX_CODE_CELLS - 2)
    ),
}


@pytest.mark.parametrize("breach", BREACHES)
def test_each_rule_fires(breach: str, tmp_path: Path) -> None:
    notebook = good()
    BREACHES[breach](notebook)
    assert list(problems(save(notebook, tmp_path / "n.ipynb"))) == [breach]


def test_a_large_notebook_is_a_problem(tmp_path: Path) -> None:
    notebook = good()
    say(output_type="display_data", data={"image/png": "A" * MAX_BYTES})(notebook)
    (text,) = problems(save(notebook, tmp_path / "n.ipynb"))
    assert text.endswith(f" bytes; at most {MAX_BYTES:,}")


def test_a_picture_is_no_text(tmp_path: Path) -> None:
    notebook = good()
    say(output_type="display_data", data={"image/png": f"AAAA{paths.CHECKOUT}/AAAA"})(notebook)
    assert list(problems(save(notebook, tmp_path / "n.ipynb"))) == []


def test_normalising_keeps_what_does_not_change(tmp_path: Path) -> None:
    notebook = good()
    notebook.nbformat_minor = 4
    notebook.metadata["papermill"] = {"start_time": "now"}
    notebook.cells[0]["id"] = "0a1b2c"
    notebook.cells[2].metadata = {"execution": {"iopub.status.busy": "now"}, "tags": ["slow"], "scrolled": True}
    notebook.cells[2].outputs = [
        new_output("stream", name="stdout", text="a"),
        new_output("stream", name="stdout", text="b\n"),
        new_output("stream", name="stderr", text="c"),
        new_output("stream", name="stdout", text="d"),
        new_output("display_data", data={"text/plain": "e"}, metadata={"isolated": True}),
        new_output("stream", name="stdout", text="f"),
    ]
    notebooks.normalise(notebook)
    nbformat.validate(notebook)
    assert notebook.metadata == notebooks.METADATA
    assert [cell["id"] for cell in notebook.cells] == ["cell-00", "cell-01", "cell-02", "cell-03"]
    assert [dict(cell.metadata) for cell in notebook.cells] == [{}, {"tags": ["parameters"]}, {"tags": ["slow"]}, {}]
    outputs = notebook.cells[2].outputs
    assert [output.get("text") for output in outputs] == ["ab\n", "c", "d", None, "f"] and outputs[3].metadata == {}
    once = nbformat.writes(notebook)
    notebooks.normalise(notebook)
    assert nbformat.writes(notebook) == once


def test_refreshing_executes_normalises_and_repeats(tmp_path: Path) -> None:
    notebook = good()
    notebook.cells[2].update(source="x = 6 * 7\nprint(x)\nimport os\nos.getcwd().rpartition('/')[2]", outputs=[])
    path = save(notebook, tmp_path / "01_a" / "01_n.ipynb")
    refresh(path, run=tmp_path / "run")
    assert list(problems(path)) == []
    printed, value = notebooks.read(path).cells[2].outputs
    assert (printed.text, value.data["text/plain"]) == ("42\n", "'01_a'")
    assert json.loads((tmp_path / "run" / "records" / "c" / "n.json").read_text())["values"] == {"x": 42}
    once = path.read_bytes()
    failing = notebooks.read(path)
    failing.cells[2].source = "1 / 0"
    save(failing, path)
    before = path.read_bytes()
    with pytest.raises(NotebookError, match=r"01_a/01_n: (?s:.*)ZeroDivisionError"):
        refresh(path, run=tmp_path / "run")
    assert path.read_bytes() == before and before != once
