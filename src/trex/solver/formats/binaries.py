"""Variables that are binary because an indicator, a conjunction or a disjunction makes them so."""

from trex.solver.builder import Builder
from trex.solver.model import WHOLE, ModelError


def make_binary(builder: Builder) -> None:
    """Make them integer within what their bounds leave of [0, 1], as Gurobi does when it solves.

    Raises ModelError for one that was neither left continuous from 0 up nor has bounds within [0, 1]: Gurobi cuts
    any bounds down without a word.
    """
    columns = list(builder.columns.items())
    needed = [(i.name, i.binary) for i in builder.indicators]
    logical = [f for f in builder.functions if f.kind in ("and", "or")]
    needed += [(f.name, j) for f in logical for j in (f.result, *f.arguments)]
    for by, j in needed:
        name, column = columns[j]
        untouched = column.kind == "continuous" and (column.lower, column.upper) == (0, float("inf"))
        within = column.kind in ("continuous", WHOLE[0]) and 0 <= column.lower <= column.upper <= 1
        if not untouched and not within:
            found = f"{column.kind} from {column.lower:g} to {column.upper:g}"
            raise ModelError(f"{by!r} needs {name!r} to be binary, or without a kind and bounds; it is {found}")
        column.kind, column.upper = WHOLE[0], min(column.upper, 1.0)
