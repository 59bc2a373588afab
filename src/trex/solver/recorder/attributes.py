"""Attributes of variables and constraints: how each is read, and changed where it can be."""

import math
from collections.abc import Callable
from typing import Any

from trex.solver.formats.tokens import INFINITE
from trex.solver.recorder.comparisons import sense_of
from trex.solver.recorder.duals import dual
from trex.solver.recorder.errors import INVALID_ARGUMENT, GurobiError, refuse
from trex.solver.recorder.store import UNDEFINED, Column, Line, finite, real

Attributes = dict[str, tuple[str, Callable[[Any], Any], Callable[[Any, Any], None] | None]]
KINDS = {"continuous": "C", "binary": "B", "integer": "I", "semicont": "S", "semiint": "N"}


def kind_of(value: Any) -> str:
    """A kind of variable from its letter or word. Raises GurobiError for another."""
    letter = KINDS.get(str(value).lower(), str(value).upper())
    if letter not in KINDS.values():
        raise GurobiError(INVALID_ARGUMENT, f"Invalid variable type '{value}'; accepted: {', '.join(KINDS.values())}")
    return letter


def text(value: Any) -> str:
    """A name. Raises TypeError for what is no text."""
    if not isinstance(value, str):
        raise TypeError(f"a name must be str, not {type(value).__name__}")
    return value


def known(table: Attributes, name: str, owner: str) -> tuple[str, Callable[[Any], Any], Any]:
    """An attribute's entry. Raises AttributeError for a name that there is not."""
    entry = table.get(str(name).lower())
    if entry is None:
        raise AttributeError(f"'gurobipy.{owner}' object has no attribute '{name}'")
    return entry


def get(part: Any, table: Attributes, name: str) -> Any:
    """An attribute's value. Raises AttributeError where it is unknown or has none, GurobiError for a removed part."""
    _, read, _ = known(table, name, type(part).__name__)
    if part._recorded.removed:
        raise GurobiError(0, f"{part._word} was removed from the model")
    part._recorded.store.alive()
    return read(part._recorded)


def put(part: Any, table: Attributes, name: str, value: Any) -> None:
    """Change an attribute. Raises AttributeError where it is unknown or cannot be changed."""
    title, _, write = known(table, name, type(part).__name__)
    if write is None:
        raise AttributeError(f"Attribute '{title}' cannot be set")
    if part._recorded.removed:
        raise GurobiError(0, f"{part._word} was removed from the model")
    part._recorded.store.touch()
    write(part._recorded, value)


def _noted(name: str, default: Any) -> tuple[str, Callable[[Any], Any], Callable[[Any, Any], None]]:
    """An attribute that means nothing for the model: kept as it was set."""
    return name, lambda item: item.noted.get(name, default), lambda item, value: item.noted.update({name: value})


def _number(name: str, field: str, largest: float) -> tuple[str, Callable[[Any], Any], Callable[[Any, Any], None]]:
    """A bound or side: read back as infinite from `largest` on."""

    def read(item: Any) -> float:
        value: float = getattr(item, field)
        return value if abs(value) < largest else math.copysign(math.inf, value)

    def write(item: Any, value: Any) -> None:
        setattr(item, field, real(name, value))

    return name, read, write


def _name(name: str) -> tuple[str, Callable[[Any], Any], Callable[[Any, Any], None]]:
    return name, lambda item: item.name, lambda item, value: setattr(item, "name", text(value))


def _cost(column: Column, value: Any) -> None:
    column.cost = finite(real("Obj", value))


def _lazy(line: Line, value: Any) -> None:
    if value < 0:
        refuse(f"Lazy = {value} makes {line.name!r} a user cut", "0, 1, 2, 3")
    line.noted["Lazy"] = int(value)


def _slack(line: Line) -> float:
    return line.right - line.store.activity(line)


def _in_conflict(item: Any, kind: str, place: int, name: str) -> int:
    found = item.store.conflict
    if found is None:
        raise AttributeError(f"Unable to retrieve attribute '{name}'")
    return int(place in getattr(found, kind))


def _without(name: str) -> tuple[str, Callable[[Any], Any], None]:
    """An attribute of Gurobi that is not computed."""

    def read(item: Any) -> Any:
        raise AttributeError(f"Unable to retrieve attribute '{name}': it is not computed")

    return name, read, None


def _table(*entries: Any) -> Attributes:
    return {name.lower(): (name, read, write) for name, read, write in entries}


_BASIS = ("VBasis", "SAObjLow", "SAObjUp", "SALBLow", "SALBUp", "SAUBLow", "SAUBUp", "UnbdRay")

COLUMN: Attributes = _table(
    _name("VarName"),
    _number("LB", "lower", INFINITE),
    _number("UB", "upper", INFINITE),
    ("Obj", lambda column: column.cost, _cost),
    ("VType", lambda column: column.kind, lambda column, value: setattr(column, "kind", kind_of(value))),
    ("X", lambda column: column.store.value(column), None),
    ("Xn", lambda column: column.store.value(column), None),
    ("RC", dual, None),
    _noted("Start", UNDEFINED),
    _noted("PStart", UNDEFINED),
    _noted("VarHintVal", UNDEFINED),
    _noted("VarHintPri", 0),
    _noted("BranchPriority", 0),
    _noted("Partition", 0),
    _noted("PoolIgnore", 0),
    _noted("VTag", ""),
    ("IISLB", lambda column: _in_conflict(column, "lower", column.place, "IISLB"), None),
    ("IISUB", lambda column: _in_conflict(column, "upper", column.place, "IISUB"), None),
    *map(_without, _BASIS),
)
LINE: Attributes = _table(
    _name("ConstrName"),
    ("Sense", lambda line: line.sense, lambda line, value: setattr(line, "sense", sense_of(value))),
    _number("RHS", "right", 1e100),
    ("Slack", _slack, None),
    ("Pi", dual, None),
    ("Lazy", lambda line: line.noted.get("Lazy", 0), _lazy),
    _noted("DStart", UNDEFINED),
    _noted("CTag", ""),
    ("IISConstr", lambda line: _in_conflict(line, "rows", line.place, "IISConstr"), None),
    *map(_without, ("CBasis", "SARHSLow", "SARHSUp", "FarkasDual")),
)
QUADRATIC_LINE: Attributes = _table(
    _name("QCName"),
    ("QCSense", lambda line: line.sense, lambda line, value: setattr(line, "sense", sense_of(value))),
    _number("QCRHS", "right", 1e100),
    ("QCSlack", _slack, None),
    _noted("QCTag", ""),
    ("IISQConstr", lambda line: _in_conflict(line, "rows", len(line.store.rows) + line.place, "IISQConstr"), None),
    _without("QCPi"),
)
SET: Attributes = _table(*map(_without, ("IISSOS",)))
_TYPES = {"max": 0, "min": 1, "abs": 2, "and": 3, "or": 4, "indicator": 7, "pwl": 8, "pow": 14}
GENERAL: Attributes = _table(
    _name("GenConstrName"),
    ("GenConstrType", lambda general: _TYPES[general.kind], None),
    *(_noted(name, 0) for name in ("FuncPieces", "FuncPieceError", "FuncPieceLength", "FuncPieceRatio")),
    _noted("FuncNonlinear", 0),
    _without("IISGenConstr"),
)
