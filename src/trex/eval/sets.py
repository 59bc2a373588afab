"""The items of every set, in a fixed order: four published benchmarks, and problems of our own families.

Row `r` of set `s` is item "s/r". Clusters are found over all sets of the folder, so that a choice of sets does not
change them.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from trex.data import families
from trex.data.documents import first_admitted
from trex.data.plan import HELD_OUT, Plan
from trex.data.problem import DataError, Problem
from trex.data.rendering import DATA_FILE, literal
from trex.eval.benchmarks import PROBLEM_SETS, QUESTION_SETS, BenchmarkError, Benchmarks, ReferenceProblem
from trex.eval.clusters import clustered
from trex.eval.items import Item
from trex.eval.rows import EvaluationError
from trex.solver import lp
from trex.solver.pyomo_model import from_pyomo

BENCHMARK_SETS = (*QUESTION_SETS, *PROBLEM_SETS)
FAMILIES = "families"
DIFFICULTIES = (1, 2)  # of the held-out problems: small enough that wrong models of them are compared in time too


def items(benchmarks: Benchmarks, sets: Iterable[str]) -> tuple[Item, ...]:
    """The items of the named sets, set by set in the order of BENCHMARK_SETS, rows as in their files.

    Raises BenchmarkError for a set that is unknown or that the folder lacks, and for a file that is not text.
    """
    asked = (sets,) if isinstance(sets, str) else tuple(sets)
    for name in asked:
        if name not in BENCHMARK_SETS:
            raise BenchmarkError(f"set {name!r}; accepted: {', '.join(BENCHMARK_SETS)}")
        if name not in benchmarks.found:
            raise BenchmarkError(f"{benchmarks.folder} lacks {name!r}; accepted: {', '.join(benchmarks.found)}")
    if not asked:
        raise BenchmarkError(f"no set is named; accepted: {', '.join(benchmarks.found)}")
    return tuple(item for item in clustered(tuple(_rows(benchmarks))) if item.set in asked)


def family_items(count: int, seed: int = 0, names: Sequence[str] | None = None) -> tuple[Item, ...]:
    """Held-out problems of our families (`names`, all by default) in turn, in all modes, solved and confirmed.

    Sampled by the plan of seed HELD_OUT + `seed`, whose instances no plan of a smaller seed shares. Raises DataError
    for a seed out of range, EvaluationError for a count of none.
    """
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise EvaluationError(f"families = {count!r}; accepted: a whole number of problems from 1")
    found = []
    plan = Plan.of(count, HELD_OUT + seed if seed >= 0 else seed, names, difficulty=DIFFICULTIES)
    for k in range(count):
        document = first_admitted(plan, k)
        family, mode, origin = document.family, document.mode, document.provenance
        found.append(
            Item(
                id=f"{FAMILIES}/{family}_{mode}_{origin['difficulty']}_{origin['seed']}",
                set=FAMILIES,
                question=document.problem,
                answer=document.objective,
                files={DATA_FILE: literal(document.data)} if mode == "DPS" else {},
                reference=lp.write(from_pyomo(families.get(family).model(document.data))),
                family=family,
            )
        )
    return clustered(found)


def problem_of(item: Item) -> tuple[Problem, str]:
    """The problem behind an item of our families, and its mode. Raises DataError for other items."""
    found = re.fullmatch(rf"{FAMILIES}/(\w+)_(DP|DT|DPS)_(\d+)_(\d+)", item.id)
    if found is None or found[1] not in families.names():
        raise DataError(f"item {item.id!r}; accepted: those of the problem families")
    return families.get(found[1]).problem(int(found[4]), int(found[3])), found[2]


def _rows(benchmarks: Benchmarks) -> Iterator[Item]:
    for name in BENCHMARK_SETS:
        for question in benchmarks.questions.get(name, ()):
            yield Item(f"{name}/{question.id}", name, question.question, question.answer)
        for row in benchmarks.problems.get(name, ()):
            yield _problem(name, row)


def _problem(name: str, row: ReferenceProblem) -> Item:
    texts = []
    for path in (row.data_file, row.reference_lp):
        try:
            texts.append(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise BenchmarkError(f"{row.id}: {path} cannot be read: {error}") from None
    data, reference = texts
    return Item(
        f"{name}/{row.id}", name, row.problem, row.optimal_value, {DATA_FILE: data}, reference, row.reference_code
    )
