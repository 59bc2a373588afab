"""Programs in gurobipy's interface, run with Gurobi or the recorder in its place: shared by these tests."""

import json
import re
import sys
from contextlib import chdir
from pathlib import Path
from types import ModuleType
from unittest import mock

import trex.paths
from trex.solver import recorder

BENCHMARKS = Path(trex.paths.CHECKOUT).parent / "shared" / "benchmarks"
FILE = re.compile(r"^### (\S+)\s*\n```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def watched(interface: ModuleType, built: list) -> ModuleType:
    """The interface with a Model that adds itself to `built`."""

    class Model(interface.Model):
        def __init__(self, *given, **named):
            super().__init__(*given, **named)
            built.append(self)

    module = ModuleType("gurobipy")
    vars(module).update(vars(interface), Model=Model)
    return module


def run(code: str, interface: ModuleType, folder: Path, files: dict[str, str] | None = None) -> list:
    """The models that a program of ours or of the benchmarks builds, in order."""
    for name, text in (files or {}).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    built: list = []
    module = watched(interface, built)
    with mock.patch.dict(sys.modules, {"gurobipy": module}), chdir(folder):
        exec(compile(code, "program", "exec"), {"__name__": "__main__"})
    return built


def record(code: str, folder: Path, files: dict[str, str] | None = None) -> list:
    """The models that a program builds with the recorder."""
    return run(code, recorder.module(), folder, files)


def references() -> list[dict]:
    """Rows of both sets with a code of their own, each pair of code and data once: id, code, data, LP text."""
    found = {}
    for folder in ("b4o_feasible", "b4o_orgeval"):
        path = BENCHMARKS / folder
        if not path.is_dir():
            continue
        for row in map(json.loads, (path / "problems.jsonl").read_text().splitlines()):
            data, text = ((path / row[key]).read_text() for key in ("data_file", "reference_lp"))
            entry = {"id": f"{folder}/{row['id']}", "code": row["reference_code"], "data": data, "lp": text}
            found.setdefault((entry["code"], data, text), entry)
    return list(found.values())


def seeds() -> list[dict]:
    """The public seeds' programs with the files that their texts hold."""
    path = BENCHMARKS / "public_seeds.jsonl"
    rows = list(map(json.loads, path.read_text().splitlines())) if path.is_file() else []
    files = (dict(FILE.findall(row["problem"])) for row in rows)
    return [{"id": row["id"], "code": program(row["answer"]), "files": f} for row, f in zip(rows, files, strict=True)]


def program(answer: str) -> str:
    """The program within an answer."""
    tagged = re.findall(r"<python>(.*?)</python>", answer, re.DOTALL)
    return re.sub(r"^\s*```\w*\n|\n```\s*$", "", tagged[-1] if tagged else answer)


__all__ = ["BENCHMARKS", "record", "references", "run", "seeds"]
