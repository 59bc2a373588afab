"""Which problems a run asks, and where its worked examples come from."""

from trex.eval import benchmarks as published
from trex.eval import prompts, sets
from trex.eval.items import SETS, Item
from trex.eval.rows import EvaluationError
from trex.eval.sets import FAMILIES


def items(
    names: tuple[str, ...], benchmarks: str, limit: int | None, ids: tuple[str, ...], families: int, seed: int
) -> tuple[Item, ...]:
    """The problems of the named sets, or of those only the ones with these ids.

    limit: of each published set, the first ones; it does not bear on ids. Sets that ids belong to are taken where only
    our own families are named. Raises EvaluationError for sets, ids and numbers that are not accepted, and where the
    folder of benchmarks is not known; BenchmarkError where it lacks a set.
    """
    if limit is not None and limit < 1:
        raise EvaluationError(f"limit = {limit}; accepted: a whole number from 1")
    if ids and names == (FAMILIES,):
        names = tuple(dict.fromkeys(each.partition("/")[0] for each in ids))
    if not names or set(names) - set(SETS):
        unknown = ", ".join(repr(name) for name in names if name not in SETS)
        raise EvaluationError(f"sets = {unknown or 'none'}; accepted: {', '.join(SETS)}; separate several with spaces")
    found: list[Item] = []
    if named := [name for name in names if name != FAMILIES]:
        place = published.locate(benchmarks)
        if place is None:
            raise EvaluationError(f"sets = {' '.join(named)} need --benchmarks FOLDER or ${published.VARIABLE}")
        read = sets.items(published.read(place), named)
        for name in dict.fromkeys(named):
            found += [item for item in read if item.set == name][: None if ids else limit]
    if FAMILIES in names:
        found += sets.family_items(families, seed)
    known = {item.id for item in found}
    if lacking := [each for each in ids if each not in known]:
        more = f" and {len(lacking) - 5} more" if len(lacking) > 5 else ""
        where = f"{', '.join(lacking[:5])}{more}: not among the problems of {', '.join(names)}"
        raise EvaluationError(f"items = {where}; accepted: ids such as {found[0].id}")
    return tuple(item for item in found if not ids or item.id in ids)


def examples(interface: str, benchmarks: str, shots: int, seed: int) -> tuple[prompts.Example, ...]:
    """What worked examples are drawn from: our families' programs with Pyomo, the published ones with gurobipy.

    Raises EvaluationError where there are none.
    """
    if not shots:
        return ()
    if interface == "pyomo":
        return prompts.family_examples(max(30, 6 * shots), seed)
    place = published.locate(benchmarks)
    if interface == "gurobipy" and place is not None:
        read = published.read(place)
        named = [name for name in published.PROBLEM_SETS if name in read.found]
        return prompts.benchmark_examples(sets.items(read, named)) if named else ()
    raise EvaluationError(f"shots = {shots} with {interface}: there are no examples; accepted: 0, or pyomo")
