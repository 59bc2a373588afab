"""The program of a document: the family's own model builder, with its data, as a script that stands alone."""

import inspect

from trex.data import families
from trex.data.problem import Problem
from trex.data.rendering import DATA_FILE, literal

SOLVE = """
model = build(data)
result = pyo.SolverFactory("highs").solve(model)
pyo.assert_optimal_termination(result)
print("objective:", round(pyo.value(model.objective), 6))
for variable in model.component_data_objects(pyo.Var):
    if abs(variable.value) > 1e-6:
        print(f"{variable.name} = {round(variable.value, 6)}")
"""


def program(problem: Problem, mode: str) -> str:
    """Python source that builds and solves the problem with Pyomo and HiGHS and prints objective and variables.

    The builder is `build` of the problem's family, so that what a document shows is what was solved. In mode DPS the
    program reads `data.json` from the folder it runs in; otherwise it holds the data.
    """
    if mode == "DPS":
        imports = "import json\n\nimport pyomo.environ as pyo\n"
        data = f'with open("{DATA_FILE}") as file:\n    data = json.load(file)\n'
    else:
        imports = "import pyomo.environ as pyo\n"
        data = f"data = {literal(problem.data)}\n"
    builder = inspect.getsource(families.get(problem.family).build)
    return f"{imports}\n{data}\n\n{builder}\n{SOLVE}"
