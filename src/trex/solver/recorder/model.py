"""The Model of the interface: what is recorded can be read, changed, removed, written and solved."""

from typing import Any

import numpy as np

from trex.solver.model import Model as SolverModel
from trex.solver.model import ModelError
from trex.solver.recorder import convert, parts
from trex.solver.recorder.attributes import known
from trex.solver.recorder.conflict import conflict
from trex.solver.recorder.containers import tupledict
from trex.solver.recorder.errors import INVALID_ARGUMENT, GurobiError, refuse
from trex.solver.recorder.expressions import LinExpr, QuadExpr
from trex.solver.recorder.general import AddingSpecial
from trex.solver.recorder.operand import Operand, number
from trex.solver.recorder.parameters import Env, Params
from trex.solver.recorder.reading import Reading
from trex.solver.recorder.refused import refusal
from trex.solver.recorder.status import MODEL, SOLVED, sense_of
from trex.solver.recorder.store import Store, finite, unavailable
from trex.solver.recorder.writing import Writing
from trex.solver.solve import solve

LONGEST = 1e6  # seconds, where no limit is set
SHORTEST = 1e-3
CONFLICT = 60.0  # seconds for computeIIS
IIS_NOT_INFEASIBLE = 10015


class Model(AddingSpecial, Reading, Writing):
    """An optimisation model. Names and attributes can be read before `update`, else as in gurobipy.

    Attributes that begin with `_` are the program's own.
    """

    _default: Env | None = None  # environment of models that are given none

    def __init__(self, name: str = "", env: Env | None = None) -> None:
        env = env or self._default or Env()
        if not isinstance(env, Env):
            raise TypeError(f"env is a {type(env).__name__}; accepted: an Env")
        object.__setattr__(self, "_recorded", Store(name=name or ""))
        object.__setattr__(self, "_parameters", env._values.copied())

    def trex_model(self) -> SolverModel:
        """What was recorded, as `trex.solver.gurobi_model.from_gurobi` gives it for Gurobi's model.

        Raises ModelError for what a Model cannot hold.
        """
        self._recorded.update()
        return convert.to_model(self._recorded)

    def update(self) -> None:
        """Apply removals and add the slack variables of ranges. Raises GurobiError for a model that was freed."""
        self._recorded.update()

    def optimize(self, callback: Any = None) -> None:
        """Solve with HiGHS or SCIP; TimeLimit holds. Nothing is printed.

        A callback is never called: one that only watches changes nothing. Raises GurobiError where LazyConstraints
        says that it adds constraints, for what is no callable, and for a model that cannot be represented.
        """
        if callback is not None and not callable(callback):
            raise GurobiError(-1, "Callback argument must be a callable")
        if callback is not None and self._parameters.value("LazyConstraints"):
            refuse("a callback that adds lazy constraints", "all constraints before optimize")
        store = self._recorded
        try:
            model = self.trex_model()
            solution = solve(model, self._limit())
        except ModelError as error:
            raise GurobiError(INVALID_ARGUMENT, str(error)) from None
        store.forget()
        store.solution, store.solved, store.status = solution, model, SOLVED[solution.status]
        if solution.values:
            values = [solution.values[name] for name in model.variables]
            store.values = dict(zip(store.columns, values, strict=False))  # weights of functions follow the columns

    def computeIIS(self, callback: Any = None) -> None:
        """Find rows and bounds that cannot hold together. Raises GurobiError for a model that is feasible."""
        try:
            model = self.trex_model()
            found = conflict(model, min(self._limit(), CONFLICT))
        except ModelError as error:
            raise GurobiError(INVALID_ARGUMENT, str(error)) from None
        if found is None:
            raise GurobiError(IIS_NOT_INFEASIBLE, "Cannot compute IIS on a feasible model")
        self._recorded.conflict = found

    def _limit(self) -> float:
        """Seconds that a search may take."""
        return min(max(float(self._parameters.value("TimeLimit")), SHORTEST), LONGEST)

    def setObjective(self, expr: Any, sense: Any = None) -> None:
        """Replace the objective by a linear or quadratic expression or a constant. The sense stays where none is given.

        Raises GurobiError for anything else.
        """
        store = self._recorded
        store.touch()
        if isinstance(expr, np.ndarray) and expr.size == 1:
            expr = expr.reshape(-1)[0]
        if not isinstance(expr, Operand) and number(expr) is None:
            what = f"a {type(expr).__name__}"
            raise GurobiError(-1, f"Unable to convert argument to an expression: {what}; accepted: linear, quadratic")
        whole = QuadExpr(expr) if isinstance(expr, QuadExpr) else LinExpr(expr)
        linear = whole.getLinExpr() if isinstance(whole, QuadExpr) else whole
        costs, square = store.linear(linear, 0.0), store.squares(whole)
        offset = finite(linear.getConstant())
        if sense is not None:
            store.sense = sense_of(sense)
        for column in store.columns:
            column.cost = costs.get(column, 0.0)
        store.square, store.offset = square, offset

    def remove(self, items: Any) -> None:
        """Remove a variable or constraint, or all in a list or dictionary, at the next `update`."""
        if isinstance(items, parts.Part):
            if items._recorded.store is not self._recorded:
                raise GurobiError(20001, "Item to be removed not in model")
            self._recorded.touch()
            items._recorded.removed = True
            return
        if isinstance(items, dict):
            items = list(items.values())
        if not isinstance(items, list | tuple | np.ndarray):
            raise GurobiError(-1, "Item to be removed not a Var, Constr, SOS, QConstr, or GenConstr")
        for item in items.reshape(-1) if isinstance(items, np.ndarray) else items:
            self.remove(item)

    def chgCoeff(self, constr: Any, var: Any, newvalue: float) -> None:
        """Change a coefficient of a linear constraint."""
        column, line = self._recorded.column(var), self._recorded.line(constr)
        self._recorded.touch()
        line.terms[column] = finite(float(newvalue))
        if not newvalue:
            del line.terms[column]

    def copy(self) -> "Model":
        """Another model with the same content."""
        return self._from(self.trex_model())

    def relax(self) -> "Model":
        """Another model whose variables are all continuous. Raises GurobiError for special sets and functions."""
        store = self._recorded
        if store.sets or store.generals:
            refuse("the relaxation of special ordered sets and general constraints", "integer variables")
        other = self.copy()
        for column in other._recorded.columns:
            if column.kind in "SN":
                column.lower = min(column.lower, 0.0)
            column.kind = "C"
        return other

    def _from(self, source: SolverModel) -> "Model":
        other = type(self)(self._recorded.name)
        object.__setattr__(other, "_parameters", self._parameters.copied())
        convert.fill(other, source)
        return other

    def reset(self, clearall: int = 0) -> None:
        """Discard the solution."""
        self._recorded.forget()

    def dispose(self) -> None:
        """Free the model: every later use raises GurobiError."""
        self._recorded.freed = True

    close = dispose

    def __enter__(self) -> "Model":
        return self

    def __exit__(self, *error: object) -> None:
        self.dispose()

    def setParam(self, paramname: Any, newvalue: Any) -> None:
        """Change a parameter. Raises GurobiError for an unknown name, TypeError for another type."""
        self._parameters.set(paramname, newvalue)

    def resetParams(self) -> None:
        """Restore all parameters."""
        self._parameters.reset()

    @property
    def Params(self) -> Params:
        """The parameters."""
        return self._parameters

    params = Params

    def getAttr(self, attrname: str, objs: Any = None) -> Any:
        """An attribute of the model, or of each of some parts; without those, of all that have it."""
        if objs is None:
            return self._all(attrname) if str(attrname).lower() not in MODEL else getattr(self, attrname)
        if isinstance(objs, dict):
            return tupledict((key, part.getAttr(attrname)) for key, part in objs.items())
        return [part.getAttr(attrname) for part in objs]

    def _all(self, attrname: str) -> list[Any]:
        store = self._recorded
        for class_, items in (
            (parts.Var, store.columns), (parts.Constr, store.rows), (parts.QConstr, store.quadratic_rows),
            (parts.GenConstr, store.generals),
        ):  # fmt: skip
            if str(attrname).lower() in class_._attributes:
                try:
                    return [item.part.getAttr(attrname) for item in items]
                except AttributeError:
                    raise unavailable(attrname) from None
        raise AttributeError(f"'gurobipy.Model' object has no attribute '{attrname}'")

    def setAttr(self, attrname: str, arg1: Any, arg2: Any = None) -> None:
        """Change an attribute of the model, or of each of some parts to one value, a list, or a dictionary by key."""
        if arg2 is None and not isinstance(arg1, list | dict):
            self._change(attrname, arg1)
            return
        objects, values = (self._recorded_parts(attrname), arg1) if arg2 is None else (arg1, arg2)
        if isinstance(objects, dict):
            for key, part in objects.items():
                part.setAttr(attrname, values[key] if isinstance(values, dict) else values)
            return
        each = list(values) if isinstance(values, list | tuple | np.ndarray) else [values] * len(objects)
        if len(each) != len(objects):
            raise GurobiError(INVALID_ARGUMENT, f"{len(each)} values of {attrname} for {len(objects)} parts")
        for part, value in zip(objects, each, strict=True):
            part.setAttr(attrname, value)

    def _recorded_parts(self, attrname: str) -> list[Any]:
        return self.getVars() if str(attrname).lower() in parts.Var._attributes else self.getConstrs()

    def _change(self, name: str, value: Any) -> None:
        title, _, write = known(MODEL, name, "Model")
        if write is None:
            raise AttributeError(f"Attribute '{title}' cannot be set")
        self._recorded.touch()
        write(self._recorded, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            object.__setattr__(self, name, value)
        else:
            self._change(name, value)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"'gurobipy.Model' object has no attribute '{name}'")
        refused = refusal(name)
        if refused is not None:
            return refused
        if name.lower() not in MODEL:
            return self._all(name)
        self._recorded.alive()
        return MODEL[name.lower()][1](self._recorded)

    def __repr__(self) -> str:
        store = self._recorded
        kind = "MIP" if any(column.kind != "C" for column in store.columns) else "Continuous"
        size = f"{len(store.rows)} constrs, {len(store.columns)} vars"
        return f"<gurobi.Model {kind} instance {store.name or 'Unnamed'}: {size}>"
