"""A gurobipy model as a `Model`; what a Model does not hold is refused by name."""

import math
from typing import Any

from trex.solver.builder import Builder, Row, add_terms
from trex.solver.formats.binaries import make_binary
from trex.solver.formats.tokens import INFINITE
from trex.solver.model import SOS, Function, Indicator, Model, ModelError

KINDS = {"C": "continuous", "B": "integer", "I": "integer", "S": "semi-continuous", "N": "semi-integer"}
# model attribute -> what it counts
REFUSED = {
    "NumPWLObjVars": "a piecewise-linear objective",
    "NumScenarios": "scenarios",
}


def from_gurobi(model: Any) -> Model:
    """Read a gurobipy Model; pending changes are applied to it first.

    Variables whose names are taken get `_1`, `_2`, …. Rows come first, then quadratic rows. Raises ModelError for
    several objectives, piecewise-linear objectives, scenarios, user cuts, and general constraints other than
    indicators, MIN, MAX, ABS, AND and OR.
    """
    try:
        import gurobipy

        known = isinstance(model, gurobipy.Model)
    except ImportError:
        known = False  # nothing is a model of a package that is not there
    if not known:
        raise ModelError(f"a {type(model).__name__} is not accepted; accepted: a gurobipy Model")
    try:
        model.update()
    except gurobipy.GurobiError as error:
        raise ModelError(f"the gurobipy Model cannot be read: {error}") from None
    if model.NumObj > 1:
        raise ModelError(f"the model has {model.NumObj} objectives; accepted: one")
    for attribute, what in REFUSED.items():
        if getattr(model, attribute):
            raise ModelError(f"the model has {what}: not represented")
    builder = Builder(sense="min" if model.ModelSense == 1 else "max", offset=float(model.ObjCon))
    _variables(model, builder)
    objective = model.getObjective()
    if hasattr(objective, "getLinExpr"):
        builder.quadratic = _square(objective)
    elif not hasattr(objective, "getConstant"):
        raise ModelError(f"the objective is a {type(objective).__name__}: not represented")
    for row in model.getConstrs():
        if row.Lazy < 0:
            raise ModelError(f"row {row.ConstrName!r} is a user cut: not represented")
        lower, upper = _sides(row.Sense, row.RHS, row.ConstrName)
        builder.rows.append(Row(row.ConstrName, _linear(model.getRow(row)), lower, upper))
    for row in model.getQConstrs():
        body = model.getQCRow(row)
        lower, upper = _sides(row.QCSense, row.QCRHS, row.QCName)
        builder.rows.append(Row(row.QCName, _linear(body.getLinExpr()), lower, upper, _square(body)))
    for number, ordered in enumerate(model.getSOSs()):
        type_, members, weights = model.getSOS(ordered)
        places = tuple(var.index for var in members)
        builder.sos.append(SOS(f"s{number}", int(type_), places, tuple(map(float, weights))))
    for general in model.getGenConstrs():
        _general(model, general, builder)
    make_binary(builder)
    return builder.model()


def _variables(model: Any, builder: Builder) -> None:
    variables = model.getVars()
    taken = {var.VarName for var in variables}
    for var in variables:
        name, copy = var.VarName, 0
        while name in builder.place or (copy and name in taken):
            copy += 1
            name = f"{var.VarName}_{copy}"
        column = builder.column(name)
        column.cost, column.kind = float(var.Obj), KINDS[var.VType]
        column.lower = _finite(var.LB)
        column.upper = _finite(var.UB)
        if var.VType == "B":
            column.lower, column.upper = max(column.lower, 0.0), min(column.upper, 1.0)


def _finite(side: float) -> float:
    """A side or bound, infinite where Gurobi takes it for that."""
    return float(side) if abs(side) < INFINITE else math.copysign(math.inf, side)


def _sides(sense: str, right: float, name: str) -> tuple[float, float]:
    side = _finite(right)
    if side == (math.inf if sense == ">" else -math.inf) or (sense == "=" and math.isinf(side)):
        raise ModelError(f"row {name!r} has the right side {right}; accepted: a number within {INFINITE:g}")
    return (-math.inf if sense == "<" else side), (math.inf if sense == ">" else side)


def _linear(expression: Any) -> dict[int, float]:
    terms: dict[int, float] = {}
    add_terms(terms, ((expression.getVar(k).index, expression.getCoeff(k)) for k in range(expression.size())))
    return terms


def _square(expression: Any) -> dict[tuple[int, int], float]:
    terms: dict[tuple[int, int], float] = {}
    for k in range(expression.size()):
        i, j = sorted((expression.getVar1(k).index, expression.getVar2(k).index))
        terms[i, j] = terms.get((i, j), 0.0) + expression.getCoeff(k)
    return {pair: c for pair, c in terms.items() if c}


def _general(model: Any, general: Any, builder: Builder) -> None:
    from gurobipy import GRB

    name, type_ = general.GenConstrName, general.GenConstrType
    if type_ == GRB.GENCONSTR_INDICATOR:
        binary, active, body, sense, right = model.getGenConstrIndicator(general)
        lower, upper = _sides(sense, right - body.getConstant(), name)
        terms = tuple(_linear(body).items())
        builder.indicators.append(Indicator(name, binary.index, int(active), terms, lower, upper))
        return
    readers = {
        GRB.GENCONSTR_MAX: ("max", model.getGenConstrMax),
        GRB.GENCONSTR_MIN: ("min", model.getGenConstrMin),
        GRB.GENCONSTR_ABS: ("abs", model.getGenConstrAbs),
        GRB.GENCONSTR_AND: ("and", model.getGenConstrAnd),
        GRB.GENCONSTR_OR: ("or", model.getGenConstrOr),
    }
    if type_ not in readers:
        kinds = {getattr(GRB, key): key.removeprefix("GENCONSTR_") for key in dir(GRB) if key.startswith("GENCONSTR_")}
        raise ModelError(f"the general constraint {name!r} is {kinds.get(type_, type_)}: not represented")
    kind, read = readers[type_]
    result, arguments, *rest = read(general)
    constant = float(rest[0]) if rest and abs(rest[0]) < INFINITE else None
    if kind == "abs":
        arguments = [arguments]
    builder.functions.append(Function(name, kind, result.index, tuple(var.index for var in arguments), constant))
