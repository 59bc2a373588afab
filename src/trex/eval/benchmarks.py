"""Published benchmarks as typed rows, read from a folder that the user names.

Layout of the folder: `nl4opt.jsonl` and `optibench.jsonl` hold id, question, answer; `b4o_feasible/` and `b4o_orgeval/`
(Bench4Opt with and without the infeasible and unbounded instances) hold `problems.jsonl` with id, problem, data_file,
reference_lp, reference_code, optimal_value, the files these rows name, and optionally `optimal_values.json` by id.
"""

import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trex import paths

QUESTION_SETS = ("nl4opt", "optibench")
PROBLEM_SETS = ("b4o_feasible", "b4o_orgeval")
VARIABLE = "TREX_BENCHMARKS"


class BenchmarkError(ValueError):
    """A folder or row that is not what the layout says. Names the file and the line."""


@dataclass(frozen=True)
class Question:
    """A word problem whose answer is one number."""

    id: str
    question: str
    answer: float


@dataclass(frozen=True)
class ReferenceProblem:
    """A word problem with its data, a reference model, a reference program, and the optimum where one is recorded."""

    id: str
    problem: str
    data_file: Path
    reference_lp: Path
    reference_code: str
    optimal_value: float | None


@dataclass(frozen=True)
class Benchmarks:
    """What a folder holds: rows by set, for the sets that are there."""

    folder: Path
    questions: Mapping[str, tuple[Question, ...]]
    problems: Mapping[str, tuple[ReferenceProblem, ...]]

    @property
    def found(self) -> tuple[str, ...]:
        """Names of the sets that are there."""
        return (*self.questions, *self.problems)

    @property
    def missing(self) -> tuple[str, ...]:
        """Names of the sets that are not there."""
        return tuple(name for name in (*QUESTION_SETS, *PROBLEM_SETS) if name not in self.found)


def locate(folder: str | Path = "") -> Path | None:
    """The benchmark folder: the argument, else $TREX_BENCHMARKS, else None; no other place is looked at.

    A relative path is taken from the checkout, because a notebook's own folder is not where its reader stands.
    Raises BenchmarkError where the one that is named is not a folder.
    """
    named = str(folder) or os.environ.get(VARIABLE, "")
    if not named:
        return None
    path = paths.CHECKOUT / named
    if not path.is_dir():
        source = "benchmarks" if str(folder) else f"${VARIABLE}"
        raise BenchmarkError(f"{source} = {named!r} is not a folder; accepted: a folder that holds the benchmark sets")
    return path


def read(folder: Path) -> Benchmarks:
    """Read every set that the folder holds. Raises BenchmarkError for a bad row, or where no set is there."""
    questions = {
        name: tuple(_question(row) for row in _rows(path))
        for name in QUESTION_SETS
        if (path := folder / f"{name}.jsonl").is_file()
    }
    problems = {
        name: tuple(_problems(folder / name)) for name in PROBLEM_SETS if (folder / name / "problems.jsonl").is_file()
    }
    if not questions and not problems:
        expected = ", ".join([*(f"{n}.jsonl" for n in QUESTION_SETS), *(f"{n}/problems.jsonl" for n in PROBLEM_SETS)])
        raise BenchmarkError(f"{folder} holds none of {expected}")
    return Benchmarks(folder, questions, problems)


@dataclass(frozen=True)
class _Row:
    where: str  # file and line
    fields: dict[str, Any]

    def text(self, key: str) -> str:
        value = self.fields.get(key)
        if not isinstance(value, str) or not value.strip():
            raise BenchmarkError(f"{self.where}: {key!r} is {_short(value)}; a text is accepted")
        return value

    def number(self, key: str) -> float:
        return _number(self.fields.get(key), f"{self.where}: {key!r}")

    def file(self, key: str, folder: Path) -> Path:
        path = folder / self.text(key)
        if not path.resolve().is_relative_to(folder.resolve()) or not path.is_file():
            raise BenchmarkError(
                f"{self.where}: {key!r} is {_short(self.fields[key])}; a file below {folder} is accepted"
            )
        return path


def _rows(path: Path) -> Iterator[_Row]:
    """JSON lines with unique ids; blank lines are skipped."""
    seen: dict[str, int] = {}
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise BenchmarkError(f"{path} is not UTF-8 text: {error}") from None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            fields = json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            raise BenchmarkError(f"{where}: not JSON: {error}") from None
        if not isinstance(fields, dict):
            raise BenchmarkError(f"{where}: {_short(fields)}; a JSON object is accepted")
        row = _Row(where, fields)
        name = row.text("id")
        if name in seen:
            raise BenchmarkError(f"{where}: id {name!r} is that of line {seen[name]} too")
        seen[name] = number
        yield row


def _question(row: _Row) -> Question:
    return Question(row.text("id"), row.text("question"), row.number("answer"))


def _problems(folder: Path) -> Iterator[ReferenceProblem]:
    path = folder / "optimal_values.json"
    values = _optimal_values(path) if path.is_file() else {}
    for row in _rows(folder / "problems.jsonl"):
        name = row.text("id")
        empty = row.fields.get("optimal_value") in (None, "")
        value = values.pop(name, None)
        if not empty:
            value = row.number("optimal_value")
        yield ReferenceProblem(
            id=name,
            problem=row.text("problem"),
            data_file=row.file("data_file", folder),
            reference_lp=row.file("reference_lp", folder),
            reference_code=row.text("reference_code"),
            optimal_value=value,
        )
    if values:
        raise BenchmarkError(f"{path}: {next(iter(values))!r} is the id of no row of problems.jsonl")


def _optimal_values(path: Path) -> dict[str, float]:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise BenchmarkError(f"{path}: not JSON: {error}") from None
    if not isinstance(values, dict):
        raise BenchmarkError(f"{path}: {_short(values)}; a JSON object of id and number is accepted")
    return {name: _number(value, f"{path}: {name!r}") for name, value in values.items()}


def _number(value: Any, where: str) -> float:
    """A finite number, or a text that is one (NL4OPT records its answers as text)."""
    try:
        number = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise BenchmarkError(f"{where} is {_short(value)}; a finite number is accepted")
    return number


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
