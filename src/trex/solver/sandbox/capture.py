"""Sees the models that a program solves, writes or builds, and sends them out as data.

Runs beside the program, in its own process: whatever is sent from here is the program's word.
"""

import gc
import json
import sys
from collections.abc import Callable
from typing import Any

from trex.solver import lp, wire
from trex.solver.model import Model, ModelError

SOLVED, WRITTEN, BUILT = "solved", "written", "built"
MODEL, CLAIM, MESSAGE = b"M", b"C", b"E"  # what a message to the server is about
Convert = Callable[[Any], Model]


class Capture:
    """Replaces the methods that solve and write models by ones that send the model first."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._send = send
        self._inside = False  # a solver that calls another one
        self._seen: set[str] = set()  # what the program did with models
        self._built: list[tuple[Any, Convert]] = []  # kept, so that a function's end does not lose them

    def install(self) -> None:
        """Watch Pyomo, highspy, and what the program will import as gurobipy."""
        self._watch_pyomo()
        self._watch_highspy()
        if "gurobipy" in sys.modules:
            self._watch_gurobipy()

    def finish(self) -> None:
        """Send the last model that was built, where none was solved or written."""
        if self._seen:
            return
        alive = [(found, convert) for found, convert in self._built if not _empty(found)]
        if alive:
            self._snapshot(*alive[-1], BUILT)

    def _snapshot(self, model: Any, convert: Convert, how: str) -> None:
        """Send a model as it is now; what was solved is not replaced by what is only written."""
        if how != SOLVED and SOLVED in self._seen:
            return
        self._seen.add(how)
        message: dict[str, Any] = {"how": how}
        data = b""
        try:
            data = wire.dumps(convert(model))
            if len(data) > wire.LARGEST:
                raise ModelError(f"a model of {len(data)} bytes; accepted: up to {wire.LARGEST}")
        except Exception as error:
            message["unread"] = f"{error}"[:500] if isinstance(error, ModelError) else f"{error!r}"[:500]
            data = b""
        self._send(MODEL + json.dumps(message).encode() + b"\n" + data)

    def _observe(self, owner: type, name: str, how: str, find: Callable[..., Any], convert: Convert,
                 claim: Callable[..., Any] | None = None) -> None:  # fmt: skip
        """Replace owner.name by a method that sends the model which `find` finds in its arguments."""
        original = getattr(owner, name)

        def observed(this: Any, *arguments: Any, **named: Any) -> Any:
            if self._inside:
                return original(this, *arguments, **named)
            self._inside = True
            try:
                if (found := find(this, *arguments, **named)) is not None:
                    self._snapshot(found, convert, how)
                result = original(this, *arguments, **named)
            finally:
                self._inside = False
            if claim is not None and found is not None:
                self._claim(claim, found, result)
            return result

        observed.__name__ = name
        observed.__doc__ = original.__doc__
        setattr(owner, name, observed)

    def _claim(self, claim: Callable[..., Any], model: Any, result: Any) -> None:
        """Send what the program's own solver calls the optimum, if it does."""
        inside, self._inside = self._inside, True
        try:
            value = float(claim(model, result))
        except Exception:
            return
        finally:
            self._inside = inside
        self._send(CLAIM + json.dumps(value).encode())

    def _remember(self, owner: type, convert: Convert) -> None:
        """Keep every object of a class that is built."""
        original = owner.__init__  # type: ignore[misc]

        def remembered(this: Any, *arguments: Any, **named: Any) -> None:
            original(this, *arguments, **named)
            if not self._inside:
                self._built.append((this, convert))

        owner.__init__ = remembered  # type: ignore[misc]

    def _watch_pyomo(self) -> None:
        import pyomo.environ as pyo
        from pyomo.contrib.appsi.base import Solver as AppsiSolver
        from pyomo.contrib.appsi.solvers.highs import Highs as AppsiHighs
        from pyomo.contrib.solver.common.base import LegacySolverWrapper
        from pyomo.contrib.solver.solvers.highs import Highs
        from pyomo.opt.base.solvers import OptSolver, UnknownSolver
        from pyomo.solvers.plugins.solvers.direct_solver import DirectSolver
        from pyomo.solvers.plugins.solvers.persistent_solver import PersistentSolver

        def given(this: Any, *arguments: Any, **named: Any) -> Any:
            model = arguments[0] if arguments else named.get("model")
            if model is None:  # a persistent solver, which was given its model before
                model = getattr(this, "_pyomo_model", None) or getattr(this, "_model", None)
            return model

        def claim(model: Any, _: Any) -> Any:
            (objective,) = model.component_data_objects(pyo.Objective, active=True)
            return pyo.value(objective)

        for owner in (LegacySolverWrapper, Highs, AppsiHighs, AppsiSolver, OptSolver, UnknownSolver, DirectSolver,
                      PersistentSolver):  # fmt: skip
            if "solve" in vars(owner):
                self._observe(owner, "solve", SOLVED, given, lp.from_pyomo, claim)
        self._observe(pyo.ConcreteModel, "write", WRITTEN, lambda this, *_, **__: this, lp.from_pyomo)
        self._remember(pyo.ConcreteModel, lp.from_pyomo)

    def _watch_highspy(self) -> None:
        import highspy

        def this(this: Any, *_: Any, **__: Any) -> Any:
            return this

        def claim(model: Any, _: Any) -> Any:
            if model.getModelStatus() != highspy.HighsModelStatus.kOptimal:
                raise ValueError("no optimum")
            return model.getInfo().objective_function_value

        for name in ("run", "solve", "optimize", "startSolve"):
            self._observe(highspy.Highs, name, SOLVED, this, lp.from_highs, claim)
        self._observe(highspy.Highs, "writeModel", WRITTEN, this, lp.from_highs)
        self._remember(highspy.Highs, lp.from_highs)

    def _watch_gurobipy(self) -> None:
        gurobipy: Any = sys.modules["gurobipy"]
        owner, convert = gurobipy.Model, lp.from_gurobi
        if hasattr(owner, "trex_model"):  # the recorder's
            convert = owner.trex_model
        else:  # a class in C, whose methods cannot be replaced
            base: Any = owner
            own = {name: _calls(getattr(base, name)) for name in ("__init__", "optimize", "write")}
            owner = gurobipy.Model = type("Model", (base,), own)

        def this(this: Any, *_: Any, **__: Any) -> Any:
            return this

        self._observe(owner, "optimize", SOLVED, this, convert, lambda model, _: model.ObjVal)
        self._observe(owner, "write", WRITTEN, this, convert)
        self._remember(owner, convert)


def _calls(method: Callable[..., Any]) -> Callable[..., Any]:
    """A function that calls a method."""
    return lambda this, *arguments, **named: method(this, *arguments, **named)


def _empty(model: Any) -> bool:
    """Whether a model has no variable; what cannot be asked is not."""
    try:
        import highspy
        import pyomo.environ as pyo

        if isinstance(model, pyo.ConcreteModel):
            return next(iter(model.component_data_objects(pyo.Var)), None) is None
        if isinstance(model, highspy.Highs):
            return model.getNumCol() == 0
        model.update()
        return not model.NumVars
    except Exception:
        return False


def forget_unused() -> None:
    """Move all that was imported out of the collector's sight, so that forks share its memory."""
    gc.collect()
    gc.freeze()
