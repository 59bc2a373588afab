"""SCIP, quiet and repeatable: for what HiGHS cannot take, and as a second opinion on what it can.

An objective's quadratic terms go into a row that a free variable bounds. Semi-continuous variables, maxima, minima and
absolute values become binary variables with indicators, so no bound is needed and none is invented; "and" and "or"
become rows.
"""

import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trex.solver.builder import add_terms
from trex.solver.model import SEMI, WHOLE, Function, Model, Quadratic
from trex.solver.outcome import Outcome

INFINITE = 1e20  # SCIP's infinity
# SCIP's default of 1e-6 is as wide as the tolerance of the check after it. At 1e-9, its epsilon, SCIP 10 calls the
# origin the optimum of 97 of 1,500 linear programs of rows over one variable each, at 1e-7 of one.
FEASIBILITY = 1e-7
# Where that ends in numerical trouble the default is tried, with an objective that has products divided by its largest
# coefficient.
FEASIBILITY_LOOSE = 1e-6
GAP = 1e-9
GAP_NONLINEAR = 1e-7  # relative; the last digits of a bound on products cost a hundred times the rest
STATUS = {
    "optimal": "optimal",
    "gaplimit": "optimal",
    "infeasible": "infeasible",
    "unbounded": "unbounded",
    "inforunbd": "infeasible_or_unbounded",
    "timelimit": "time_limit",
    "memlimit": "memory_limit",
}
LARGE = 1e15  # an objective beyond it is SCIP's way to say that there may be no optimum


def name() -> str:
    """SCIP and its version."""
    import pyscipopt

    return f"SCIP {pyscipopt.Model().version()}"


def solve(
    model: Model, seconds: float, memory_mb: float | None = None, loose: bool = False, easy: bool = False
) -> Outcome:
    """SCIP on one thread, within so many seconds and megabytes. Whatever SCIP refuses is an outcome "error".

    `loose` widens the tolerance to SCIP's default, for what ends in numerical trouble without. `easy` takes SCIP's
    settings for easy problems: less presolving, cuts and heuristics.
    """
    try:
        return _solve(model, seconds, memory_mb, loose, easy)
    except MemoryError:
        return Outcome(name(), "memory_limit", message="SCIP needs more memory")
    except Exception as error:  # SCIP's refusals have no class of their own
        return Outcome(name(), "error", message=f"SCIP refuses the model: {error}")


def _solve(model: Model, seconds: float, memory_mb: float | None, loose: bool, easy: bool) -> Outcome:
    with _no_stderr():
        program = _Program(model, loose, easy)
    scip = program.scip
    scip.setParam("limits/time", min(max(seconds, 1e-3), INFINITE))
    if memory_mb is not None:
        scip.setParam("limits/memory", float(memory_mb))
    with _no_stderr():
        scip.optimize()
    said = scip.getStatus()
    status = STATUS.get(said, "error")
    message = f"SCIP ended with {said!r}" if status == "error" else ""
    bound = scip.getDualbound()
    bound = bound * program.unit + model.offset if abs(bound) < INFINITE else None
    point = claimed = None
    counterparts = program.variables[: len(model.variables)]
    if scip.getNSols() and status == "unbounded":  # a point of the model, not far out on its ray
        points = [[scip.getSolVal(found, x) for x in counterparts] for found in scip.getSols()]
        point = np.array(min(points, key=lambda values: max(map(abs, values))), dtype=float)
    elif scip.getNSols() and status in ("optimal", "time_limit", "memory_limit"):
        best = scip.getBestSol()
        point = np.array([scip.getSolVal(best, x) for x in counterparts], dtype=float)
        claimed = scip.getSolObjVal(best) * program.unit + model.offset
        if abs(claimed) >= LARGE and status == "optimal":
            status, point, bound = "unknown", None, None
            message = f"SCIP claims the objective {claimed:g}: too large to tell from unbounded"
    if status not in ("optimal", "time_limit", "memory_limit"):
        bound = None
    return Outcome(f"SCIP {scip.version()}", status, point, claimed, bound, message)


@contextmanager
def _no_stderr() -> Iterator[None]:
    """Keep SCIP's reports of numerical trouble, which no parameter turns off, from standard error."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


@dataclass
class _Program:
    """A SCIP model that stands for ours; `variables` are its counterparts, in order, then its own."""

    model: Model
    loose: bool
    easy: bool = False
    scip: Any = None
    variables: list[Any] = field(default_factory=list)
    unit: float = 1.0  # of SCIP's objective

    @property
    def tolerance(self) -> float:
        """SCIP's feasibility tolerance."""
        return FEASIBILITY_LOOSE if self.loose else FEASIBILITY

    @property
    def nonlinear(self) -> bool:
        """Whether there are products of variables."""
        return any(any(square.values()) for square in (self.model.quadratic, *self.model.quadratic_rows.values()))

    def __post_init__(self) -> None:
        import pyscipopt

        self.scip = pyscipopt.Model()
        self.scip.hideOutput()
        if self.easy:
            self.scip.setEmphasis(pyscipopt.SCIP_PARAMEMPHASIS.EASYCIP)
        for parameter, value in {
            "limits/gap": GAP_NONLINEAR if self.nonlinear else GAP,
            "limits/absgap": GAP,
            "numerics/feastol": self.tolerance,
            "propagating/probing/maxprerounds": 0,  # calls some unbounded models with indicators optimal
            "lp/threads": 1,
            "misc/catchctrlc": False,
            "randomization/randomseedshift": 0,
        }.items():
            self.scip.setParam(parameter, value)
        model = self.model
        for j, kind in enumerate(model.kinds):
            self._variable(kind, float(model.lower[j]), float(model.upper[j]))
        for number in range(len(model.rows)):
            low, high = float(model.row_lower[number]), float(model.row_upper[number])
            self._row(_summed(model.row(number)), low, high, model.quadratic_rows.get(number, {}))
        for ordered in model.sos:
            add = self.scip.addConsSOS1 if ordered.type == 1 else self.scip.addConsSOS2
            if ordered.members:
                places = sorted(range(len(ordered.members)), key=lambda k: ordered.weights[k])
                add([self.variables[ordered.members[k]] for k in places], [float(k + 1) for k in range(len(places))])
        for indicator in model.indicators:
            terms = _summed(indicator.terms)
            self._indicator(indicator.binary, indicator.active, terms, indicator.lower, indicator.upper)
        for function in model.functions:
            self._function(function)
        for j, kind in enumerate(model.kinds):
            if kind in SEMI:
                self._semi(j)
        self._objective()

    def _add(self, kind: str, lower: float | None, upper: float | None) -> int:
        self.variables.append(self.scip.addVar(f"x{len(self.variables)}", vtype=kind, lb=lower, ub=upper))
        return len(self.variables) - 1

    def _variable(self, kind: str, lower: float, upper: float) -> None:
        """One of our variables; the switches of semi-continuous ones come after them all."""
        whole = kind in WHOLE
        if kind in SEMI:
            upper, lower = max(upper, 0.0) if lower <= upper else 0.0, 0.0
        binary = whole and 0 <= lower <= upper <= 1
        self._add("B" if binary else "I" if whole else "C", _finite(lower), _finite(upper))

    def _expression(self, terms: Mapping[int, float], quadratic: Quadratic | None = None) -> Any:
        from pyscipopt.scip import Expr, Term

        products = {Term(self.variables[j]): c for j, c in terms.items() if c}
        for (i, j), c in (quadratic or {}).items():
            if c:
                products[Term(self.variables[i], self.variables[j])] = c
        return Expr(products) if products else None

    def _row(self, terms: Mapping[int, float], low: float, high: float, quadratic: Quadratic | None = None) -> None:
        from pyscipopt.scip import ExprCons

        expression = self._expression(terms, quadratic)
        if expression is None:
            if not low <= 0 <= high:
                self._impossible()
        elif low > high:
            self._impossible()
        elif not (math.isinf(low) and math.isinf(high)):
            self.scip.addCons(ExprCons(expression, lhs=_finite(low), rhs=_finite(high)))

    def _impossible(self) -> None:
        zero = self._add("C", 0.0, 0.0)
        self._row({zero: 1.0}, 1.0, math.inf)

    def _indicator(self, binary: int, active: int, terms: Mapping[int, float], low: float, high: float) -> None:
        """x[binary] = active implies both sides; SCIP takes one at a time, as an upper bound."""
        expression = self._expression(terms)
        if expression is None or low > high:
            if expression is not None or not low <= 0 <= high:
                self._row({binary: 1.0}, 1.0 - active, 1.0 - active)
            return
        switch = self.variables[binary]
        for signed, side in ((expression, high), (-1.0 * expression, -low)):
            if not math.isinf(side):
                self.scip.addConsIndicator(signed <= side, switch, activeone=bool(active))

    def _function(self, function: Function) -> None:
        result, arguments = function.result, function.arguments
        if function.kind in ("and", "or"):
            # and: result <= each, result >= sum - (n - 1); or: the same of the complements
            distinct = sorted(set(arguments))
            below, above = (-math.inf, 0.0), (0.0, math.inf)
            each, together = (below, (1.0 - len(distinct), math.inf)) if function.kind == "and" else (above, below)
            for j in distinct:
                self._row(_summed([(result, 1.0), (j, -1.0)]), *each)
            self._row(_summed([(result, 1.0), *((j, -1.0) for j in distinct)]), *together)
            return
        # the result is above every argument and, where its switch is on, equal to one; minima with signs turned
        sign = -1.0 if function.kind == "min" else 1.0
        options = [({result: sign}, {j: sign}, 0.0) for j in arguments]
        if function.kind == "abs":
            options.append(({result: 1.0}, {arguments[0]: -1.0}, 0.0))
        if function.constant is not None:
            options.append(({result: sign}, {}, sign * function.constant))
        switches = []
        for left, right, constant in options:
            difference = _summed([*left.items(), *((j, -c) for j, c in right.items())])
            self._row(difference, constant, math.inf)
            switches.append(self._add("B", 0.0, 1.0))
            self._indicator(switches[-1], 1, difference, -math.inf, constant)
        self._row(dict.fromkeys(switches, 1.0), 1.0, 1.0)

    def _semi(self, j: int) -> None:
        """x[j] is 0 where its switch is off and at least its lower bound where it is on."""
        if 0 < self.model.lower[j] <= self.model.upper[j]:
            switch = self._add("B", 0.0, 1.0)
            self._indicator(switch, 1, {j: 1.0}, float(self.model.lower[j]), math.inf)
            self._indicator(switch, 0, {j: 1.0}, -math.inf, 0.0)

    def _objective(self) -> None:
        model = self.model
        cost = {j: float(c) for j, c in enumerate(model.cost.tolist()) if c}
        if any(model.quadratic.values()):
            level = self._add("C", None, None)
            row: dict[int, float] = {}
            if self.loose:
                largest = max(map(abs, [*cost.values(), *model.quadratic.values()]))
                self.unit = 2.0 ** math.floor(math.log2(largest))
                row, cost = {j: c / self.unit for j, c in cost.items()}, {}
            low, high = (-math.inf, 0.0) if model.sense == "min" else (0.0, math.inf)
            square = {pair: c / self.unit for pair, c in model.quadratic.items()}
            self._row({**row, level: -1.0}, low, high, square)
            cost[level] = 1.0
        expression = self._expression(cost)
        self.scip.setObjective(0.0 if expression is None else expression, f"{model.sense}imize")


def _summed(terms: Iterable[tuple[int, float]]) -> dict[int, float]:
    total: dict[int, float] = {}
    add_terms(total, terms)
    return total


def _finite(side: float) -> float | None:
    return None if math.isinf(side) else side
