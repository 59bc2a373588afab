"""Write the public names of a torch release, read from its source files without importing it.

python tests/tools/torch_api.py FOLDER > tests/data_files/torch_2_7_api.txt

FOLDER holds the release's `torch` package, for instance a wheel that was unpacked:
    pip download --no-deps --only-binary=:all: --platform manylinux_2_28_aarch64 --python-version 311 torch==2.7.1
    unzip torch-2.7.1-*.whl '*.py' '*.pyi' -d FOLDER

One line per module, then one tab-indented line per name in it:
    name                         a value, or something whose parameters the sources do not show
    name(a b **)                 a function and its parameters; ** where it takes any keyword
    name(a b) < base : x y       a class: its constructor's parameters, listed base classes, other attributes
    name = torch.module.name     the same as another listed name
"""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

# left out: export formats, quantisation, private packages, packages of other devices
LEFT_OUT = (
    "torch.ao", "torch.contrib", "torch.distributions", "torch.export", "torch.fx.experimental", "torch.fx.passes",
    "torch.jit", "torch.masked", "torch.mps", "torch.mtia", "torch.nn.intrinsic", "torch.nn.qat",
    "torch.nn.quantizable", "torch.nn.quantized", "torch.onnx", "torch.package", "torch.quantization",
    "torch.testing", "torch.utils.benchmark", "torch.utils.bottleneck", "torch.utils.hipify", "torch.utils.jit",
    "torch.utils.model_dump", "torch.utils.tensorboard", "torch.utils.viz", "torch.xpu",
)  # fmt: skip

PRIVATE_BY_NAME_ONLY = ("torch.utils._python_dispatch", "torch.utils._pytree")  # how others extend torch


@dataclass(frozen=True)
class Entry:
    """What a name stands for: value, function, class, module, or (while resolving) an alias of another name."""

    kind: str
    parameters: frozenset[str] | None = None  # None: not known; "**" among them: any keyword
    attributes: frozenset[str] = frozenset()
    bases: tuple[str, ...] = ()
    target: str = ""


@dataclass
class Module:
    """The names that one module binds, in either branch of conditions, `.py` and `.pyi` together."""

    name: str
    package: str
    names: dict[str, Entry] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)
    exported: set[str] | None = None  # __all__, where it is a plain list

    def add(self, name: str, entry: Entry) -> None:
        """Bind a name; overloads and stubs add up to the union of what they accept."""
        old = self.names.get(name)
        if old is not None and {old.kind, entry.kind} <= {"function", "class"}:
            known = [e.parameters for e in (old, entry) if e.parameters is not None]
            parameters = frozenset().union(*known) if known else None
            attributes = old.attributes | entry.attributes
            kind = "class" if "class" in (old.kind, entry.kind) else "function"
            entry = Entry(kind, parameters, attributes, old.bases + entry.bases)
        elif old is not None and entry.kind in ("value", "alias"):
            return
        self.names[name] = entry

    def read(self, body: list[ast.stmt]) -> None:
        """Add what the statements bind."""
        for node in body:
            match node:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    self.add(node.name, Entry("function", _parameters(node)))
                case ast.ClassDef():
                    self.add(node.name, self._class(node))
                case ast.Import():
                    for alias in node.names:
                        bound = alias.asname or alias.name.partition(".")[0]
                        self.add(bound, Entry("alias", target=alias.name if alias.asname else bound))
                case ast.ImportFrom():
                    source = self._source(node)
                    for alias in node.names:
                        if alias.name == "*":
                            self.stars.append(source)
                        else:
                            self.add(alias.asname or alias.name, Entry("alias", target=f"{source}.{alias.name}"))
                case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
                    self._assign(node)
                case ast.If() | ast.Try() | ast.With() | ast.For() | ast.While():
                    for part in _branches(node):
                        self.read(part)
                case _:
                    pass

    def _assign(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            for name in [target] if isinstance(target, ast.Name) else getattr(target, "elts", []):
                if not isinstance(name, ast.Name):
                    continue
                if name.id == "__all__":
                    self.exported = (self.exported or set()) | set(_strings(node.value))
                    continue
                source = node.value
                if isinstance(source, ast.Call) and "add_docstr" in ast.unparse(source.func) and source.args:
                    source = source.args[0]  # documented builtins: name = _add_docstr(builtin, "...")
                if isinstance(source, ast.Name | ast.Attribute):
                    self.add(name.id, Entry("alias", target=self._dotted(ast.unparse(source))))
                else:
                    self.add(name.id, Entry("value"))

    def _class(self, node: ast.ClassDef) -> Entry:
        attributes, constructors = set(), []
        for item in _flat(node.body):
            match item:
                case ast.FunctionDef():
                    attributes.add(item.name)
                    if item.name in ("__init__", "__new__"):
                        constructors.append(_parameters(item))
                    if item.name == "__init__":
                        attributes |= set(_self_attributes(item))
                case ast.ClassDef():
                    attributes.add(item.name)
                case ast.Assign():
                    attributes |= {name.id for name in item.targets if isinstance(name, ast.Name)}
                case ast.AnnAssign() if isinstance(item.target, ast.Name):
                    attributes.add(item.target.id)
        bases = tuple(self._dotted(ast.unparse(base)) for base in node.bases if not isinstance(base, ast.Subscript))
        decorated = any("dataclass" in ast.unparse(item) for item in node.decorator_list)
        named = any(base.endswith("NamedTuple") for base in bases)
        if constructors:
            return Entry("class", frozenset().union(*constructors), frozenset(attributes), bases)
        annotated = [item.target for item in node.body if isinstance(item, ast.AnnAssign)]
        fields = frozenset(target.id for target in annotated if isinstance(target, ast.Name))
        return Entry("class", fields if decorated or named else None, frozenset(attributes), bases)

    def _dotted(self, text: str) -> str:
        """A name as this module writes it, from the root: through what the module itself binds."""
        first, _, rest = text.partition(".")
        own = self.names.get(first)
        start = own.target if own is not None and own.kind == "alias" else f"{self.name}.{first}"
        return f"{start}.{rest}" if rest else start

    def _source(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return str(node.module)
        parts = self.package.split(".")
        base = ".".join(parts[: len(parts) - node.level + 1])
        return f"{base}.{node.module}" if node.module else base


class Release:
    """A torch package on disk; names are looked up through re-exports, star imports and base classes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._modules: dict[str, Module | None] = {}

    @cached_property
    def files(self) -> dict[str, list[Path]]:
        """Module name → its .py and .pyi."""
        found: dict[str, list[Path]] = {}
        for path in sorted(self.folder.glob("torch/**/*.py*")):
            if path.suffix in (".py", ".pyi"):
                parts = path.relative_to(self.folder).with_suffix("").parts
                found.setdefault(".".join(parts[:-1] if parts[-1] == "__init__" else parts), []).append(path)
        return found

    def module(self, name: str) -> Module | None:
        """The module's names; None where there is no such module."""
        if name not in self._modules:
            paths = self.files.get(name)
            self._modules[name] = None
            if paths:
                package = name if paths[0].stem == "__init__" else name.rpartition(".")[0]
                module = Module(name, package)
                for path in paths:
                    module.read(ast.parse(path.read_text(encoding="utf-8")).body)
                self._modules[name] = module
        return self._modules[name]

    def names(self, module: Module, seen: frozenset[str] = frozenset()) -> set[str]:
        """All names of a module: its own, those of star imports, its submodules."""
        if module.name in seen:
            return set()
        found = set(module.names)
        for source in module.stars:
            if (other := self.module(source)) is not None:
                theirs = self.names(other, seen | {module.name})
                found |= theirs & other.exported if other.exported else {n for n in theirs if not n.startswith("_")}
        prefix = module.name + "."
        return found | {name.removeprefix(prefix) for name in self.files if name.rpartition(".")[0] == module.name}

    def find(self, name: str, seen: frozenset[str] = frozenset()) -> tuple[str, Entry] | None:
        """Where the dotted name is defined, and as what; None where the release has no such name."""
        if name in seen:
            return None
        seen |= {name}
        if name in self.files:
            return name, Entry("module")
        parent, _, last = name.rpartition(".")
        module = self.module(parent)
        if module is None:
            owner = self.find(parent, seen) if parent else None
            return (name, Entry("value")) if owner is not None and owner[1].kind in ("value", "class") else None
        entry = module.names.get(last)
        if entry is None:
            found = (self.find(f"{source}.{last}", seen) for source in module.stars)
            return next((item for item in found if item is not None), None)
        if entry.kind != "alias":
            return name, entry
        root = entry.target.partition(".")[0]
        if root != "torch":  # the standard library, typing and the like; torch.pi and torch.inf are math's
            return (name, Entry("value")) if root == "math" else None
        return self.find(entry.target, seen) or (name, Entry("value"))

    def listed(self, name: str) -> bool:
        """Whether the listing has a line for this module."""
        hidden = any(part.startswith("_") and not part.startswith("__") for part in name.split("."))
        private = hidden and name not in PRIVATE_BY_NAME_ONLY
        left_out = any(name == left or name.startswith(left + ".") for left in LEFT_OUT)
        return name in self.files and not private and not left_out

    @cached_property
    def bound(self) -> dict[str, tuple[str, Entry]]:
        """Every public name of a listed module → where it is defined, and as what."""
        found = {}
        for name in filter(self.listed, sorted(self.files)):
            module = self.module(name)
            for last in sorted(self.names(module)) if module is not None else ():
                definition = None if last.startswith("_") else self.find(f"{name}.{last}")
                if definition is not None:
                    found[f"{name}.{last}"] = definition
        return found

    @cached_property
    def homes(self) -> dict[str, str]:
        """Where a name is defined → the listed name it is described under: its own, else the shortest."""
        found: dict[str, str] = {}
        pairs = [(name, where) for name, (where, _) in self.bound.items()]
        for name, where in sorted(pairs, key=lambda pair: (pair[0] != pair[1], pair[0].count("."))):
            found.setdefault(where, name)
        return found

    def class_shape(self, entry: Entry, seen: frozenset[str] = frozenset()) -> tuple[Entry, list[str]]:
        """A class with what it inherits from classes that are not listed, and the bases that are."""
        parameters, attributes, bases = entry.parameters, entry.attributes, []
        for base in entry.bases:
            found = self.find(base) if base not in seen else None
            if found is None or found[1].kind != "class":
                continue
            inherited, further = self.class_shape(found[1], seen | {base})
            parameters = inherited.parameters if parameters is None else parameters
            if found[0] in self.homes:
                bases.append(self.homes[found[0]])
            else:
                attributes |= inherited.attributes
                bases += further
        return Entry("class", parameters, attributes), bases

    def lines(self) -> Iterator[str]:
        """The listing, line by line."""
        module = ""
        for name, (where, entry) in sorted(self.bound.items(), key=lambda item: item[0].rpartition(".")[::2]):
            parent, _, last = name.rpartition(".")
            if parent != module:
                module = parent
                yield module
            yield f"\t{last}{self._shape(name, where, entry)}"

    def _shape(self, name: str, where: str, entry: Entry) -> str:
        if entry.kind == "module":
            return "" if name == where else f" = {where}"
        if self.homes[where] != name:
            return f" = {self.homes[where]}"
        bases: list[str] = []
        if entry.kind == "class":
            entry, bases = self.class_shape(entry)
        text = "" if entry.parameters is None else f"({' '.join(sorted(entry.parameters))})"
        if entry.kind == "class":
            public = sorted(attribute for attribute in entry.attributes if not attribute.startswith("_"))
            text += "".join(f" < {base}" for base in bases) + f" : {' '.join(public)}"
        return text.rstrip()


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> frozenset[str]:
    arguments = node.args
    names = {a.arg for a in arguments.args + arguments.kwonlyargs} - {"self", "cls"}
    return frozenset(names | ({"**"} if arguments.kwarg else set()))


def _branches(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    yield node.body  # type: ignore[attr-defined]
    yield getattr(node, "orelse", [])
    yield getattr(node, "finalbody", [])
    for handler in getattr(node, "handlers", []):
        yield handler.body


def _flat(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        if isinstance(node, ast.If | ast.Try | ast.With):
            for part in _branches(node):
                yield from _flat(part)
        else:
            yield node


def _self_attributes(node: ast.FunctionDef) -> Iterator[str]:
    for item in ast.walk(node):
        if isinstance(item, ast.Attribute) and isinstance(item.ctx, ast.Store) and ast.unparse(item.value) == "self":
            yield item.attr


def _strings(node: ast.expr | None) -> Iterator[str]:
    for item in ast.walk(node) if node is not None else ():
        if isinstance(item, ast.Constant) and isinstance(item.value, str):
            yield item.value


if __name__ == "__main__":
    if len(sys.argv) != 2 or not (Path(sys.argv[1]) / "torch" / "__init__.py").exists():
        sys.exit(__doc__)
    print("\n".join(Release(Path(sys.argv[1])).lines()))
