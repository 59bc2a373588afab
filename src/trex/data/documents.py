"""Documents: problem, model, program and answer in one text, generated with a seed and kept as JSON lines."""

import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from importlib import metadata
from pathlib import Path
from typing import Any, Self

from tqdm import tqdm

from trex.data import contract, families
from trex.data.plan import Plan
from trex.data.problem import DataError, Problem
from trex.data.program import program
from trex.data.rendering import DATA_FILE, literal, render
from trex.files import cut_half_line
from trex.solver.solve import solve_pyomo

PACKAGE = "trex-reproduction"
DECIMALS = 6  # of recorded values
KINDS: dict[str, Any] = {
    "data": dict,
    "values": dict,
    "provenance": dict,
    "objective": (int, float),
}  # all other parts are strings


@dataclass(frozen=True)
class Document:
    """One row. `values` holds the variables that are not zero; `data` is the instance, in DPS also the data file."""

    family: str
    mode: str  # one of rendering.MODES
    problem: str
    data: dict[str, Any]
    formulation: str
    program: str
    status: str
    objective: float
    values: dict[str, float]
    answer: str
    provenance: dict[str, Any]  # family, seed, difficulty, mode, versions, what confirmed the optimum, hashes

    @property
    def text(self) -> str:
        """The whole training text: problem, data file in mode DPS, model, program, answer."""
        data_file = (
            f"## Data file `{DATA_FILE}`\n\n```json\n{literal(self.data)}\n```\n\n" if self.mode == "DPS" else ""
        )
        return (
            f"## Problem\n\n{self.problem}\n\n{data_file}## Model\n\n{self.formulation}\n\n"
            f"## Program\n\n```python\n{self.program}```\n\n## Answer\n\n{self.answer}\n"
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
        except (ValueError, TypeError, KeyError) as error:
            raise DataError(f"not a document: {error!r} in {line[:80]!r}") from None
        if known != found:
            raise DataError(f"{document.family} document: its content does not have the recorded hash")
        return document


def write_up(problem: Problem, mode: str) -> Document:
    """Solve, check, confirm and write up one problem.

    Raises DataError where it is not solved to an optimum that passes the contract and that every independent way finds.
    """
    family = families.get(problem.family)
    solution = solve_pyomo(family.build(problem.data))
    if solution.status != "optimal" or solution.objective is None:
        raise DataError(f"{problem.family}, seed {problem.seed}: {solution.status} {solution.message}")
    rounded = {name: round(value, DECIMALS) + 0.0 for name, value in solution.values.items()}
    values = {name: value for name, value in rounded.items() if value}
    objective = round(solution.objective, DECIMALS) + 0.0
    contract.require(problem, objective, values)
    row: dict[str, Any] = {
        "family": problem.family,
        "mode": mode,
        "problem": render(problem, mode),
        "data": problem.data,
        "formulation": family.formulation(problem),
        "program": program(problem, mode),
        "status": solution.status,
        "objective": objective,
        "values": values,
        "answer": family.answer(problem, objective, values),
    }
    content, statement = hashes(row)
    provenance = {
        "family": problem.family,
        "seed": problem.seed,
        "difficulty": problem.difficulty,
        "mode": mode,
        "package": f"{PACKAGE} {metadata.version(PACKAGE)}",
        "solver": solution.solver,
        "confirmed_by": list(contract.confirm(problem, objective)),
        "content_sha256": content,
        "statement_sha256": statement,
    }
    return Document(**row, provenance=provenance)


def verify(document: Document) -> None:
    """Prove a document again from its provenance: sample, render and check anew, and find the optimum by other ways.

    Raises DataError that names the first part that differs; recomputed hashes do not hide a change.
    """
    origin = document.provenance
    missing = [key for key in ("family", "seed", "difficulty", "mode", "confirmed_by") if key not in origin]
    if missing:
        raise DataError(f"{document.family} document: its provenance lacks {', '.join(missing)}")
    family = families.get(document.family)
    problem = family.sample(origin["seed"], origin["difficulty"])
    contract.require(problem, document.objective, document.values)
    expected = {
        "family": (document.family, origin["family"]),
        "mode": (document.mode, origin["mode"]),
        "data": (document.data, problem.data),
        "problem": (document.problem, render(problem, document.mode)),
        "formulation": (document.formulation, family.formulation(problem)),
        "program": (document.program, program(problem, document.mode)),
        "status": (document.status, "optimal"),
        "answer": (document.answer, family.answer(problem, document.objective, document.values)),
        "confirmed_by": (origin["confirmed_by"], list(contract.confirm(problem, document.objective))),
    }
    for part, (recorded, proved) in expected.items():
        if recorded != proved:
            raise DataError(f"{problem.family} (seed {problem.seed}): {part} is {recorded!r:.200}, not {proved!r:.200}")


def hashes(row: dict[str, Any]) -> tuple[str, str]:
    """SHA-256 of the row without its provenance, and of the part that does not depend on the solver's version.

    The second leaves out `values` and `answer`, which may differ where several optima exist, and keeps 6 significant
    digits of the objective.
    """
    content = {field.name: row[field.name] for field in fields(Document) if field.name != "provenance"}
    statement = {key: value for key, value in content.items() if key not in ("values", "answer")}
    statement["objective"] = f"{row['objective']:.6g}"
    return _sha256(content), _sha256(statement)


def generate(
    count: int,
    seed: int = 0,
    families: Sequence[str] | None = None,
    modes: Sequence[str] | None = None,
    difficulty: int | Sequence[int] | None = None,
) -> Iterator[Document]:
    """Documents one by one; by default all families, modes and difficulties in turn. Same arguments, same bytes.

    Raises DataError for an argument that `Plan` refuses.
    """
    return follow(Plan.of(count, seed, families, modes, difficulty))


def follow(plan: Plan, start: int = 0) -> Iterator[Document]:
    """The documents of a plan from number `start` on."""
    bar = tqdm(total=plan.count, initial=start, unit="document", disable=not sys.stderr.isatty())
    with bar:
        for k in range(start, plan.count):
            item = plan.item(k)
            yield write_up(families.get(item.family).sample(item.seed, item.difficulty), item.mode)
            bar.update()


def write_jsonl(path: Path, documents: Iterable[Document]) -> int:
    """Append documents as they come, each on the disk before the next is asked for; returns how many were appended.

    A half-written last line, left by a killed process, is cut off first.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    cut_half_line(path)
    written = 0
    with path.open("ab") as stream:
        for document in documents:
            stream.write(document.line.encode() + b"\n")
            stream.flush()
            os.fsync(stream.fileno())
            written += 1
    return written


def resume_jsonl(path: Path, plan: Plan) -> int:
    """Write the documents of a plan that `path` does not hold yet; returns how many were added.

    A run that was stopped anywhere ends in the same file as one that never was. Raises DataError where the file holds
    documents of another plan.
    """
    cut_half_line(path)
    present = 0
    for document in read_jsonl(path) if path.exists() else ():
        if present == plan.count:
            raise DataError(f"{path} holds more than the {plan.count} documents of the plan")
        expected = asdict(plan.item(present))
        found = {key: document.provenance.get(key) for key in expected}
        if found != expected:
            raise DataError(f"{path}, row {present + 1} is {found}; the plan has {expected}")
        present += 1
    return write_jsonl(path, follow(plan, start=present))


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


def _sha256(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
