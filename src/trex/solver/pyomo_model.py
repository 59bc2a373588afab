"""A Pyomo model as a `Model`: linear rows, a linear or quadratic objective, all other components refused by name."""

import math
from typing import Any

import numpy as np

from trex.solver.model import Model, ModelError


def from_pyomo(model: Any) -> Model:
    """Read a pyomo ConcreteModel; it is not changed. Fixed variables enter as constants.

    Raises ModelError for no or several active objectives, a nonlinear row, an objective of degree above two, a variable
    domain other than continuous or integer, and active components that are not rows (SOS, disjunctions, …).
    """
    import pyomo.environ as pyo

    _refuse_unknown_components(model)
    objectives = list(model.component_data_objects(pyo.Objective, active=True, descend_into=True))
    if len(objectives) != 1:
        names = ", ".join(o.name for o in objectives) or "none"
        raise ModelError(f"one active objective is accepted; the model has {len(objectives)}: {names}")
    columns = _Columns()
    for var in model.component_data_objects(pyo.Var, active=True, descend_into=True):
        if not var.fixed:
            columns.of(var)
        elif var.value is None:
            raise ModelError(f"variable {var.name!r} is fixed without a value")
    offset, cost, quadratic = _terms(objectives[0].expr, columns, f"objective {objectives[0].name!r}")
    rows, sides, start, index, value = [], [], [0], [], []
    for row in model.component_data_objects(pyo.Constraint, active=True, descend_into=True):
        lower, body, upper = row.to_bounded_expression(evaluate_bounds=True)
        constant, linear, square = _terms(body, columns, f"row {row.name!r}")
        if square:
            raise ModelError(f"row {row.name!r} is quadratic: only linear rows are accepted")
        rows.append(row.name)
        sides.append((_side(lower, -math.inf) - constant, _side(upper, math.inf) - constant))
        index += list(linear)
        value += list(linear.values())
        start.append(len(index))
    lower_upper = [_bounds(var) for var in columns.variables]
    costs = np.zeros(len(columns.variables))
    costs[list(cost)] = list(cost.values())
    return Model(
        sense="min" if objectives[0].sense == pyo.minimize else "max",
        offset=offset,
        variables=tuple(var.name for var in columns.variables),
        kinds=tuple("continuous" if var.is_continuous() else "integer" for var in columns.variables),
        cost=costs,
        lower=np.array([low for low, _ in lower_upper], dtype=float),
        upper=np.array([high for _, high in lower_upper], dtype=float),
        rows=tuple(rows),
        row_lower=np.array([low for low, _ in sides], dtype=float),
        row_upper=np.array([high for _, high in sides], dtype=float),
        start=np.array(start, dtype=np.int64),
        index=np.array(index, dtype=np.int64),
        value=np.array(value, dtype=float),
        quadratic=quadratic,
    )


class _Columns:
    """Numbers the variables in the order in which they are met."""

    def __init__(self) -> None:
        self.variables: list[Any] = []
        self._position: dict[int, int] = {}

    def of(self, var: Any) -> int:
        if id(var) not in self._position:
            if not (var.is_continuous() or var.is_integer() or var.is_binary()):
                raise ModelError(f"variable {var.name!r} has domain {var.domain}: continuous and integer are accepted")
            self._position[id(var)] = len(self.variables)
            self.variables.append(var)
        return self._position[id(var)]


def _terms(
    expression: Any, columns: _Columns, where: str
) -> tuple[float, dict[int, float], dict[tuple[int, int], float]]:
    """Constant, linear and quadratic coefficients of an expression; terms of one variable are added up."""
    from pyomo.repn import generate_standard_repn

    form = generate_standard_repn(expression, quadratic=True)
    if form.nonlinear_expr is not None:
        raise ModelError(f"{where} is not linear or quadratic: {expression}"[:300])
    linear: dict[int, float] = {}
    for var, coefficient in zip(form.linear_vars, form.linear_coefs, strict=True):
        position = columns.of(var)
        linear[position] = linear.get(position, 0.0) + float(coefficient)
    quadratic: dict[tuple[int, int], float] = {}
    for (first, second), coefficient in zip(form.quadratic_vars, form.quadratic_coefs, strict=True):
        i, j = sorted((columns.of(first), columns.of(second)))
        quadratic[i, j] = quadratic.get((i, j), 0.0) + float(coefficient)
    return float(form.constant), linear, {pair: c for pair, c in quadratic.items() if c}


def _bounds(var: Any) -> tuple[float, float]:
    lower, upper = var.bounds  # domain and explicit bounds intersected
    return _side(lower, -math.inf), _side(upper, math.inf)


def _side(value: Any, missing: float) -> float:
    return missing if value is None else float(value)


def _refuse_unknown_components(model: Any) -> None:
    import pyomo.environ as pyo

    harmless = {
        pyo.Block, pyo.Constraint, pyo.Objective, pyo.Var, pyo.Set, pyo.RangeSet, pyo.Param, pyo.Expression,
        pyo.Suffix, pyo.BuildAction, pyo.BuildCheck, pyo.SetOf,
    }  # fmt: skip
    for component in model.component_objects(active=True, descend_into=True):
        if component.ctype not in harmless:
            raise ModelError(f"component {component.name!r} is a {component.ctype.__name__}: not represented")
