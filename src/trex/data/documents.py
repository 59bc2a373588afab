"""Documents: problem, model, programs and answer in one text, with all that is needed to prove them again."""

import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from importlib import metadata
from pathlib import Path
from typing import Any, Self

from trex.data import families, gates
from trex.data.execution import execute
from trex.data.formulation import answer, formulation
from trex.data.plan import ATTEMPTS, Plan
from trex.data.problem import DataError, Problem, generator
from trex.data.program import program, reformulation
from trex.data.rendering import DATA_FILE, literal, render
from trex.files import write_atomic
from trex.solver.equivalence.fingerprint import fingerprint
from trex.solver.sandbox.host import Sandbox
from trex.solver.uniqueness import UNIQUE, UNKNOWN

PACKAGE = "trex-reproduction"
SHOWN = ("pyomo", "gurobipy", "both")  # which programs a document's text shows
KINDS: dict[str, Any] = {
    "data": dict,
    "values": dict,
    "provenance": dict,
    "distractors": list,
    "objective": (int, float),
}  # all other parts are strings
VERSIONS = ("package", "solver")
ORIGIN = ("family", "seed", "difficulty", "mode")


@dataclass(frozen=True)
class Document:
    """One row. `values` holds the variables that are not zero; `data` is the instance, in DPS also the data file."""

    family: str
    mode: str  # one of rendering.MODES
    domain: str  # the business of the scenario
    problem: str
    distractors: list[str]  # sentences of the problem that do not matter
    data: dict[str, Any]
    formulation: str
    program: str  # with Pyomo
    reformulation: str  # the second formulation, with gurobipy's interface
    shown: str  # one of SHOWN
    status: str
    objective: float
    values: dict[str, float]
    unique: str  # whether other plans are as good: unique | multiple | unknown
    answer: str
    provenance: dict[str, Any]  # origin, versions, sizes, gates passed, what confirmed the optimum, hashes

    @property
    def statement(self) -> str:
        """What is asked: the problem's text, with the data file in mode DPS."""
        if self.mode != "DPS":
            return self.problem
        return f"{self.problem}\n\n## Data file `{DATA_FILE}`\n\n```json\n{literal(self.data)}\n```"

    @property
    def text(self) -> str:
        """The whole training text: problem, data file in mode DPS, model, program, answer."""
        programs = {"pyomo": self.program, "gurobipy": self.reformulation}
        names = [name for name in programs if self.shown in (name, "both")]
        written = "".join(f"## Program ({name})\n\n```python\n{programs[name]}```\n\n" for name in names)
        return (
            f"## Problem\n\n{self.statement}\n\n## Model\n\n{self.formulation}\n\n{written}## Answer\n\n{self.answer}\n"
        )

    @property
    def line(self) -> str:
        """The row as JSON, without line break."""
        return json.dumps(asdict(self), ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_line(cls, line: str) -> Self:
        """Read a row. Raises DataError where it is none or was changed after hashing."""
        try:
            row = json.loads(line)
            document = cls(**row)
            for field in fields(cls):
                if not isinstance(row[field.name], KINDS.get(field.name, str)):
                    raise TypeError(f"{field.name} is {row[field.name]!r}")
            known = (document.provenance["content_sha256"], document.provenance["statement_sha256"])
            found = hashes(row)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise DataError(f"not a document: {error!r} in {line[:80]!r}") from None
        if known != found:
            raise DataError(f"{document.family} document: its content does not have the recorded hash")
        if document.line != line.removesuffix("\n"):
            raise DataError(f"{document.family} document: the row says it in another way than documents are written")
        return document


def write_up(problem: Problem, mode: str, sandbox: Sandbox | None = None) -> Document:
    """Prove one problem and write it up. Raises gates.Refused where a gate does not let it through.

    Without a sandbox its programs are not run, and the provenance does not claim the gates on programs.
    """
    family = families.get(problem.family)
    admitted = gates.admit(family, problem)
    gates.used(family, problem.data)
    text = render(problem, mode)
    gates.stated(problem, mode, text)
    if sandbox is None:
        gates.reformulation(admitted)
    else:
        execute(sandbox, problem, mode, admitted)  # which solves the second formulation too
    row: dict[str, Any] = {
        "family": problem.family,
        "mode": mode,
        "domain": problem.domain,
        "problem": text.problem,
        "distractors": list(text.distractors),
        "data": problem.data,
        "formulation": formulation(family, problem.words),
        "program": program(problem, mode),
        "reformulation": reformulation(problem, mode),
        "shown": _shown(problem),
        "status": "optimal",
        "objective": admitted.objective,
        "values": admitted.values,
        "unique": admitted.unique,
        "answer": answer(family, problem, admitted.objective, admitted.values, admitted.unique),
    }
    content, statement = hashes(row)
    asked = gates.OF_INSTANCE + (gates.OF_PROGRAMS if sandbox is not None else ())
    provenance = {
        "family": problem.family,
        "seed": problem.seed,
        "difficulty": problem.difficulty,
        "mode": mode,
        "package": f"{PACKAGE} {metadata.version(PACKAGE)}",
        "solver": admitted.solver,
        "confirmed_by": [*admitted.confirmed_by, "second formulation"],
        "gates": [gate for gate in asked if gate not in admitted.skipped],
        "variables": len(admitted.model.variables),
        "constraints": len(admitted.model.rows),
        "model_fingerprint": fingerprint(admitted.model),
        "content_sha256": content,
        "statement_sha256": statement,
    }
    return Document(**row, provenance=provenance)


def verify(document: Document, sandbox: Sandbox | None = None) -> None:
    """Prove a document again from its origin: sample, solve both ways, render, and run its programs in a sandbox.

    Raises DataError that names the first part that differs; recomputed hashes do not hide a change. The recorded point
    need not be the one found now (another version of a solver may find another optimum): it is checked by itself.
    """
    origin = document.provenance
    if missing := [key for key in ORIGIN if key not in origin]:
        raise DataError(f"{document.family} document: its provenance lacks {', '.join(missing)}")
    family = families.get(origin["family"])
    problem = family.problem(origin["seed"], origin["difficulty"])
    proved = asdict(write_up(problem, origin["mode"], sandbox))
    recorded = asdict(document)
    other_version = any(recorded["provenance"].get(name) != proved["provenance"][name] for name in VERSIONS)
    if recorded["values"] != proved["values"]:  # another optimum, which another machine or version may find
        gates.point(family, problem, document.objective, document.values)
        if proved["unique"] == UNIQUE:
            _near(document.values, proved["values"])
        if other_version and UNKNOWN in (document.unique, proved["unique"]):
            proved["unique"] = document.unique
        proved["values"] = document.values
        proved["answer"] = answer(family, problem, document.objective, document.values, document.unique)
        proved["provenance"]["content_sha256"] = hashes(proved)[0]
    if sandbox is None:
        recorded["provenance"]["gates"] = [g for g in recorded["provenance"]["gates"] if g not in gates.OF_PROGRAMS]
    if other_version:
        for row in (recorded["provenance"], proved["provenance"]):
            row |= {name: _unversioned(row.get(name)) for name in (*VERSIONS, "confirmed_by")}
    for part, value in recorded.items():
        if json.dumps(value) != json.dumps(proved[part]):  # the order of keys is seen in texts
            where = f"{document.family} (seed {origin['seed']}, difficulty {origin['difficulty']})"
            raise DataError(f"{where}: {part} is {value!r:.200}, not {proved[part]!r:.200}")


def _unversioned(value: Any) -> str:
    """Names without the numbers of their versions."""
    return re.sub(r"\d+(?:\.\d+)+\w*", "", json.dumps(value))


def _near(found: dict[str, float], expected: dict[str, float]) -> None:
    for name in {**found, **expected}:
        if not math.isclose(found.get(name, 0.0), expected.get(name, 0.0), rel_tol=1e-9, abs_tol=4 * gates.HALF):
            raise DataError(f"{name} = {found.get(name, 0.0)!r}; the only optimum has {expected.get(name, 0.0)!r}")


def hashes(row: dict[str, Any]) -> tuple[str, str]:
    """SHA-256 of the row without its provenance, and of the part that does not depend on the solver's version.

    The second leaves out `values`, `unique` and `answer`, which may differ where several optima exist, and keeps 6
    significant digits of the objective.
    """
    content = {field.name: row[field.name] for field in fields(Document) if field.name != "provenance"}
    statement = {key: value for key, value in content.items() if key not in ("values", "unique", "answer")}
    statement["objective"] = f"{row['objective']:.6g}"
    return _sha256(content), _sha256(statement)


def generate(
    count: int,
    seed: int = 0,
    families: Sequence[str] | None = None,
    modes: Sequence[str] | None = None,
    difficulty: int | Sequence[int] | None = None,
) -> Iterator[Document]:
    """The documents of a plan one by one, their programs not run. Same arguments, same bytes.

    An instance that a gate refuses is drawn again. Raises DataError for an argument that `Plan` refuses.
    """
    plan = Plan.of(count, seed, families, modes, difficulty)
    for k in range(plan.count):
        yield first_admitted(plan, k)


def first_admitted(plan: Plan, k: int, sandbox: Sandbox | None = None) -> Document:
    """Document k of a plan: the first attempt that no gate refuses. Raises DataError where all are refused."""
    for attempt in range(ATTEMPTS):
        item = plan.item(k, attempt)
        try:
            return write_up(families.get(item.family).problem(item.seed, item.difficulty), item.mode, sandbox)
        except gates.Refused as error:
            last = error
    raise DataError(f"document {k}: {ATTEMPTS} instances of {item.family} refused, the last one by {last}")


def read_jsonl(path: Path) -> Iterator[Document]:
    """Read documents; a half-written last line is left out. Raises DataError that names the first bad row."""
    with path.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                yield Document.from_line(line.decode())
            except (DataError, UnicodeDecodeError) as error:
                raise DataError(f"{path}, row {number}: {error}") from None


def write_jsonl(path: Path, documents: Iterable[Document]) -> int:
    """Write documents whole or not at all; returns how many."""
    lines = [document.line + "\n" for document in documents]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, "".join(lines).encode())
    return len(lines)


def _shown(problem: Problem) -> str:
    return generator(problem.family, problem.seed, problem.difficulty, "programs").choice(SHOWN)


def _sha256(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
