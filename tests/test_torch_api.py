"""src/trex uses nothing of torch that release 2.7 lacks, except behind a guard: NPU nodes run older stacks.

A guard is `try: … except ImportError | AttributeError`, or an `if` that asks `hasattr`, `getattr` or a version.
What 2.7 has is listed in data_files/torch_2_7_api.txt, written by tools/torch_api.py from the sources of torch 2.7.1.
"""

import ast
import builtins
import importlib
import re
import runpy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.distributed.tensor
import torch.optim

from trex import paths
from trex.launch import notebooks

TESTS = Path(__file__).parent
LISTING = TESTS / "data_files" / "torch_2_7_api.txt"
EXTRACTION = runpy.run_path(str(TESTS / "tools" / "torch_api.py"))
LINE = re.compile(
    r"(?P<name>\w+)(\((?P<parameters>[^)]*)\))?( = (?P<target>\S+))?(?P<bases>( < \S+)*)(?P<attributes> :.*)?"
)
GUARDS = {"ImportError", "ModuleNotFoundError", "AttributeError"}


@dataclass(frozen=True)
class Known:
    """What the listing says of a name; None where it says nothing."""

    parameters: frozenset[str] | None = None
    attributes: frozenset[str] | None = None
    bases: tuple[str, ...] = ()
    target: str | None = None
    module: bool = False


class Listing:
    """The names of a torch release."""

    def __init__(self, text: str) -> None:
        self.names: dict[str, Known] = {}
        module = ""
        for line in text.splitlines():
            if not line.startswith("\t"):
                module = line
                self.names[module] = Known(module=True)
                continue
            found = LINE.fullmatch(line[1:])
            assert found is not None, line
            known = self.names.get(f"{module}.{found['name']}")
            parameters, attributes = found["parameters"], found["attributes"]
            self.names[f"{module}.{found['name']}"] = Known(
                None if parameters is None else frozenset(parameters.split()),
                None if attributes is None else frozenset(attributes[2:].split()),
                tuple(found["bases"].split(" < ")[1:]),
                found["target"],
                known is not None and known.module,
            )

    def find(self, name: str) -> Known | None:
        """What a dotted name stands for; None where the release has none of that name."""
        known = self.names.get(name)
        if known is not None:
            return self.find(known.target) if known.target else known
        parent, _, last = name.rpartition(".")
        owner = self.find(parent) if parent else None
        if owner is None:
            return None
        if owner.attributes is not None:
            return Known() if last in self.attributes(owner) else None
        where = self.names.get(parent)
        if where is not None and where.target and owner.module:
            return self.find(f"{where.target}.{last}")
        return None if owner.module or owner.parameters is not None else Known()  # an object: what it has is not listed

    def attributes(self, known: Known) -> frozenset[str]:
        """Attributes of a class, inherited ones included."""
        inherited = [self.attributes(base) for name in known.bases if (base := self.find(name)) is not None]
        return (known.attributes or frozenset()).union(*inherited)


class Check(ast.NodeVisitor):
    """Collects, from one source text, unguarded uses of torch that the listing lacks."""

    def __init__(self, listing: Listing, new_methods: frozenset[str]) -> None:
        self.listing, self.new_methods = listing, new_methods
        self.problems: list[str] = []
        self.aliases: dict[str, str] = {}
        self.guarded = False

    def run(self, source: str) -> list[str]:
        """One sentence per use, with its line."""
        tree = ast.parse(source)
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for item in node.names:
                    if item.name.partition(".")[0] == "torch":
                        self.aliases[item.asname or "torch"] = item.name if item.asname else "torch"
            elif isinstance(node, ast.ImportFrom) and not node.level and str(node.module).partition(".")[0] == "torch":
                for item in node.names:
                    self.aliases[item.asname or item.name] = f"{node.module}.{item.name}"
        self.visit(tree)
        return self.problems

    def tell(self, node: ast.AST, text: str) -> None:
        """Record a problem unless a guard surrounds it."""
        if not self.guarded:
            self.problems.append(f"line {node.lineno}: {text}")  # type: ignore[attr-defined]

    def within_guard(self, nodes: list[Any]) -> None:
        """Visit nodes whose uses are guarded."""
        before, self.guarded = self.guarded, True
        for node in nodes:
            self.visit(node)
        self.guarded = before

    def dotted(self, node: ast.expr) -> str | None:
        """The full name of an attribute chain that begins at an imported torch name."""
        if isinstance(node, ast.Name):
            return self.aliases.get(node.id)
        if isinstance(node, ast.Attribute) and (base := self.dotted(node.value)) is not None:
            return f"{base}.{node.attr}"
        return None

    def visit_Import(self, node: ast.Import) -> None:
        for item in node.names:
            if item.name.partition(".")[0] == "torch" and self.listing.find(item.name) is None:
                self.tell(node, f"{item.name} is not in torch 2.7")

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if not node.level and str(node.module).partition(".")[0] == "torch":
            for item in node.names:
                if self.listing.find(f"{node.module}.{item.name}") is None:
                    self.tell(node, f"{node.module}.{item.name} is not in torch 2.7")

    def visit_Try(self, node: ast.Try) -> None:
        caught = {name.id for h in node.handlers if h.type for name in ast.walk(h.type) if isinstance(name, ast.Name)}
        if caught & GUARDS:
            self.within_guard(node.body)
            for item in [*node.handlers, *node.orelse, *node.finalbody]:
                self.visit(item)
        else:
            self.generic_visit(node)

    def visit_If(self, node: ast.If | ast.IfExp) -> None:
        asks = ast.unparse(node.test)
        if re.search(r"\b(hasattr|getattr)\(|__version__|\bversion\(", asks):
            self.within_guard(list(ast.iter_child_nodes(node)))
        else:
            self.generic_visit(node)

    visit_IfExp = visit_If

    def visit_Call(self, node: ast.Call) -> None:
        known = self.listing.find(name) if (name := self.dotted(node.func)) else None
        if known is not None and known.parameters is not None and "**" not in known.parameters:
            for keyword in node.keywords:
                if keyword.arg is not None and keyword.arg not in known.parameters:
                    self.tell(node, f"{name} has no parameter {keyword.arg!r} in torch 2.7")
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        name = self.dotted(node)
        if name is None:
            if node.attr in self.new_methods:
                self.tell(node, f"Tensor.{node.attr} is not in torch 2.7")
            self.generic_visit(node)
        elif self.listing.find(name) is None:
            self.tell(node, f"{name} is not in torch 2.7")


@cache
def listing() -> Listing:
    return Listing(LISTING.read_text())


@cache
def installed() -> Any:
    """The installed torch, read from its sources as the listed one was."""
    return EXTRACTION["Release"](Path(torch.__file__).parents[1])


def class_attributes(name: str) -> set[str]:
    """Attributes of a class of the installed torch according to its sources."""
    shape, bases = installed().class_shape(installed().find(name)[1])
    return set(shape.attributes).union(*map(class_attributes, bases))


@cache
def new_methods() -> frozenset[str]:
    """Public attributes that Tensor has gained since 2.7, without those that builtin types have too (`index`)."""
    old = listing().find("torch.Tensor")
    assert old is not None
    types = [value for value in vars(builtins).values() if isinstance(value, type)]
    common = {name for builtin in types for name in dir(builtin)}
    new = class_attributes("torch.Tensor") - listing().attributes(old) - common
    return frozenset(name for name in new if not name.startswith("_"))


def problems(source: str) -> list[str]:
    return Check(listing(), new_methods()).run(source)


MODULES = sorted((paths.CHECKOUT / "src" / "trex").rglob("*.py"))
NOTEBOOKS = notebooks.find()


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(paths.CHECKOUT / "src")))
def test_the_package_keeps_to_torch_2_7(path: Path) -> None:
    assert problems(path.read_text()) == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=notebooks.name)
def test_the_notebooks_keep_to_torch_2_7(path: Path) -> None:
    cells = [cell.source for cell in notebooks.read(path).cells if cell.cell_type == "code"]
    assert problems("\n".join(cells)) == []


NEWER = {  # in the installed torch, not in 2.7
    "import torch\ntorch.optim.Muon(x)": "line 2: torch.optim.Muon is not in torch 2.7",
    "from torch.optim import Muon": "line 1: torch.optim.Muon is not in torch 2.7",
    "import torch.nn.functional as F\ny = F.grouped_mm(a, b)": (
        "line 2: torch.nn.functional.grouped_mm is not in torch 2.7"
    ),
    "from torch import nn\nx = nn.functional.scaled_mm": "line 2: torch.nn.functional.scaled_mm is not in torch 2.7",
    "import torch.accelerator.memory": "line 1: torch.accelerator.memory is not in torch 2.7",
    "from torch import Tensor\ndef f(x: Tensor) -> Tensor:\n    return (x + 1).hash_tensor()": (
        "line 3: Tensor.hash_tensor is not in torch 2.7"
    ),
    "import torch\ntorch.Tensor.hash_tensor(x)": "line 2: torch.Tensor.hash_tensor is not in torch 2.7",
    "from torch import distributed as dist\ndist.barrier(timeout=t)": (
        "line 2: torch.distributed.barrier has no parameter 'timeout' in torch 2.7"
    ),
    "from torch.distributed.device_mesh import init_device_mesh as mesh\nmesh('cpu', (2,), backend_override={})": (
        "line 2: torch.distributed.device_mesh.init_device_mesh has no parameter 'backend_override' in torch 2.7"
    ),
}


newer_torch = pytest.mark.skipif(
    not hasattr(torch.optim, "Muon"), reason="the installed torch is as old as the listing"
)


@newer_torch
@pytest.mark.parametrize("source", NEWER)
def test_what_is_newer_is_found(source: str) -> None:
    assert problems(source) == [NEWER[source]]


@pytest.mark.parametrize(
    "source",
    [
        "try:\n    from torch.optim import Muon\nexcept ImportError:\n    Muon = None",
        "import torch\ntry:\n    f = torch.nn.functional.grouped_mm\nexcept AttributeError:\n    f = None",
        "import torch\nif hasattr(torch.optim, 'Muon'):\n    use = torch.optim.Muon",
        "import torch\nuse = torch.optim.Muon if hasattr(torch.optim, 'Muon') else torch.optim.AdamW",
        "import torch\nif torch.__version__ >= '2.9':\n    torch.optim.Muon(x)",
    ],
)
def test_what_is_newer_may_be_guarded(source: str) -> None:
    assert problems(source) == []


def test_a_guard_covers_only_what_it_guards() -> None:
    source = "import torch\ntry:\n    f = torch.optim.Muon\nexcept ImportError:\n    f = torch.optim.Muon"
    assert problems(source) == ["line 5: torch.optim.Muon is not in torch 2.7"]
    caught_other = "import torch\ntry:\n    f = torch.optim.Muon\nexcept OSError:\n    pass"
    assert problems(caught_other) == ["line 3: torch.optim.Muon is not in torch 2.7"]


def test_what_2_7_has_passes() -> None:
    source = """
import torch, torch.distributed as dist, torch.nn.functional as F
from torch.distributed.tensor import DTensor, Shard
torch.accelerator.current_device_index()
torch.optim.AdamW(p, lr=1e-3, fused=True)
F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
DTensor.from_local(x, mesh, [Shard(0)], run_check=False)
dist.init_process_group(backend="gloo", rank=0, world_size=1, store=store)
dist.ReduceOp.SUM, torch.float8_e4m3fn, torch.pi, torch.backends.cuda.matmul.allow_tf32
x.index_add_(0, i, v).index(3)
"""
    assert problems(source) == []


@newer_torch
def test_the_newer_names_are_real() -> None:
    """The examples above exist here, so it is their age that the check finds and not a misspelling."""
    from torch.distributed.device_mesh import init_device_mesh

    assert callable(torch.optim.Muon) and callable(torch.nn.functional.grouped_mm) and torch.accelerator.memory
    assert {"hash_tensor", "grad_dtype"} <= new_methods() <= set(dir(torch.Tensor))
    for function, parameter in ((torch.distributed.barrier, "timeout"), (init_device_mesh, "backend_override")):
        assert parameter in function.__code__.co_varnames or parameter in function.__wrapped__.__code__.co_varnames


PACKAGES = "nn", "nn.functional", "optim", "distributed", "distributed.tensor", "autograd"


@pytest.mark.filterwarnings("ignore:`torch.distributed.reduce_op` is deprecated")
@pytest.mark.parametrize("name", PACKAGES)
def test_reading_sources_finds_what_running_them_binds(name: str) -> None:
    """The extraction misses no public name of the installed torch, whose names can be asked for."""
    module = importlib.import_module(f"torch.{name}")

    def of_torch(value: object) -> bool:
        home = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
        return str(home).partition(".")[0] in ("torch", "None")

    public = [n for n in dir(module) if not n.startswith("_") and n != "TYPE_CHECKING" and of_torch(getattr(module, n))]
    assert len(public) > 10
    assert [n for n in public if installed().find(f"torch.{name}.{n}") is None] == []


def test_the_extraction_follows_a_small_package(tmp_path: Path) -> None:
    files = {
        "__init__.py": "from math import pi\nfrom torch._hidden import *\n"
        "from .part import Child as Renamed, shared\nimport os",
        "_hidden.py": "__all__ = ['given']\ndef given(a, *, b, **rest): ...\ndef kept_back(): ...",
        "part.py": "import torch\nclass Base:\n  x: int\n  def f(self, y): self.z = 1\nclass Child(Base):\n"
        "  def __init__(self, size, /, name=None):\n    self.name = name\nif torch:\n  shared = 1\nelse:\n  other = 2",
        "part.pyi": "def only_in_stub(a: int) -> int: ...\ndef only_in_stub(b: str) -> str: ...",
    }
    (tmp_path / "torch").mkdir()
    for name, text in files.items():
        (tmp_path / "torch" / name).write_text(text)
    assert list(EXTRACTION["Release"](tmp_path).lines()) == [
        "torch",
        "\tRenamed = torch.part.Child",
        "\tgiven(** a b)",
        "\tpart",
        "\tpi",
        "\tshared = torch.part.shared",
        "torch.part",
        "\tBase : f x",
        "\tChild(name) < torch.part.Base : name",
        "\tonly_in_stub(a b)",
        "\tother",
        "\tshared",
        "\ttorch = torch",
    ]
