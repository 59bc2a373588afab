"""gurobipy's modelling interface without Gurobi: what a program builds is a `Model`, solved by HiGHS or SCIP.

`import trex.solver.recorder as gp` serves a program as `import gurobipy as gp` does; `install` puts the interface in
gurobipy's place. `Model.trex_model()` is what was built. What a Model cannot hold raises GurobiError when it is added:
nothing is left out. Of the parameters, TimeLimit has an effect.
"""

from types import ModuleType

from trex.solver.recorder import interface
from trex.solver.recorder.adding import NewColumn as Column
from trex.solver.recorder.arithmetic import quicksum
from trex.solver.recorder.comparisons import GenExpr, TempConstr, abs_, all_, and_, any_, max_, min_, norm, or_
from trex.solver.recorder.constants import GRB
from trex.solver.recorder.containers import multidict, tupledict, tuplelist
from trex.solver.recorder.errors import GurobiError
from trex.solver.recorder.expressions import LinExpr, QuadExpr
from trex.solver.recorder.interface import disposeDefaultEnv, gurobi, nlfunc, read, resetParams, setParam
from trex.solver.recorder.matrix import MVar
from trex.solver.recorder.model import Model
from trex.solver.recorder.parameters import Env
from trex.solver.recorder.parts import SOS, Constr, GenConstr, QConstr, Var

__all__ = [
    "GRB", "SOS", "Column", "Constr", "Env", "GenConstr", "GenExpr", "GurobiError", "LinExpr", "MVar", "Model",
    "QConstr", "QuadExpr", "TempConstr", "Var", "abs_", "all_", "and_", "any_", "disposeDefaultEnv", "gurobi", "max_",
    "min_", "multidict", "nlfunc", "norm", "or_", "quicksum", "read", "resetParams", "setParam", "tupledict",
    "tuplelist",
]  # fmt: skip


def module() -> ModuleType:
    """The interface as a new module `gurobipy`, with a default environment of its own."""
    return interface.module({name: globals()[name] for name in __all__})


def install() -> ModuleType:
    """Put such a module in gurobipy's place for later imports of this process, and return it."""
    return interface.install({name: globals()[name] for name in __all__})
