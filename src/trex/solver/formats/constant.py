"""The objective's constant as Gurobi and Pyomo write it: a column fixed at 1."""

from dataclasses import replace

import numpy as np

from trex.solver.model import Model, Quadratic

NAMES = ("Constant", "ONE_VAR_CONSTANT")


def constant_column(model: Model) -> int | None:
    """The column of such a name that is continuous, fixed at 1 and in the objective's linear part alone."""
    for name in NAMES:
        if name not in model.variables:
            continue
        j = model.variables.index(name)
        fixed = model.kinds[j] == "continuous" and model.lower[j] == model.upper[j] == 1
        if fixed and not (model.index == j).any() and not any(j in group for group in _groups(model)):
            return j
    return None


def fold_constant(model: Model) -> Model:
    """Move the objective's constant from its columns into the offset."""
    while (j := constant_column(model)) is not None:
        model = _without(model, j)
    return model


def _groups(model: Model) -> list[tuple[int, ...]]:
    """The variables that stand together in a quadratic term, a set, an indicator or a function."""
    squares = [model.quadratic, *model.quadratic_rows.values()]
    return [
        *(pair for square in squares for pair in square),
        *(ordered.members for ordered in model.sos),
        *((i.binary, *(j for j, _ in i.terms)) for i in model.indicators),
        *((f.result, *f.arguments) for f in model.functions),
    ]


def _without(model: Model, column: int) -> Model:
    """The model with the column's cost as offset; variables after it move up."""

    def new(j: int) -> int:
        return j - (j > column)

    def moved(square: Quadratic) -> Quadratic:
        return {(new(i), new(j)): c for (i, j), c in square.items()}

    keep = np.delete(np.arange(len(model.variables)), column)
    return replace(
        model,
        offset=model.offset + float(model.cost[column]),
        variables=tuple(model.variables[j] for j in keep),
        kinds=tuple(model.kinds[j] for j in keep),
        cost=model.cost[keep],
        lower=model.lower[keep],
        upper=model.upper[keep],
        index=model.index - (model.index > column),
        quadratic=moved(model.quadratic),
        quadratic_rows={row: moved(square) for row, square in model.quadratic_rows.items()},
        sos=tuple(replace(s, members=tuple(map(new, s.members))) for s in model.sos),
        indicators=tuple(
            replace(i, binary=new(i.binary), terms=tuple((new(j), c) for j, c in i.terms)) for i in model.indicators
        ),
        functions=tuple(
            replace(f, result=new(f.result), arguments=tuple(map(new, f.arguments))) for f in model.functions
        ),
    )
