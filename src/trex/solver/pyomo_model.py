"""A Pyomo model as a `Model`: linear and quadratic rows and objective, special ordered sets; all else is refused."""

import math
from typing import Any

from trex.solver.builder import Builder, Row
from trex.solver.model import SOS, Model, ModelError

Pairs = dict[tuple[int, int], float]


def from_pyomo(model: Any) -> Model:
    """Read a pyomo ConcreteModel; it is not changed. Fixed variables enter as constants.

    Raises ModelError for no or several active objectives, rows or objectives of degree above two, a variable domain
    other than continuous or integer, and active components of other kinds (disjunctions, complementarity, …).
    """
    import pyomo.environ as pyo
    from pyomo.core.base.block import BlockData

    if not isinstance(model, BlockData) or not model.is_constructed():
        raise ModelError(f"a {type(model).__name__} is not accepted; accepted: a pyomo ConcreteModel")
    _refuse_unknown_components(model)
    objectives = list(model.component_data_objects(pyo.Objective, active=True, descend_into=True))
    if len(objectives) != 1:
        names = ", ".join(o.name for o in objectives) or "none"
        raise ModelError(f"one active objective is accepted; the model has {len(objectives)}: {names}")
    builder = Builder(sense="min" if objectives[0].sense == pyo.minimize else "max")
    columns = _Columns(builder)
    for var in model.component_data_objects(pyo.Var, active=True, descend_into=True):
        if not var.fixed:
            columns.of(var)
        elif var.value is None:
            raise ModelError(f"variable {var.name!r} is fixed without a value")
    where = f"objective {objectives[0].name!r}"
    builder.offset, cost, builder.quadratic = _terms(objectives[0].expr, columns, where)
    placed = list(builder.columns.values())
    for j, value in cost.items():
        placed[j].cost = value
    for row in model.component_data_objects(pyo.Constraint, active=True, descend_into=True):
        lower, body, upper = row.to_bounded_expression(evaluate_bounds=True)
        constant, linear, square = _terms(body, columns, f"row {row.name!r}")
        sides = _side(lower, -math.inf) - constant, _side(upper, math.inf) - constant
        builder.rows.append(Row(row.name, linear, *sides, square))
    for ordered in model.component_data_objects(pyo.SOSConstraint, active=True, descend_into=True):
        builder.sos.append(_set(ordered, columns))
    return builder.model()


def _set(ordered: Any, columns: "_Columns") -> SOS:
    members, weights = zip(*ordered.get_items(), strict=True)
    if fixed := [var.name for var in members if var.fixed]:
        raise ModelError(f"set {ordered.name!r} has the fixed variable {fixed[0]!r}: not represented")
    return SOS(ordered.name, ordered.level, tuple(map(columns.of, members)), tuple(map(float, weights)))


class _Columns:
    """Numbers the variables in the order in which they are met."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self._position: dict[int, int] = {}

    def of(self, var: Any) -> int:
        if id(var) not in self._position:
            if not (var.is_continuous() or var.is_integer() or var.is_binary()):
                raise ModelError(f"variable {var.name!r} has domain {var.domain}: continuous and integer are accepted")
            name = var.name
            if name in self.builder.place:
                raise ModelError(f"variable {name!r} is named twice")
            column = self.builder.column(name)
            column.kind = "continuous" if var.is_continuous() else "integer"
            column.lower, column.upper = _bounds(var)
            self._position[id(var)] = self.builder.place[name]
        return self._position[id(var)]


def _terms(expression: Any, columns: _Columns, where: str) -> tuple[float, dict[int, float], Pairs]:
    """Constant, linear and quadratic coefficients of an expression; terms of one variable are added up."""
    from pyomo.repn import generate_standard_repn

    form = generate_standard_repn(expression, quadratic=True)
    if form.nonlinear_expr is not None:
        raise ModelError(f"{where} is not linear or quadratic: {expression}"[:300])
    linear: dict[int, float] = {}
    for var, coefficient in zip(form.linear_vars, form.linear_coefs, strict=True):
        position = columns.of(var)
        linear[position] = linear.get(position, 0.0) + float(coefficient)
    quadratic: Pairs = {}
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
        pyo.Suffix, pyo.BuildAction, pyo.BuildCheck, pyo.SetOf, pyo.SOSConstraint,
    }  # fmt: skip
    for component in model.component_objects(active=True, descend_into=True):
        if component.ctype not in harmless:
            raise ModelError(f"component {component.name!r} is a {component.ctype.__name__}: not represented")
