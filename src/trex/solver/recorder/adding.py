"""Adding variables, linear and quadratic constraints, one or many at a time."""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from trex.solver.recorder import parts
from trex.solver.recorder.attributes import kind_of, text
from trex.solver.recorder.comparisons import (
    GenExpr,
    Implication,
    TempConstr,
    difference,
    sense_of,
)
from trex.solver.recorder.containers import tupledict
from trex.solver.recorder.errors import INVALID_ARGUMENT, GurobiError
from trex.solver.recorder.expressions import LinExpr, QuadExpr
from trex.solver.recorder.matrix import MVar, array_of
from trex.solver.recorder.naming import keyed, keys_of, names_of, subscripted, values_of
from trex.solver.recorder.operand import Operand, number
from trex.solver.recorder.store import Column, Line, Store, finite, real

INFINITY = 1e100


class Adding:
    """The part of a model's interface that adds variables and rows."""

    _recorded: Store

    def addVar(
        self, lb: float = 0.0, ub: float = INFINITY, obj: float = 0.0, vtype: str = "C", name: str = "",
        column: Any = None,
    ) -> parts.Var:  # fmt: skip
        """A new variable; one without a name is called C and its number. A binary one has an upper bound of 1."""
        store, kind = self._recorded, kind_of(vtype)
        store.touch()
        if column is not None and not isinstance(column, NewColumn):
            raise TypeError(f"column is a {type(column).__name__}; accepted: a Column")
        added = [] if column is None else column._terms
        place = len(store.columns)
        lower, upper = real("lb", lb), real("ub", ub)
        if kind == "B":
            upper = min(upper, 1.0)
        new = Column(store, place, store.named(text(name), "C"), lower, upper, finite(real("obj", obj)), kind)
        new.part = parts.Var(new)
        store.columns.append(new)
        for coefficient, row in added:
            line = store.line(row)
            line.terms[new] = line.terms.get(new, 0.0) + finite(coefficient)
        return new.part

    def addVars(
        self, *indices: Any, lb: Any = 0.0, ub: Any = INFINITY, obj: Any = 0.0, vtype: Any = "C", name: Any = ""
    ) -> tupledict:
        """Variables by key: of numbers, lists, dictionaries or tuples, and of their product. Each is called name[key].

        Each argument is one value for all, a list, or a dictionary by key. Raises KeyError for a key that comes twice.
        """
        keys = keys_of(indices)
        columns = [
            values_of(keys, lb, 0.0, "lb"),
            values_of(keys, ub, INFINITY, "ub"),
            values_of(keys, obj, 0.0, "obj"),
            values_of(keys, vtype, "C", "vtype"),
            names_of(keys, name),
        ]
        values = zip(*columns, strict=True)
        return tupledict((key, self.addVar(*given)) for key, given in zip(keys, values, strict=True))

    def addMVar(
        self, shape: Any, lb: Any = 0.0, ub: Any = INFINITY, obj: Any = 0.0, vtype: Any = "C", name: Any = ""
    ) -> MVar:
        """An array of variables; each argument is one value or an array of that shape."""
        shape = (int(shape),) if isinstance(shape, int | np.integer) else tuple(map(int, shape))
        given = [np.broadcast_to(np.asarray(value, dtype=object), shape) for value in (lb, ub, obj, vtype)]
        names = None if isinstance(name, str) else np.broadcast_to(np.asarray(name, dtype=object), shape)
        created = []
        for place in np.ndindex(shape):
            key = place if len(place) > 1 else place[0] if place else ()
            own = str(names[place]) if names is not None else subscripted(name, key) if name else ""
            low, up, cost, kind = (array[place] for array in given)
            created.append(self.addVar(low, up, cost, kind, own))  # type: ignore[arg-type]
        return array_of(created, shape)

    def addConstr(self, tc: Any, name: str = "") -> Any:
        """A constraint from a comparison; from an array of them an array, called name[i].

        Raises GurobiError for what is no comparison. True and False, which comparisons of numbers give, are rows
        without variables.
        """
        self._recorded.touch()
        if isinstance(tc, np.ndarray) and tc.dtype == object:
            named = [
                (tc[place], subscripted(name, place) if name and place else name) for place in np.ndindex(tc.shape)
            ]
            return array_of([self.addConstr(one, own) for one, own in named], tc.shape)
        if isinstance(tc, bool):
            return self._line({}, "<", 0.0 if tc else -1.0, name)
        if isinstance(tc, Implication):
            return self._implication(tc, name)
        if not isinstance(tc, TempConstr):
            what = f"a {type(tc).__name__} is no constraint"
            raise GurobiError(INVALID_ARGUMENT, f"Invalid value for Model.addConstr: {what}; accepted: ==, <=, >=")
        left, right = tc._left, tc._right
        if isinstance(right, GenExpr):
            return self._equal_to_function(left, tc._sense, right, name)
        if isinstance(right, list | tuple) and tc._sense == "=" and len(right) == 2:
            return self.addRange(left, right[0], right[1], name)
        body, side = difference(tc)
        return self._compared(body, tc._sense, side, name)

    def addConstrs(self, generator: Any, name: Any = "") -> tupledict:
        """Constraints of a generator expression by its loop variables' values, each called name[key]."""
        self._recorded.touch()
        found = tupledict()
        for key, one in keyed(generator):
            own = name.get(key, "") if isinstance(name, dict) else subscripted(str(name), key) if name else ""
            found[key] = self.addConstr(one, own)
        return found

    def addLConstr(self, lhs: Any, sense: Any = None, rhs: Any = None, name: str = "") -> parts.Constr:
        """A linear constraint, from a comparison or from both sides and a sense."""
        comparison, name = _whole(lhs, sense, rhs, name)
        body, side = difference(comparison)
        if not isinstance(body, LinExpr):
            raise GurobiError(INVALID_ARGUMENT, "Invalid argument to Model.addLConstr: a quadratic expression")
        return self._compared(body, comparison._sense, side, name)

    def addQConstr(self, lhs: Any, sense: Any = None, rhs: Any = None, name: str = "") -> parts.QConstr:
        """A quadratic constraint, from a comparison or from both sides and a sense."""
        comparison, name = _whole(lhs, sense, rhs, name)
        body, side = difference(comparison)
        return self._compared(QuadExpr(body), comparison._sense, side, name)

    def addRange(self, expr: Any, lower: float, upper: float, name: str = "") -> parts.Constr:
        """lower <= expr <= upper: as Gurobi has it, an equation with a slack variable that `update` adds."""
        low, up = real("lower", lower), real("upper", upper)
        body, side = difference(TempConstr(expr, "=", 0.0))
        if not isinstance(body, LinExpr):
            raise GurobiError(INVALID_ARGUMENT, "a range of a quadratic expression is not accepted; accepted: linear")
        low, up = low + side, up + side
        terms = self._recorded.linear(body)
        if abs(low) >= 1e20 or abs(up) >= 1e20:
            return self._line(terms, ">" if abs(up) >= 1e20 else "<", low if abs(up) >= 1e20 else up, name)
        row = self._line(terms, "=", up, name)
        row._recorded.span = up - low
        return row

    def _compared(self, body: Any, sense: str, side: float, name: str) -> Any:
        store = self._recorded
        if math.isnan(side):
            raise GurobiError(INVALID_ARGUMENT, "Constant is Nan")
        if isinstance(body, LinExpr):
            return self._line(store.linear(body), sense, side, name)
        terms, square = store.linear(body.getLinExpr()), store.squares(body)
        line = Line(store, len(store.quadratic_rows), text(name), terms, sense, side, square)
        store.touch()
        line.part = parts.QConstr(line)
        store.quadratic_rows.append(line)
        return line.part

    def _line(self, terms: dict[Column, float], sense: str, side: float, name: str) -> parts.Constr:
        store = self._recorded
        store.touch()
        line = Line(store, len(store.rows), store.named(text(name), "R"), terms, sense, side)
        line.part = parts.Constr(line)
        store.rows.append(line)
        return line.part

    def _implication(self, implication: Implication, name: str) -> Any:
        raise NotImplementedError

    def _equal_to_function(self, left: Any, sense: str, function: GenExpr, name: str) -> Any:
        raise NotImplementedError


def _whole(lhs: Any, sense: Any, rhs: Any, name: str) -> tuple[TempConstr, str]:
    """The comparison of both forms of call; in the shorter one the second argument may be the name."""
    if isinstance(lhs, TempConstr):
        return lhs, name or (sense if isinstance(sense, str) else "")
    if not isinstance(lhs, Operand) and number(lhs) is None:
        raise GurobiError(INVALID_ARGUMENT, f"a {type(lhs).__name__} is no constraint; accepted: ==, <=, >=")
    return TempConstr(lhs, sense_of(sense), rhs), name


class NewColumn:
    """Coefficients of a new variable in rows that there are."""

    def __init__(self, coeffs: Any = (), constrs: Any = ()) -> None:
        self._terms: list[tuple[float, Any]] = []
        self.addTerms(coeffs, constrs)

    def addTerms(self, coeffs: Any, constrs: Any) -> None:
        """Add one coefficient and row, or lists of them. Raises GurobiError for what is no linear constraint."""
        one = isinstance(constrs, parts.Constr)
        rows: Iterable[Any] = [constrs] if one else list(constrs)
        values = [float(coeffs)] if one else [float(c) for c in coeffs]
        for row in rows:
            if not isinstance(row, parts.Constr):
                raise GurobiError(INVALID_ARGUMENT, "Only linear constraints allowed")
        self._terms += zip(values, rows, strict=True)

    def size(self) -> int:
        """Number of terms."""
        return len(self._terms)


__all__ = ["Adding", "NewColumn"]
