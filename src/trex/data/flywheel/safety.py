"""Gate on what programs may do: import what modelling needs, read the row's files, write none, evaluate no text.

The sandbox confines what runs; this gate is for what a model would learn to write.
"""

# ruff: noqa: SIM905 - long lists of names read best as text
import ast
from collections.abc import Iterator

from trex.data.audit.facts import parse
from trex.data.audit.tables import opens
from trex.data.flywheel.dialogue import Dialogue
from trex.data.gates import Refused

MODULES = frozenset(
    "pyomo gurobipy highspy math json itertools functools collections csv pathlib typing dataclasses numpy pandas "
    "datetime fractions statistics operator string re random".split()
)
FORBIDDEN = frozenset("eval exec __import__ __builtins__ breakpoint ctypes ctypeslib".split())  # wherever they stand
NOT_CALLED = frozenset("compile globals locals vars getattr setattr delattr input memoryview".split())
WRITING = frozenset(  # and what looks through folders or changes them
    "write write_text write_bytes writelines unlink mkdir rmdir touch rename replace_file dump save savez "
    "savez_compressed savetxt tofile to_csv to_json to_pickle to_parquet to_excel to_sql to_hdf to_feather chmod "
    "symlink_to hardlink_to glob rglob iterdir walk".split()
)
READING = frozenset("load loadtxt genfromtxt fromfile".split())  # beside what begins with read_


def safety(row: Dialogue) -> str:
    """A program imports what modelling needs, opens the row's files only, writes none and evaluates no text.

    Of a program that is to be repaired too, where it parses.
    """
    for source in (row.program, row.second, row.wrong):
        tree, syntax = parse(source)
        if tree is None:
            if source == row.wrong:
                continue
            raise Refused("safety", f"a program that does not parse: {syntax}")
        for node in ast.walk(tree):
            for reason in _unsafe(node, row.files):
                raise Refused("safety", f"line {getattr(node, 'lineno', 0)}: {reason}")
        if other := [name for name in opens(tree) if name not in row.files]:
            raise Refused("safety", f"the program opens {other[0]!r}; the row's files are {sorted(row.files)}")
    return "imports, files and calls are those of modelling"


def _unsafe(node: ast.AST, files: dict[str, str]) -> Iterator[str]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
        for name in names:
            if name.partition(".")[0] not in MODULES:
                yield f"it imports {name!r}"
    elif isinstance(node, ast.Name) and node.id in FORBIDDEN:
        yield f"it names {node.id}"
    elif isinstance(node, ast.Attribute) and (node.attr in FORBIDDEN or node.attr.startswith("_")):
        yield f"it reaches for {node.attr}"
    elif isinstance(node, ast.Call):
        yield from _call(node, files)


def _call(node: ast.Call, files: dict[str, str]) -> Iterator[str]:
    is_method = isinstance(node.func, ast.Attribute)
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if not is_method and called in NOT_CALLED:
        yield f"it calls {called}"
    if is_method and called in WRITING:
        yield f"it writes, or looks through folders, with {called}"
    if called == "open":
        modes = [*node.args[0 if _is_path(node) else 1 :][:1], *(k.value for k in node.keywords if k.arg == "mode")]
        if any(not (isinstance(m, ast.Constant) and m.value in ("r", "rt", "rb")) for m in modes):
            yield "it opens a file otherwise than for reading"
    given = node.args[0] if node.args else None
    known = isinstance(given, ast.Constant) and given.value in files
    if called == "Path" and not (known or (isinstance(given, ast.Name) and given.id == "__file__")):
        yield "it makes a path to other than the row's files"
    reads = is_method and (called in READING or called.startswith("read_"))
    if reads and isinstance(given, ast.Constant) and not known:
        yield f"it reads {given.value!r:.80}"


def _is_path(node: ast.Call) -> bool:
    """Whether a method is called of a path that is made on the spot, which holds the file's name itself."""
    owner = node.func.value if isinstance(node.func, ast.Attribute) else None
    return isinstance(owner, ast.Call) and getattr(owner.func, "id", getattr(owner.func, "attr", "")) == "Path"
