"""Gates on what happened: a program, its run, the model that was seen, its optimum, and whether that says anything."""

import re
from collections.abc import Iterator

from trex.data.audit.facts import Facts
from trex.data.audit.findings import NOTE, REFUSE, Finding, line
from trex.data.audit.rows import Row

ZERO = 1e-6  # from which a value or an optimum is away from zero
BEYOND = re.compile(
    r"addGenConstr\w*(?: with the exponent [-\d.e]+)?|nlfunc\.\w+|a product of degree three or more|"
    r"a division by a variable|the power [^;]{1,20} of an expression|a variable as exponent|a norm|non-?linear",
    re.IGNORECASE,
)
ADDRESS = re.compile(r"\b0x[0-9a-f]{4,}\b")
FORMULAS = re.compile(r"\$\$|\\\[|\\begin\{(?:aligned|align|equation|gather)")
WANTS_PROGRAM = re.compile(r"\b(?:python|pyomo|gurobi(?:py)?|code|highs|cplex|or-tools)\b", re.IGNORECASE)
TEMPORARY = re.compile(r"(?<![\w.])/(?:[\w.+-]+/)+(?=[\w.+-])")


def code(row: Row, facts: Facts) -> Iterator[Finding]:
    """The answer has a program, and it parses; or a formulation, where no program is asked for."""
    if not row.answer:
        yield Finding("code", "label only", f"the row has the label {row.label} and no answer text", NOTE)
    elif not facts.program.code and FORMULAS.search(row.answer) and not WANTS_PROGRAM.search(row.problem):
        yield Finding("code", "formulation only", "formulas that no program carries out are not checked", NOTE)
    elif not facts.program.code:
        yield Finding("code", "none", line(facts.program.how), REFUSE)
    elif facts.syntax:
        yield Finding("code", "syntax", line(f"{facts.program.how}: {facts.syntax}"), REFUSE)


def execution(row: Row, facts: Facts) -> Iterator[Finding]:
    """The program ends by itself without an error."""
    run = facts.execution
    if run is not None and run.status != "ok" and not lost(facts):
        kind = run.error if run.status == "error" and run.error.isidentifier() else run.status
        yield Finding("execution", kind, line(steady(run.message) or run.status), REFUSE)


def model(row: Row, facts: Facts) -> Iterator[Finding]:
    """The program builds a model that can be represented. Where it solves several, the last counts."""
    run = facts.execution
    if reason := lost(facts):
        yield Finding("model", "not representable", line(steady(reason)), REFUSE)
    if run is None or run.status != "ok" or reason:
        return
    if run.model is None:
        yield Finding("model", "none", "the program ended without building a model that was seen", REFUSE)
    elif run.how != "solved":
        yield Finding("model", "not solved", f"the program's model was only {run.how or 'built'}, never solved", NOTE)
    elif run.models > 1:
        yield Finding("model", "several", f"the program solves {run.models} models; the last is audited", NOTE)


def optimum(row: Row, facts: Facts) -> Iterator[Finding]:
    """Two solvers find the same optimum."""
    found = facts.solution
    if found is None:
        return
    second = found.agreement
    if found.status != "optimal":
        other = f"; {second.solver}: {second.status}" if second else ""
        contradicted = second is not None and second.agrees is False
        why = f" ({steady(found.message)})" if found.status == "error" and found.message else ""
        kind = "solvers disagree" if contradicted else found.status.replace("_", " ")
        yield Finding("optimum", kind, line(f"{found.solver}: {found.status}{other}{why}"), REFUSE)
    elif second is None:
        yield Finding(
            "optimum", "one solver", line(f"{found.solver} alone takes this model: {found.objective!r}"), NOTE
        )
    elif second.agrees is False:
        says = f"{second.status}{'' if second.objective is None else f' {second.objective!r}'}"
        evidence = f"{found.solver}: {found.objective!r}; {second.solver}: {says}"
        yield Finding("optimum", "solvers disagree", line(evidence), REFUSE)
    elif second.agrees is None:
        evidence = f"{found.solver}: {found.objective!r}; {second.solver} decides nothing: {second.status}"
        yield Finding("optimum", "one solver", line(evidence), NOTE)


def trivial(row: Row, facts: Facts) -> Iterator[Finding]:
    """The optimum is not that of an empty model: neither its value nor its point is zero."""
    if facts.optimum is None or facts.solution is None:
        return
    values = facts.solution.values
    away = sum(abs(value) >= ZERO for value in values.values())
    if away == 0:
        evidence = f"all {len(values)} variables are 0 at the optimum, which is {facts.optimum!r}"
        yield Finding("trivial", "zero point", evidence, REFUSE)
    elif abs(facts.optimum) < ZERO:
        evidence = f"the optimum is 0, with {away} of {len(values)} variables away from 0"
        yield Finding("trivial", "zero optimum", evidence, REFUSE)


def nonlinear(row: Row, facts: Facts, linear: bool) -> Iterator[Finding]:
    """The model is a mixed-integer linear program; asked for by `linear`."""
    if facts.model is not None and facts.model.beyond_linear:
        evidence = line(f"the model has {', '.join(facts.model.beyond_linear)}")
        yield Finding("nonlinear", "nonlinear", evidence, REFUSE if linear else NOTE)
    elif found := BEYOND.search(lost(facts)):
        evidence = f"what is not represented is not linear: {found[0]}"
        yield Finding("nonlinear", "nonlinear", line(evidence), REFUSE if linear else NOTE)


def lost(facts: Facts) -> str:
    """What of a program's model cannot be represented here, "" for nothing; Gurobi itself may take it."""
    run = facts.execution
    if run is None:
        return ""
    if run.error == "GurobiError" and ": not represented" in run.message:
        return run.message
    return run.unread if run.status == "ok" and run.model is None else ""


def steady(message: str) -> str:
    """A message without what differs from run to run: addresses in memory, and folders."""
    return TEMPORARY.sub("", ADDRESS.sub("0x…", message))
