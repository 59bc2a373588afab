"""Methods of a model that are refused, each with what it would need."""

from collections.abc import Callable
from typing import Any, NoReturn

from trex.solver.recorder.errors import refuse

FUNCTIONS = "linear and quadratic constraints, min, max, abs, and, or, indicators, piecewise-linear functions"
REASONS = {
    **dict.fromkeys(("setObjectiveN", "getObjectiveN", "getMultiobjEnv", "discardMultiobjEnvs"), "one objective"),
    **dict.fromkeys(("setPWLObj", "getPWLObj"), "addGenConstrPWL"),
    **dict.fromkeys(("addMConstr", "addMQConstr", "setMObjective"), "addConstr with addMVar and @"),
    **dict.fromkeys(
        ("addGenConstrExp", "addGenConstrExpA", "addGenConstrLog", "addGenConstrLogA", "addGenConstrLogistic",
         "addGenConstrNL", "addGenConstrNLAdv", "addGenConstrNorm", "addGenConstrPoly", "addGenConstrSin",
         "addGenConstrCos", "addGenConstrTan"),
        FUNCTIONS,
    ),
    **dict.fromkeys(("feasRelax", "feasRelaxS", "feasibility", "fixed", "presolve", "tune"), "optimize"),
    **dict.fromkeys(("convertToFixed", "dualize", "linearize", "singleScenarioModel", "optimizeAsync"), "optimize"),
    **dict.fromkeys(("optimizeBatch", "getTuneResult", "getJSONSolution", "printQuality", "basisHead"), "optimize"),
    **dict.fromkeys(("cbLazy", "cbCut", "cbGet", "cbGetSolution", "cbGetNodeRel", "cbSetSolution", "cbUseSolution",
                     "cbProceed", "cbStopOneMultiObj", "cbSetParam"), "all constraints before optimize"),
    **dict.fromkeys(("getA", "getQ", "getQCMatrices", "getCol"), "getRow, getQCRow, getObjective"),
}  # fmt: skip


def refusal(name: str) -> Callable[..., NoReturn] | None:
    """A function that raises GurobiError, for a method that is refused; None for another name."""
    if name not in REASONS:
        return None

    def method(*arguments: Any, **named: Any) -> NoReturn:
        refuse(f"Model.{name}", REASONS[name])

    return method
