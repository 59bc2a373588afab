"""Adding special ordered sets and general constraints."""

import itertools
import math
from typing import Any

from trex.solver.recorder import parts
from trex.solver.recorder.adding import Adding
from trex.solver.recorder.attributes import text
from trex.solver.recorder.comparisons import (
    GenExpr,
    Implication,
    TempConstr,
    arguments_of,
    difference,
    flat,
    is_variable,
    sense_of,
)
from trex.solver.recorder.errors import INVALID_ARGUMENT, GurobiError, refuse
from trex.solver.recorder.expressions import LinExpr
from trex.solver.recorder.operand import Operand
from trex.solver.recorder.store import General, real

OUT_OF_RANGE = 10008
ONE_VARIABLE = "General expressions can only be equal to a single var"


class AddingSpecial(Adding):
    """The part of a model's interface that adds what is no row."""

    def _general(self, general: General) -> parts.GenConstr:
        self._recorded.touch()
        general.name = general.name or f"GC{general.place}"
        general.part = parts.GenConstr(general)
        self._recorded.generals.append(general)
        return general.part

    def _new(self, kind: str, variables: tuple[Any, ...], data: Any, name: str) -> parts.GenConstr:
        store = self._recorded
        columns = tuple(map(store.column, variables))
        return self._general(General(store, len(store.generals), text(name), kind, columns, data))

    def addSOS(self, type: int, vars: Any, wts: Any = None) -> parts.SOS:
        """A special ordered set of type 1 or 2; the weights give its order, by default that of the list."""
        store = self._recorded
        store.touch()
        members = tuple(map(store.column, flat([vars])))
        if type not in (1, 2):
            raise GurobiError(INVALID_ARGUMENT, f"a special ordered set of type {type}; accepted: 1, 2")
        given = range(1, len(members) + 1) if wts is None else wts.values() if isinstance(wts, dict) else wts
        weights = tuple(real("weight", w) for w in given)
        if len(weights) != len(members):
            raise GurobiError(INVALID_ARGUMENT, f"{len(weights)} weights for {len(members)} variables")
        new = General(store, len(store.sets), "", "sos", members, (int(type), weights))
        new.part = parts.SOS(new)
        store.sets.append(new)
        return new.part

    def addGenConstrIndicator(
        self, binvar: Any, binval: Any, lhs: Any, sense: Any = None, rhs: Any = None, name: str = ""
    ) -> parts.GenConstr:
        """binvar = binval implies a linear constraint. Raises GurobiError for a value other than 0 and 1."""
        if isinstance(lhs, TempConstr):
            comparison = lhs
        else:
            if isinstance(rhs, Operand):
                raise GurobiError(INVALID_ARGUMENT, "Invalid rhs argument for general constraint of indicator type")
            comparison = TempConstr(lhs, sense_of(sense), rhs)
        if binval not in (0, 1):
            raise GurobiError(OUT_OF_RANGE, f"an indicator acts at {binval!r}; accepted: 0, 1")
        if isinstance(comparison._right, GenExpr | list):
            refuse("a function or a range in an indicator constraint", "a linear constraint")
        body, side = difference(comparison)
        if not isinstance(body, LinExpr):
            raise GurobiError(INVALID_ARGUMENT, "an indicator of a quadratic constraint; accepted: a linear one")
        if math.isnan(side):
            raise GurobiError(INVALID_ARGUMENT, "Constant is Nan")
        terms = self._recorded.linear(body, 0.0)
        made = self._new("indicator", (binvar,), (int(binval), terms, comparison._sense, side), name)
        made._recorded.columns += tuple(terms)  # so that none of them is removed unseen
        return made

    def _implication(self, implication: Implication, name: str) -> parts.GenConstr:
        condition, implied = implication.condition, implication.implied
        binary, value = condition._left, condition._right
        if not is_variable(binary) or condition._sense != "=" or isinstance(value, Operand | list | GenExpr):
            raise GurobiError(
                INVALID_ARGUMENT,
                "Indicator constraints can only be triggered by a single binary variable at a given value",
            )
        if not isinstance(implied, TempConstr):
            raise GurobiError(INVALID_ARGUMENT, f"a {type(implied).__name__} is no constraint; accepted: ==, <=, >=")
        return self.addGenConstrIndicator(binary, value, implied, name=name)

    def _equal_to_function(self, left: Any, sense: str, function: GenExpr, name: str) -> parts.GenConstr:
        if isinstance(left, LinExpr) and left.size() == 1 and left.getCoeff(0) == 1 and not left.getConstant():
            left = left.getVar(0)
        if sense != "=" or not is_variable(left):
            raise GurobiError(INVALID_ARGUMENT, ONE_VARIABLE)
        return self._new(function.kind, (left, *function.arguments), function.constant, name)

    def _of_list(self, kind: str, result: Any, variables: Any, constant: Any, name: str) -> parts.GenConstr:
        items = flat([variables]) + ([] if constant is None else [constant])
        arguments, least = arguments_of(kind, items)
        return self._new(kind, (result, *arguments), least, name)

    def addGenConstrMax(self, resvar: Any, vars: Any, constant: Any = None, name: str = "") -> parts.GenConstr:
        """resvar = the largest of variables and a constant."""
        return self._of_list("max", resvar, vars, constant, name)

    def addGenConstrMin(self, resvar: Any, vars: Any, constant: Any = None, name: str = "") -> parts.GenConstr:
        """resvar = the least of variables and a constant."""
        return self._of_list("min", resvar, vars, constant, name)

    def addGenConstrAbs(self, resvar: Any, argvar: Any, name: str = "") -> parts.GenConstr:
        """resvar = |argvar|."""
        if not is_variable(argvar):
            raise TypeError(f"{argvar} is not a variable")
        return self._new("abs", (resvar, argvar), None, name)

    def addGenConstrAnd(self, resvar: Any, vars: Any, name: str = "") -> parts.GenConstr:
        """resvar = whether all binary variables are 1."""
        return self._of_list("and", resvar, vars, None, name)

    def addGenConstrOr(self, resvar: Any, vars: Any, name: str = "") -> parts.GenConstr:
        """resvar = whether one of the binary variables is 1."""
        return self._of_list("or", resvar, vars, None, name)

    def addGenConstrPow(self, xvar: Any, yvar: Any, a: float, name: str = "", options: str = "") -> parts.GenConstr:
        """yvar = xvar^a for a of 1 and 2, as an exact row. Raises GurobiError for other exponents."""
        if a not in (1, 2):
            refuse(f"addGenConstrPow with the exponent {a!r}", "1, 2")
        return self._new("pow", (xvar, yvar), int(a), name)

    def addGenConstrPWL(self, xvar: Any, yvar: Any, xpts: Any, ypts: Any, name: str = "") -> parts.GenConstr:
        """yvar = the piecewise-linear function of xvar through points, which goes on beyond the first and the last.

        It becomes weights in a special ordered set. Raises GurobiError for fewer than two points and falling x.
        """
        xs, ys = ([real("point", value) for value in points] for points in (xpts, ypts))
        rising = all(a <= b for a, b in itertools.pairwise(xs))
        if len(xs) != len(ys) or len(xs) < 2 or not rising or not all(map(math.isfinite, xs + ys)):
            raise GurobiError(INVALID_ARGUMENT, f"the points {xs} and {ys}; accepted: two or more, x not falling")
        return self._new("pwl", (xvar, yvar), (xs, ys), name)
