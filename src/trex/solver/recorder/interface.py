"""Functions of the interface that depend on the default environment, and the interface as a module of its own."""

import sys
from collections.abc import Mapping
from types import ModuleType, SimpleNamespace
from typing import Any

from trex.solver import lp
from trex.solver.model import ModelError
from trex.solver.recorder import convert
from trex.solver.recorder.errors import GurobiError, refuse
from trex.solver.recorder.model import Model
from trex.solver.recorder.parameters import Env, Params

FILE_READ = 10012
VERSION = (13, 0, 0)


def setParam(paramname: Any, newvalue: Any, env: Env | None = None) -> None:
    """Check a parameter of the default environment, of which there is none outside an installed interface.

    Raises GurobiError for an unknown name, TypeError for another type.
    """
    (env or Env()).setParam(paramname, newvalue)


def resetParams() -> None:
    """Nothing: there is no default environment outside an installed interface."""


def disposeDefaultEnv() -> None:
    """Nothing: there is no default environment outside an installed interface."""


def read(filename: str, env: Env | None = None) -> Model:
    """A model from an LP or MPS file. Raises GurobiError for a file that cannot be read."""
    return _read(Model, filename, env)


def _read(class_: type[Model], filename: str, env: Env | None) -> Model:
    try:
        source = lp.read(str(filename))
    except ModelError as error:
        raise GurobiError(FILE_READ, f"Unable to read model from file '{filename}': {error}") from None
    model = class_(env=env)
    convert.fill(model, source)
    return model


gurobi = SimpleNamespace(version=lambda: VERSION)


class NonlinearFunctions:
    """Stands for gurobipy.nlfunc: every function of it raises GurobiError."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        refuse(f"nlfunc.{name}", "linear and quadratic expressions")


nlfunc = NonlinearFunctions()


def module(names: Mapping[str, Any]) -> ModuleType:
    """A new module `gurobipy` of these names, with a default environment of its own."""
    made = ModuleType("gurobipy", "gurobipy's modelling interface over open solvers")
    default = Env()
    class_ = type("Model", (Model,), {"_default": default, "__doc__": Model.__doc__})

    def set_default(paramname: Any, newvalue: Any, env: Env | None = None) -> None:
        (env or default).setParam(paramname, newvalue)

    vars(made).update(
        names,
        Model=class_,
        setParam=set_default,
        resetParams=default.resetParams,
        disposeDefaultEnv=default.resetParams,
        read=lambda filename, env=None: _read(class_, filename, env),
        gurobi=gurobi,
        __path__=[],
    )
    return made


def install(names: Mapping[str, Any]) -> ModuleType:
    """Put such a module in gurobipy's place for later imports of this process, and return it."""
    made = module(names)
    sys.modules["gurobipy"] = made
    for part in ("gurobi", "_core"):  # `from gurobipy.gurobi import …` occurs in older programs
        sys.modules[f"gurobipy.{part}"] = made
    return made


__all__ = ["Params", "disposeDefaultEnv", "gurobi", "install", "module", "read", "resetParams", "setParam"]
