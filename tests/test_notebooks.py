"""Committed notebooks keep the house rules, and one whose committed output is wrong fails in `make test`."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

from trex import paths
from trex.launch import notebooks

QUICKEST = "06_eval/05_paper_tables"


@pytest.mark.parametrize("path", notebooks.find(), ids=notebooks.name)
def test_committed_notebooks_keep_the_rules(path: Path) -> None:
    assert list(notebooks.problems(path)) == []


@pytest.mark.parametrize("path", notebooks.find(), ids=notebooks.name)
def test_committed_notebooks_are_normalised(path: Path) -> None:
    notebook = notebooks.read(path)
    notebooks.normalise(notebook)
    assert path.read_text() == nbformat.writes(notebook) + "\n"


def test_every_notebook_is_found() -> None:
    """No notebook lies where `trex reproduce` would not see it."""
    checkpoints = ".ipynb_checkpoints"
    everywhere = {path for path in paths.notebooks().rglob("*.ipynb") if checkpoints not in path.parts}
    assert everywhere == set(notebooks.find())


def make_test_command() -> list[str]:
    """How `make test` runs the notebooks, up to the folder."""
    line = next(line for line in (paths.CHECKOUT / "Makefile").read_text().splitlines() if "--nbval" in line)
    command = shlex.split(line.strip())
    assert command[0] == "$(BIN)/python" and command[-1] == "notebooks"
    return [sys.executable, *command[1:-1], "-c", str(paths.CHECKOUT / "pyproject.toml")]


def tamper(notebook: NotebookNode) -> int:
    """Change one digit of the first text that nbval compares; returns the cell's number among code cells, from 0."""
    for number, cell in enumerate(cell for cell in notebook.cells if cell.cell_type == "code"):
        for output in cell.outputs:
            text = output.get("text", "")
            if "nbval-ignore-output" not in cell.metadata.get("tags", []) and re.search(r"\d", text):
                output["text"] = re.sub(r"\d", lambda digit: str((int(digit[0]) + 1) % 10), text, count=1)
                return number
    raise AssertionError("no compared text holds a digit")


def test_a_wrong_committed_output_fails(tmp_path: Path) -> None:
    """Two copies of one notebook, one tampered with, through the command of `make test`."""
    source = paths.notebooks() / f"{QUICKEST}.ipynb"
    notebook = notebooks.read(source)
    nbformat.write(notebook, tmp_path / "as_committed.ipynb")
    cell = tamper(notebook)
    nbformat.write(notebook, tmp_path / "tampered.ipynb")
    command = [*make_test_command(), str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1, done.stdout
    failed = re.findall(r"^FAILED (\S+)::Cell (\d+)", done.stdout, re.MULTILINE)
    assert [(Path(name).name, int(number)) for name, number in failed] == [("tampered.ipynb", cell)]
    cells = sum(cell.cell_type == "code" for cell in notebook.cells)
    assert re.search(rf"\b1 failed, {2 * cells - 1} passed\b", done.stdout)
