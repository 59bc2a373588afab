"""pyproject.toml is the only list of dependencies, it is complete, and it resolves where NPU nodes need it to."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml

from trex import paths

OPTIONAL = (
    "gurobi",
    "cluster",
    "ascend",
    "ingest",
    "modelscope",
    "serve",
    "eval",
)  # extras whose packages src/trex may import where they are needed
WITH_EXTRA = {
    "serve/app.py": "serve",
    "serve/server.py": "serve",
    "eval/tasks.py": "eval",
}  # modules that only a user of the extra imports
NEVER_IMPORTED = {"ipykernel": "the kernel that runs the notebooks"}
IMPORT_NAMES = {
    "torch_npu": "torch-npu",
    "gurobipy": "gurobipy",
    "ray": "ray",
    "modelscope_hub": "modelscope-hub",
    "inspect_ai": "inspect-ai",
}  # may not be installed


@cache
def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((paths.CHECKOUT / "pyproject.toml").read_text())["project"]
    return found


@cache
def installed() -> Mapping[str, list[str]]:
    """Import name → the distributions that provide it."""
    return metadata.packages_distributions()


def distribution(text: str) -> str:
    """The normalised name at the head of a requirement."""
    name = re.match(r"[A-Za-z0-9._-]+", text)
    assert name is not None, text
    return re.sub(r"[-_.]+", "-", name[0]).lower()


def declared(extra: str | None = None) -> set[str]:
    listed = project()["dependencies"] if extra is None else project()["optional-dependencies"][extra]
    return {distribution(item) for item in listed}


def imports(tree: ast.AST, late: bool = False) -> Iterator[tuple[str, int, bool]]:
    """Top-level names of third-party imports, their lines, and whether they are late: in a function or a `try`."""
    for node in ast.iter_child_nodes(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [item.name for item in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [str(node.module)]
        elif isinstance(node, ast.Call) and re.search(r"\b(import_module|find_spec)$", ast.unparse(node.func)):
            names = [item.value for item in node.args if isinstance(item, ast.Constant)]
        for name in names:
            root = name.partition(".")[0]
            if root not in sys.stdlib_module_names and root != "trex":
                yield root, getattr(node, "lineno", 0), late
        yield from imports(
            node, late or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.Try)
        )


def undeclared(source: str, extra: str | None = None) -> list[str]:
    """Imports of one module that pyproject does not declare, or only in an extra though every user would need them.

    extra: the one that the whole module belongs to.
    """
    optional = set().union(*map(declared, OPTIONAL))
    needed = declared() | (declared(extra) if extra else set())
    found = []
    for name, line, late in imports(ast.parse(source)):
        names = {distribution(item) for item in installed().get(name, [IMPORT_NAMES.get(name, name)])}
        if names & needed or (late and names & optional):
            continue
        found.append(f"line {line}: {name}" + (" is declared in an extra only" if names & optional else ""))
    return found


MODULES = sorted((paths.CHECKOUT / "src" / "trex").rglob("*.py"))


def test_conda_installs_python_and_the_project_only() -> None:
    environment = yaml.safe_load((paths.CHECKOUT / "environment.yml").read_text())
    assert environment == {
        "name": "trex",
        "channels": ["conda-forge"],
        "dependencies": ["python=3.11", "pip", {"pip": ["-e .[dev]"]}],
    }
    assert "3.11" in project()["requires-python"]


def test_there_is_no_second_list_of_dependencies() -> None:
    others = ("requirements*.txt", "requirements*.in", "setup.py", "setup.cfg", "Pipfile*", "uv.lock", "poetry.lock")
    assert [path.name for pattern in others for path in paths.CHECKOUT.glob(pattern)] == []


def test_torch_and_the_extras_are_declared() -> None:
    assert "torch>=2.7.1,<2.14" in project()["dependencies"]
    assert set(project()["optional-dependencies"]) == {"dev", "oracles", *OPTIONAL}
    assert "gurobipy" in declared("gurobi") and "ray" in declared("cluster") and "torch-npu" in declared("ascend")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(paths.CHECKOUT / "src")))
def test_every_import_is_declared(path: Path) -> None:
    extra = WITH_EXTRA.get(path.relative_to(paths.CHECKOUT / "src" / "trex").as_posix())
    assert undeclared(path.read_text(), extra) == []


def test_every_declared_package_is_used() -> None:
    used = {name for path in MODULES for name, _, _ in imports(ast.parse(path.read_text()))}
    imported = {distribution(item) for name in used for item in installed().get(name, [])}
    assert declared() - imported == set(NEVER_IMPORTED)


def test_undeclared_imports_are_found() -> None:
    assert undeclared("import os\nimport numpy.linalg\nfrom yaml import safe_load") == []
    assert undeclared("import pytest") == ["line 1: pytest"]
    assert undeclared("def f():\n    from no_such_package.part import x") == ["line 2: no_such_package"]
    by_name = "import importlib\nimportlib.import_module('no_such_package.part')"
    assert undeclared(by_name) == ["line 2: no_such_package"]
    assert undeclared("import torch_npu") == ["line 1: torch_npu is declared in an extra only"]
    assert undeclared("try:\n    import torch_npu\nexcept ImportError:\n    pass") == []


@pytest.mark.registry
@pytest.mark.parametrize("release", ["2.7.1", "2.13"])
def test_the_ascend_extra_resolves_for_npu_nodes(release: str, tmp_path: Path) -> None:
    """Wheels for aarch64 Linux exist of everything, with torch and torch_npu of the same release."""
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    assert uv is not None, "uv is not installed"
    (tmp_path / "constraints.txt").write_text(f"torch=={release}.*\n")
    command = [
        uv, "pip", "compile", "pyproject.toml", "--extra", "ascend", "--constraints", str(tmp_path / "constraints.txt"),
        "--python-platform", "aarch64-manylinux_2_28", "--python-version", "3.11", "--only-binary", ":all:",
        "--no-header", "--no-annotate", "--quiet", "--output-file", str(tmp_path / "resolved.txt"),
    ]  # fmt: skip
    # a folder of wheels or a choice of CPU build made for this machine does not hold for the node
    left_out = ("PIP_FIND_LINKS", "UV_FIND_LINKS", "UV_TORCH_BACKEND")
    environment = {name: value for name, value in os.environ.items() if name not in left_out}
    done = subprocess.run(command, cwd=paths.CHECKOUT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    lines = (line.split("==") for line in (tmp_path / "resolved.txt").read_text().splitlines())
    resolved = {distribution(name): version for name, version in lines}
    for package in ("torch", "torch-npu"):
        assert re.fullmatch(rf"{re.escape(release)}(\.0)?(\.post\d+)?", resolved[package]), resolved[package]
    assert declared() | declared("ascend") <= set(resolved)
