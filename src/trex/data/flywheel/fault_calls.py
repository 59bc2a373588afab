"""Faults in how a program uses Pyomo, and numbers of its own that it brings into the model."""

import ast
import random
import re
from collections.abc import Iterator
from functools import partial

from trex.data.flywheel.dialogue import Dialogue
from trex.data.flywheel.fault_proof import Edit, Proof
from trex.data.flywheel.fault_source import Source, called, domains, shows_program, with_program
from trex.data.flywheel.representation import numbers_of
from trex.data.problem import nice
from trex.data.wording import numbers

# what is replaced once, by what, and what that is
MISUSES: tuple[tuple[str, str, str], ...] = (
    (r"\bpyo\.value\(m\.objective\)", "m.objective.value", "the objective's value is read as an attribute"),
    (r"\bpyo\.value\(m\.objective\)", "m.objective()[0]", "the objective's value is read as a list's"),
    (r"\bpyo\.value\(m\.objective\)", "m.objVal", "the objective's value is read as in gurobipy"),
    (r"\bpyo\.value\(m\.objective\)", "result.objective_value", "the result has no such value"),
    (r"\bvariable\.value\b", "variable.values", "`.values` stands for `.value`"),
    (r"\bvariable\.value\b", "variable.X", "a variable's value is read as in gurobipy"),
    (r"\bm\.component_data_objects\(pyo\.Var\)", "m.getVars()", "variables are listed as in gurobipy"),
    (r"\bSolverFactory\(\"highs\"\)", 'SolverFactory("highs_solver")', "a solver that does not exist is asked for"),
    (r"\bSolverFactory\(\"highs\"\)", 'SolverFactory("cplex")', "a solver that is not there is asked for"),
    (r"\bSolverFactory\(\"highs\"\)", 'SolverFactory("mosek")', "a solver that is not there is asked for"),
    (r"\.solve\(m\)", ".solve()", "`solve` is called without the model"),
    (r"\.solve\(m\)", ".optimize(m)", "a solver has no `optimize`"),
    (r"\.solve\(m\)", '.solve(m, method="simplex")', "`solve` is given a keyword that it does not take"),
    (r"= pyo\.SolverFactory\(\"highs\"\)\.solve\(m\)", "= m.optimize()", "the model is solved as in gurobipy"),
    (r"= pyo\.SolverFactory\(\"highs\"\)\.solve\(m\)", '= pyo.SolverFactory("highs")', "the solver is never called"),
    (r"\bm = model\(data\)", "m = model()", "`model` is called without its argument"),
    (r"\bm = model\(data\)", "m = model", "`model` is not called"),
    (r"\bimport pyomo\.environ as pyo\b", "import pyomo as pyo", "`pyomo.environ` is not imported"),
    (r"\bimport pyomo\.environ as pyo\b", "from pyomo.environ import *", "`pyo` is not defined"),
    (r"^import json\n", "", "`json` is not imported"),
    (r"^import (?:itertools|math)\n", "", "a module that is used is not imported"),
    (r"\bjson\.load\(file\)", "json.loads(file)", "`json.loads` is given a file"),
    (r"\bpyo\.ConcreteModel\(\)", "pyo.AbstractModel()", "the model is abstract and no instance of it is made"),
    (r"\bpyo\.ConcreteModel\(\)", "pyo.Model()", "a class that Pyomo does not have is used"),
    (r"\bsense=pyo\.m(in|ax)imize\b", 'sense="maximise"', "a direction is given in words that Pyomo does not know"),
    (r"\bsense=pyo\.(minimize|maximize)\b", r"sense=pyo.Objective.\1", "a direction is looked for in another place"),
    (r"\bdomain=pyo\.", "vtype=pyo.", "a variable's domain is given by the name that it has in gurobipy"),
    (r"\bdomain=pyo\.(\w+)", r'domain="\1"', "a domain is given as a word"),
    (r"\brule=lambda", "rules=lambda", "`rules` stands for `rule`"),
    (r"\bm\.\w+ = pyo\.Constraint\(expr=", "m.addConstr(", "a constraint is added as in gurobipy"),
    (r"\bpyo\.Constraint\(", "pyo.Constraints(", "`Constraints` stands for `Constraint`"),
    (r"\bexpr=sum\(", "expr=pyo.sum(", "`pyo.sum` does not exist"),
)  # fmt: skip
FACTORS = (1.05, 1.1, 1.15, 1.2, 0.95, 0.9, 0.85)


def misuse(row: Dialogue, rng: random.Random) -> Iterator[Edit]:
    """Pyomo used in a way that fails, or that solves nothing or less than is meant."""
    if not shows_program(row):
        return
    options = []
    for pattern, new, what in MISUSES:
        places = list(re.finditer(pattern, row.program, re.MULTILINE))
        if places:
            place = rng.choice(places)
            changed = row.program[: place.start()] + place.expand(new) + row.program[place.end() :]
            options.append((changed, what))
    source = Source(row.program)
    options += list(_misordered(source))
    for part in source.of("Constraint"):
        rule = part.keyword("rule", "expr")
        if rule is not None and part.call.args:
            bare = ", ".join(source.cut(argument) for argument in part.call.args)
            changed = source.put((part.call, f"{source.cut(part.call.func)}({bare})"))
            options.append((changed, f"the constraint `{part.name}` has no rule"))
    rng.shuffle(options)
    for program, what in options:
        yield Edit(what, with_program(row, program), partial(_fails, row=row, program=program))


def invented_number(row: Dialogue, rng: random.Random) -> Iterator[Edit]:
    """A number that is nowhere in the text comes into the program: a bound, a factor, a limit or a cost."""
    if not shows_program(row):
        return
    source = Source(row.program)
    values = {abs(value) for value in (*numbers(row.asked), *numbers_of(row.representation.data))}
    scale = sorted(value for value in values if value >= 2) or [10.0]
    constants = [node.value for node in ast.walk(source.tree) if isinstance(node, ast.Constant)]
    known = values | {float(value) for value in constants if isinstance(value, int | float)}
    options: list[tuple[str, str]] = []

    def fresh(*factors: float) -> float:
        while True:
            value = nice(round(rng.choice(scale) * rng.choice(factors), 1))
            if value not in known:
                return value
            scale.append(value + 1)

    for part in source.of("Var"):
        if domains(row).get(part.name, "binary") != "binary" and part.keyword("bounds") is None:
            bound = fresh(0.3, 0.5, 0.7)
            last = source.span(part.call.keywords[-1])[1] if part.call.keywords else source.span(part.call)[1] - 1
            text = source.put(((last, last), f", bounds=(0, {bound})"))
            options.append((text, f"the variables `{part.name}` have an upper bound of {bound}"))
            options.append(
                (_added(source, f"sum(m.{part.name}.values()) <= {bound}"), f"all `{part.name}` are {bound} at most")
            )
    for part in source.of("Objective"):
        expression = part.keyword("expr")
        if expression is not None:
            cost = fresh(0.5, 1.5, 3.0)
            text = source.put((expression.value, f"{source.cut(expression.value)} + {cost}"))
            options.append((text, f"{cost} is added to the objective"))
    for part in source.of("Constraint"):
        for node in ast.walk(part.call):
            if isinstance(node, ast.Subscript) and source.depth(node)[0] and not source.is_index(node):
                if isinstance(source.parents[node], ast.Subscript):
                    continue
                factor = rng.choice([factor for factor in FACTORS if factor not in known] or [1.07])
                text = source.put((node, f"{factor} * {source.cut(node)}"))
                options.append((text, f"`{source.cut(node)}` is taken {factor} times in `{part.name}`"))
    rng.shuffle(options)
    for program, what in options:
        yield Edit(what, with_program(row, program), partial(_builds_other, row=row, program=program))


def _added(source: Source, condition: str) -> str:
    """The text with one more constraint before the model is returned, or before it is solved."""
    last = [part.statement for part in source.of("Constraint", "Objective")][-1]
    start, end = source.lines(last)
    line = source.text[start:end]
    indent = line[: len(line) - len(line.lstrip())]
    return source.put(((end, end), f"{indent}m.at_most = pyo.Constraint(expr={condition})\n"))


def _misordered(source: Source) -> Iterator[tuple[str, str]]:
    """The optimum printed before the model is solved."""
    body = source.tree.body
    solves = [k for k, node in enumerate(body) if any(_calls(part, "solve") for part in ast.walk(node))]
    prints = [k for k, node in enumerate(body) if isinstance(node, ast.Expr) and _calls(node.value, "print")]
    if solves and prints and solves[0] < prints[0]:
        printed = source.lines(body[prints[0]])
        start = source.lines(body[solves[0]])[0]
        text = source.put((printed, ""), ((start, start), source.text[slice(*printed)]))
        yield text, "the objective is read before the model is solved"


def _calls(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and called(node) == name


def _fails(proof: Proof, row: Dialogue, program: str) -> bool:
    return proof.fails(program, row.files)


def _builds_other(proof: Proof, row: Dialogue, program: str) -> bool:
    return proof.builds_other(program, row.files)
