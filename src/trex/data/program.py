"""The programs of a document: the family's own model builders, with the data, as scripts that stand alone."""

import inspect
from functools import cache

from trex.data import families
from trex.data.problem import Problem
from trex.data.rendering import DATA_FILE, literal

PYOMO = """
m = model(data)
result = pyo.SolverFactory("highs").solve(m)
pyo.assert_optimal_termination(result)
print("objective:", round(pyo.value(m.objective), 6))
for variable in m.component_data_objects(pyo.Var):
    if abs(variable.value) > 1e-6:
        print(f"{variable.name} = {round(variable.value, 6)}")
"""
GUROBIPY = """
m = reformulated(data)
m.optimize()
assert m.Status == gp.GRB.OPTIMAL
print("objective:", round(m.ObjVal, 6))
for variable in m.getVars():
    if abs(variable.X) > 1e-6:
        print(f"{variable.VarName} = {round(variable.X, 6)}")
"""


def program(problem: Problem, mode: str, builder: str | None = None) -> str:
    """Python source that builds and solves the problem with Pyomo and HiGHS and prints objective and variables.

    The builder is `model` of the problem's family, so that what a document shows is what was solved. In mode DPS the
    program reads `data.json` from the folder it runs in; otherwise it holds the data. builder: a changed source of
    `model`.
    """
    builder = builder or _source(families.get(problem.family).model)
    return _script(problem, mode, "import pyomo.environ as pyo\n", builder, PYOMO)


def reformulation(problem: Problem, mode: str) -> str:
    """The same of the family's `reformulated`, with gurobipy's interface."""
    builder = _source(families.get(problem.family).reformulated)
    return _script(problem, mode, "import gurobipy as gp\n", builder, GUROBIPY)


_source = cache(inspect.getsource)


def _script(problem: Problem, mode: str, imported: str, builder: str, end: str) -> str:
    """math and itertools are imported where the builder uses them."""
    standard = [name for name in ("itertools", "math") if f"{name}." in builder]
    if mode == "DPS":
        standard.append("json")
        data = f'with open("{DATA_FILE}") as file:\n    data = json.load(file)\n'
    else:
        data = f"data = {literal(problem.data)}\n"
    imports = "".join(f"import {name}\n" for name in sorted(standard))
    return f"{imports}{chr(10) if imports else ''}{imported}\n{data}\n\n{builder}\n{end}"
