"""The house rules that a program can check: import arrows, short documented modules, one place that names devices.

Each rule is a function from a source tree to its breaches; the tests apply it to trex and to a planted breach.
"""

import ast
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from trex import paths

MAX_LINES = 350
BASE = {"paths", "files", "labels", "device", "results", "published"}
MODEL = BASE | {"kernels", "model"}
# room → the rooms that it may import; the look of figures (report.figures with report.png) is a room of its own
ARROWS = {
    "paths": set(),
    "files": set(),
    "labels": set(),
    "device": set(),
    "report.figures": {"files", "labels"},
    "results": {"paths", "files", "labels", "device", "report.figures"},
    "published": {"paths", "files", "labels"},
    "kernels": BASE,
    "model": BASE | {"kernels"},
    "checkpoint": MODEL,
    "planner": MODEL,
    "parallel": MODEL | {"planner"},
    "solver": {"paths", "files", "device", "results"},
    "data": BASE | {"solver"},
    "eval": BASE | {"solver", "data"},
    "train": MODEL | {"checkpoint", "planner", "parallel", "data"},
    "launch": BASE | {"report.figures"},
    "report": MODEL | {"checkpoint", "planner", "solver", "data", "eval", "train", "report.figures"},
    "serve": MODEL | {"checkpoint", "data"},
    "commands": {"paths", "device", "checkpoint", "solver", "data", "eval", "train", "launch", "serve"},
    "cli": {"labels", "launch", "serve", "commands"},
    "__main__": {"cli"},
}
DEVICE_APIS = ("cuda", "npu", "accelerator", "xpu", "mps")
# texts that name a device (cuda, npu:1) or a backend of collectives (nccl, cpu:gloo,npu:hccl)
DEVICE_TEXT = re.compile(r"(?:cuda|npu)(?::\d+)?|.*\b(?:nccl|hccl)\b.*", re.DOTALL)
MACHINE = re.compile(
    r"(?<![\w.])/(?:work|tmp|root|opt/wheels|home/(?!someone)\w+|Users/\w+)(?:/|\b)"
    r"|pypi\.(?:org|python)|pythonhosted\.org|download\.pytorch\.org|conda\.anaconda\.org|\bmirrors?\.\w+\.\w+",
)
UNFINISHED = re.compile(r"\b(?:TODO|FIXME|XXX)\b")
IMAGE = re.compile(r'"image/png": "[^"]*"')


def modules(root: Path) -> Iterator[tuple[str, str, ast.Module]]:
    """Name, text and tree of each module below `root`."""
    for path in sorted(root.rglob("*.py")):
        text = path.read_text()
        yield str(path.relative_to(root)), text, ast.parse(text)


def room(parts: list[str]) -> str:
    """The room of a module, given its path below trex."""
    return "report.figures" if parts[0] == "report" and parts[1:2] in (["figures"], ["png"]) else parts[0]


def imported(tree: ast.AST, package: list[str]) -> Iterator[tuple[int, list[str]]]:
    """What a module imports of trex, as line and path below trex; relative imports resolved."""
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [item.name.split(".") for item in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ["trex", *package][: len(package) + 2 - node.level] if node.level else []
            names = [[*base, *(node.module or "").split("."), item.name] for item in node.names]
        for name in names:
            parts = [part for part in name if part]
            if parts[0] == "trex" and len(parts) > 1:
                yield node.lineno, parts[1:]  # type: ignore[attr-defined]


def wrong_arrows(root: Path) -> list[str]:
    """Imports against the arrows, and modules in no known room."""
    found = []
    for name, _, tree in modules(root):
        parts = name.removesuffix(".py").split("/")
        own = room(parts)
        if own == "__init__":
            found += [f"{name}:{line} imports {'.'.join(what)}" for line, what in imported(tree, [])]
        elif own not in ARROWS:
            found.append(f"{name} is in no room")
        else:
            for line, what in imported(tree, parts[:-1]):
                if room(what) != own and room(what) not in ARROWS[own]:
                    found.append(f"{name}:{line} imports {'.'.join(what)}")
    return found


def long_modules(root: Path) -> list[str]:
    """Modules that no longer read like the paper."""
    counts = [(name, text.count("\n")) for name, text, _ in modules(root)]
    return [f"{name} has {count} lines" for name, count in counts if count > MAX_LINES]


def undocumented(root: Path) -> list[str]:
    """Modules, public classes, functions and methods without a docstring."""

    def public(body: list[ast.stmt]) -> Iterator[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
        for node in body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith(
                "_"
            ):
                yield node
                if isinstance(node, ast.ClassDef):
                    yield from public(node.body)

    found = []
    for name, text, tree in modules(root):
        if text.strip() and not ast.get_docstring(tree):
            found.append(f"{name} has no docstring")
        for node in public(tree.body):
            if not ast.get_docstring(node):
                found.append(f"{name}:{node.lineno} {node.name} has no docstring")
    return found


def device_names(root: Path) -> list[str]:
    """Device APIs, and texts that name a device or its backend, outside device.py and the kernels' own files.

    Docstrings may name them; launch/ranks.py names the backends that it accepts.
    """
    found = []
    for name, _, tree in modules(root):
        if name == "device.py" or (name.startswith("kernels/") and Path(name).name in ("npu.py", "triton.py")):
            continue
        docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            names = []
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
                if DEVICE_TEXT.fullmatch(node.value) and name != "launch/ranks.py":
                    found.append(f"{name}:{node.lineno} names {node.value!r}")
            elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "torch":
                names = [f"torch.{node.attr}"]
            elif isinstance(node, ast.Import):
                names = [item.name for item in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [f"{node.module}.{item.name}" for item in node.names]
            for used in names:
                if re.match(rf"torch_npu\b|torch\.(?:{'|'.join(DEVICE_APIS)})\b", used):
                    found.append(f"{name}:{node.lineno} names {used}")  # type: ignore[attr-defined]
    return found


def texts(root: Path) -> Iterator[tuple[str, int, str]]:
    """Lines of all text files that git knows, or that lie below `root` where it is no checkout; images left out."""
    names = [str(path.relative_to(root)) for path in root.rglob("*")]
    if (root / ".git").exists():
        git = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(git, cwd=root, capture_output=True, text=True, check=True).stdout.splitlines()
    for name in sorted(names):
        path = root / name
        if not path.is_file() or path == Path(__file__) or path.suffix in (".png", ".parquet"):
            continue
        for number, line in enumerate(IMAGE.sub("", path.read_text(errors="replace")).splitlines(), start=1):
            yield name, number, line


def machine_names(root: Path) -> list[str]:
    """Folders of one machine and hosts of package registries."""
    return [f"{name}:{number} {m[0]}" for name, number, line in texts(root) if (m := MACHINE.search(line))]


def unfinished(root: Path) -> list[str]:
    """Notes of work left over."""
    return [f"{name}:{number} {m[0]}" for name, number, line in texts(root) if (m := UNFINISHED.search(line))]


PACKAGE = paths.CHECKOUT / "src" / "trex"


@pytest.mark.parametrize("rule", [wrong_arrows, long_modules, undocumented, device_names])
def test_trex_keeps_the_rule(rule: Callable[[Path], list[str]]) -> None:
    assert rule(PACKAGE) == []


@pytest.mark.parametrize("rule", [machine_names, unfinished])
def test_the_checkout_keeps_the_rule(rule: Callable[[Path], list[str]]) -> None:
    assert rule(paths.CHECKOUT) == []


def test_arrows_form_no_circle() -> None:
    """Apart from results, which write figures, and figures, which write results."""
    known = {own: targets - ({"report.figures"} if own == "results" else set()) for own, targets in ARROWS.items()}
    assert set().union(*known.values()) <= set(known)
    placed: list[str] = []
    while ready := [own for own in known if own not in placed and known[own] <= set(placed)]:
        placed += ready
    assert set(placed) == set(known)


PLANTED = {
    "from trex.train import trainer": (wrong_arrows, "model/planted.py:2 imports train.trainer"),
    "import trex.eval.tasks as tasks": (wrong_arrows, "model/planted.py:2 imports eval.tasks"),
    "def late():\n    '''Late.'''\n    from trex.report.figures import show": (
        wrong_arrows,
        "model/planted.py:4 imports report.figures.show",
    ),
    "from ..planner import memory": (wrong_arrows, "model/planted.py:2 imports planner.memory"),
    "from .. import planner": (wrong_arrows, "model/planted.py:2 imports planner"),
    "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from trex.train import trainer": (
        wrong_arrows,
        "model/planted.py:4 imports train.trainer",
    ),
    "x = 0\n" * MAX_LINES: (long_modules, f"model/planted.py has {MAX_LINES + 1} lines"),
    "def open_to_all(): ...": (undocumented, "model/planted.py:2 open_to_all has no docstring"),
    "class Shown:\n    '''Shown.'''\n    def method(self): ...": (
        undocumented,
        "model/planted.py:4 method has no docstring",
    ),
    "import torch\nx = torch.cuda.Stream()": (device_names, "model/planted.py:3 names torch.cuda"),
    "from torch import accelerator": (device_names, "model/planted.py:2 names torch.accelerator"),
    "import torch_npu": (device_names, "model/planted.py:2 names torch_npu"),
    "place = 'cuda:1'": (device_names, "model/planted.py:2 names 'cuda:1'"),
    "def f(kind='npu'):\n    '''On npu by hccl.'''": (device_names, "model/planted.py:2 names 'npu'"),
    "x = f'cpu:gloo,{0}:hccl'": (device_names, "model/planted.py:2 names ':hccl'"),
    "BACKENDS = ('gloo', 'nccl')": (device_names, "model/planted.py:2 names 'nccl'"),
    "import torch.npu.streams": (device_names, "model/planted.py:2 names torch.npu.streams"),
    "PLACE = '/home/me/data'": (machine_names, "model/planted.py:2 /home/me/"),
    "# pip install --index-url https://pypi.org/simple": (machine_names, "model/planted.py:2 pypi.org"),
    "# TODO: the rest": (unfinished, "model/planted.py:2 TODO"),
}


@pytest.mark.parametrize("source", PLANTED, ids=lambda source: source[:40])
def test_a_planted_breach_is_found(source: str, tmp_path: Path) -> None:
    rule, breach = PLANTED[source]
    (tmp_path / "model").mkdir()
    planted = tmp_path / "model" / "planted.py"
    planted.write_text('"""Planted."""\n')
    assert rule(tmp_path) == []
    planted.write_text('"""Planted."""\n' + source.rstrip("\n") + "\n")
    assert rule(tmp_path) == [breach]


def test_what_is_allowed_passes(tmp_path: Path) -> None:
    files = {
        "kernels/rms/npu.py": "import torch_npu\nimport torch\ntorch.npu.synchronize()",
        "device.py": "import torch\ntorch.accelerator.is_available()\nKIND = 'npu'",
        "launch/environment.py": "NAME = 'HCCL_ALGO'\nWHERE = 'hcclug'\nNOTE = 'an npu of the machine'",
        "results.py": "def write():\n    '''Write.'''\n    from trex.report.figures import png",
        "model/config.py": "from trex.kernels import ops\nfrom . import layout\nfrom .layout import Layout",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f'"""Allowed."""\n{text}\n')
    for rule in (wrong_arrows, long_modules, undocumented, device_names, machine_names, unfinished):
        assert rule(tmp_path) == []


def test_a_module_in_no_room_is_found(tmp_path: Path) -> None:
    (tmp_path / "helpers.py").write_text('"""Anything."""\n')
    assert wrong_arrows(tmp_path) == ["helpers.py is in no room"]
