"""Texts that are on every machine with T-Rex: Python's own library and what ships with installed packages.

They stand in for corpora that a user does not have at hand, and are labelled as what they are: each text has its
package, version and licence. What they are depends on what is installed; a mixture's card lists it.
"""

import ast
import importlib.util
import platform
import re
import sys
import sysconfig
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from trex.data.mixture.text import Text
from trex.data.problem import DataError

PYTHON = "PSF-2.0"  # licence of CPython's library and documentation
# package -> folders whose docstrings explain mathematics
MATHEMATICS = {
    "mpmath": ("calculus", "functions", "matrices"),
    "networkx": ("algorithms", "generators", "linalg"),
    "numpy": ("fft", "lib", "linalg", "ma", "polynomial", "random"),
    "sympy": (
        "calculus", "combinatorics", "concrete", "discrete", "functions", "geometry", "integrals", "logic", "matrices",
        "ntheory", "series", "sets", "solvers", "stats", "vector",
    ),
}  # fmt: skip
NOT_CODE = {"test", "tests", "idlelib", "lib2to3", "site-packages", "pydoc_data", "turtledemo", "__pycache__"}
LEAST = 400  # characters; what is shorter explains nothing
# licences that allow the texts to be copied on with their notice
OPEN = re.compile(r"\b(?:MIT|BSD|Apache|PSF|PSFL|ISC|0BSD|Zlib|HPND|CNRI-Python|Python Software Foundation)\b", re.I)
NOT_OPEN = re.compile(r"\b(?:[AL]?GPL|GNU|Proprietary|Commercial|MPL|Mozilla|CC-BY-\w*(?:NC|ND)\w*)\b", re.I)


def embedded(kind: str) -> Iterator[Text]:
    """Texts of one of recipe.EMBEDDED in a fixed order. Raises DataError where nothing for it is installed."""
    return {"mathematics": mathematics, "code": code, "text": text}[kind]()


def mathematics() -> Iterator[Text]:
    """Docstrings of modules of mathematics, those of a module together. Packages that are not installed are left out.

    Raises DataError where none is.
    """
    present = {name: root for name in MATHEMATICS if (root := _root(name)) is not None}
    if not present:
        raise DataError(f"none of {', '.join(MATHEMATICS)} is installed; accepted: a source with a path")
    for package, root in present.items():
        found = metadata.distribution(package)
        for folder in MATHEMATICS[package]:
            for path in sorted((root / folder).rglob("*.py")):
                if not NOT_CODE.intersection(path.parts[len(root.parts) :]):
                    module = ".".join((package, *path.relative_to(root).with_suffix("").parts))
                    explained = _docstrings(path, module.removesuffix(".__init__"))
                    if len(explained) >= LEAST:
                        yield Text(explained, module, licence(found), f"{package} {found.version}")


def code() -> Iterator[Text]:
    """The modules of Python's library as they are written, tests and private machinery of its tools left out."""
    root = Path(sysconfig.get_path("stdlib"))
    version = f"Python {platform.python_version()}"
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).parts
        top = parts[0].removesuffix(".py")
        if top in sys.stdlib_module_names and not NOT_CODE.intersection(parts) and not top.startswith("_sysconfig"):
            written = _read(path)
            if len(written) >= LEAST:
                yield Text(written, "/".join(parts), PYTHON, version)


def text() -> Iterator[Text]:
    """Python's language reference by topic; descriptions and licences of installed packages under open licences."""
    from pydoc_data.topics import topics

    for name in sorted(topics):
        yield Text(topics[name], f"Python reference, {name}", PYTHON, f"Python {platform.python_version()}")
    found = {one.metadata["Name"]: one for one in metadata.distributions() if one.metadata["Name"]}
    for name in sorted(found):
        stated = licence(found[name])
        if not OPEN.search(stated) or NOT_OPEN.search(stated):
            continue
        package = f"{name} {found[name].version}"
        described = str(found[name].metadata.json.get("description", ""))
        if len(described.strip()) >= LEAST:
            yield Text(described, f"{name}, description", stated, package)
        for path in sorted(found[name].files or (), key=str):
            if path.suffix in ("", ".txt", ".md", ".rst") and re.match(r"(?i)licen[cs]e|copying", path.name):
                written = _read(Path(str(path.locate())))
                if len(written) >= LEAST:
                    yield Text(written, f"{name}, {path.name}", stated, package)


def licence(package: metadata.Distribution) -> str:
    """The licence that a package's metadata states: its expression, field in one line, or classifiers; else ""."""
    fields = package.metadata.json
    stated = str(fields.get("license_expression", ""))
    if not stated:
        field = str(fields.get("license", "")).strip()
        stated = field.splitlines()[0].strip() if field and field != "UNKNOWN" else ""
    if not stated:
        classifiers = package.metadata.get_all("Classifier") or []
        stated = " AND ".join(one.split(" :: ")[-1] for one in classifiers if one.startswith("License :: "))
    return stated[:120]


def _root(package: str) -> Path | None:
    """Where a package lies, found without importing it; None where it is not installed."""
    found = importlib.util.find_spec(package)
    places = found.submodule_search_locations if found else None
    return Path(places[0]) if places else None


def _read(path: Path) -> str:
    """The text of a file, "" for one that is no UTF-8 or is gone."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _docstrings(path: Path, module: str) -> str:
    """All docstrings of a module under the names that they explain, in the order of the file."""
    try:
        tree = ast.parse(_read(path))
    except (SyntaxError, ValueError, RecursionError):
        return ""
    parts = []

    def visit(node: ast.AST, name: str) -> None:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if explained := ast.get_docstring(node):
                parts.append(f"# {name}\n\n{explained}\n")
            for child in node.body:
                if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                    visit(child, f"{name}.{child.name}")

    visit(tree, module)
    return "\n".join(parts)
