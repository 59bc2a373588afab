"""Notebooks as files: find them, read their parameters, refresh their committed outputs, check the house rules.

Committed notebooks are executed with their default parameters, which are the embedded profile; nbval compares with
them.
"""

import ast
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from trex import paths
from trex.files import write_atomic

MAX_BYTES = 300 * 1024
MAX_CODE_CELLS = 25
MAX_LINES = 25
# errors only: ipykernel else warns at every start that TCP is not encrypted
KERNEL_ARGUMENTS = ["--IPKernelApp.log_level=40"]
METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


class NotebookError(ValueError):
    """A notebook that is missing, has no parameters, or breaks a rule of the house."""


def find(folder: Path | None = None) -> list[Path]:
    """All notebooks, in reading order; copies that JupyterLab made are none."""
    base = folder or paths.notebooks()
    return sorted(p for p in base.glob("[0-9][0-9]_*/[0-9][0-9]_*.ipynb") if "-Copy" not in p.stem)


def name(path: Path) -> str:
    """`chapter/notebook`, the name used in profiles, records and messages."""
    return f"{path.parent.name}/{path.stem}"


def read(path: Path) -> NotebookNode:
    """Read and validate. Raises NotebookError naming the file."""
    try:
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
    except Exception as error:  # nbformat's own errors, and whatever it trips over in other JSON
        raise NotebookError(f"{path} is not a notebook: {_first_line(error)}") from None
    return notebook


def parameters(path: Path) -> dict[str, Any]:
    """Names and default values of the cell tagged `parameters`, in order.

    Raises NotebookError where there is no such cell or a default is not a literal.
    """
    tagged = [c for c in read(path).cells if "parameters" in c.metadata.get("tags", [])]
    if len(tagged) != 1:
        raise NotebookError(f"{path}: {len(tagged)} cells tagged 'parameters'; there must be one")
    try:
        body = ast.parse(tagged[0].source).body
    except SyntaxError as error:
        raise NotebookError(f"{path}, parameters cell, line {error.lineno}: {error.msg}") from None
    found: dict[str, Any] = {}
    for node in body:
        target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
        if not (isinstance(node, ast.Assign) and isinstance(target, ast.Name)):
            raise NotebookError(f"{path}, parameters cell, line {node.lineno}: only NAME = LITERAL is accepted")
        try:
            found[target.id] = ast.literal_eval(node.value)
        except (ValueError, TypeError):
            raise NotebookError(f"{path}: the default of {target.id!r} is not a literal") from None
    return found


def refresh(path: Path, timeout_s: float = 600, run: Path | None = None) -> None:
    """Execute with the default parameters, normalise and rewrite in place, whole or not at all.

    Raises NotebookError when a cell fails or takes longer than `timeout_s`, or when the result is too large.
    """
    from nbclient import NotebookClient
    from nbclient.exceptions import CellControlSignal, DeadKernelError

    notebook = read(path)
    environment = {**os.environ, "TREX_RUN": str(run or paths.runs() / "refresh")}
    client = NotebookClient(
        notebook, timeout=timeout_s, kernel_name="python3", extra_arguments=KERNEL_ARGUMENTS,
        resources={"metadata": {"path": str(path.parent)}},
    )  # fmt: skip
    try:
        client.execute(env=environment)
    except (CellControlSignal, DeadKernelError) as error:  # a cell failed, took too long, or killed its kernel
        raise NotebookError(f"{name(path)}: {error}") from None
    normalise(notebook)
    data = nbformat.writes(notebook).encode() + b"\n"
    if len(data) > MAX_BYTES:
        raise NotebookError(f"{name(path)}: {len(data):,} bytes executed; at most {MAX_BYTES:,}")
    write_atomic(path, data)


def normalise(notebook: NotebookNode) -> None:
    """Keep of the metadata only what does not change from run to run (kernel, language, tags); join split streams."""
    notebook.metadata = nbformat.from_dict(METADATA)
    notebook.nbformat_minor = max(notebook.nbformat_minor, 5)  # the first with cell ids
    for index, cell in enumerate(notebook.cells):
        tags = cell.metadata.get("tags")
        cell.metadata = nbformat.from_dict({"tags": tags} if tags else {})
        cell["id"] = f"cell-{index:02d}"
        if cell.cell_type == "code":
            cell["outputs"] = list(_joined(cell["outputs"]))


def _joined(outputs: Iterable[NotebookNode]) -> Iterator[NotebookNode]:
    """Outputs without metadata; pieces of one stream that came one after the other, as timing had it, are one."""
    last: NotebookNode | None = None
    for output in outputs:
        if "metadata" in output:
            output["metadata"] = nbformat.from_dict({})
        if last and output.output_type == last.output_type == "stream" and output["name"] == last["name"]:
            last["text"] += output["text"]
            continue
        if last:
            yield last
        last = output
    if last:
        yield last


def problems(path: Path) -> Iterator[str]:
    """Breaches of the house rules, one sentence each; none for a notebook fit to commit."""
    notebook = read(path)
    code = [c for c in notebook.cells if c.cell_type == "code"]
    if path.stat().st_size > MAX_BYTES:
        yield f"{path.stat().st_size:,} bytes; at most {MAX_BYTES:,}"
    if len(code) > MAX_CODE_CELLS:
        yield f"{len(code)} code cells; at most {MAX_CODE_CELLS}"
    if not code or "parameters" not in code[0].metadata.get("tags", []):
        yield "the first code cell is not tagged 'parameters'"
    else:
        try:
            parameters(path)
        except NotebookError as error:
            yield str(error)
    if notebook.metadata.get("kernelspec", {}).get("name") != "python3":
        yield "the kernel is not python3"
    for number, cell in enumerate(code, start=1):
        yield from (f"code cell {number}: {text}" for text in _cell_problems(cell, number))
    if not code or not _calls(code[-1], "record"):
        yield "the last code cell records nothing: it calls trex.results.record"
    if not any(_compared(cell) for cell in code):
        yield "no cell's text output is compared: every output is tagged nbval-ignore-output"


def _cell_problems(cell: Mapping[str, Any], number: int) -> Iterator[str]:
    lines = cell["source"].count("\n") + 1
    if lines > MAX_LINES:
        yield f"{lines} lines; at most {MAX_LINES}"
    try:
        tree = ast.parse(cell["source"])
    except SyntaxError as error:
        yield f"is not plain Python: line {error.lineno}, {error.msg}"
    else:
        if any(isinstance(node, ast.ClassDef) for node in ast.walk(tree)):
            yield "defines a class: code belongs in trex"
    if "NBVAL_" in cell["source"]:
        yield "tells nbval by a comment: use tags, which keep the page clean"
    if cell.get("execution_count") != number:
        yield f"execution count {cell.get('execution_count')}, expected {number}: not run from top to bottom"
    if any(output["output_type"] == "error" for output in cell["outputs"]):
        yield "holds an error"
    if any(output.get("name") == "stderr" for output in cell["outputs"]):
        yield "writes to stderr: a warning is mended or silenced where it arises"
    if any(place in text for text in _texts(cell) for place in (str(paths.CHECKOUT), tempfile.gettempdir() + os.sep)):
        yield "its output names a folder of this machine"


def _texts(cell: Mapping[str, Any]) -> Iterator[str]:
    """What a reader sees as text: streams and every form of a display but images."""
    for output in cell["outputs"]:
        yield output.get("text", "")
        yield from (str(value) for kind, value in output.get("data", {}).items() if not kind.startswith("image/"))


def _calls(cell: Mapping[str, Any], function: str) -> bool:
    try:
        nodes = list(ast.walk(ast.parse(cell["source"])))
    except SyntaxError:
        return False
    called = [node.func for node in nodes if isinstance(node, ast.Call)]
    return any(function in (getattr(func, "id", ""), getattr(func, "attr", "")) for func in called)


def _compared(cell: Mapping[str, Any]) -> bool:
    ignored = {"nbval-ignore-output", "nbval-skip"} & set(cell["metadata"].get("tags", []))
    return not ignored and any(output["output_type"] in ("stream", "execute_result") for output in cell["outputs"])


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
