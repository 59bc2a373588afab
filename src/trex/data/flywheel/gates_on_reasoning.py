"""Gate on what an answer says of its model: formulas, direction, domains, names and numbers are the program's.

And what an answer and a print-out say of a solution: it satisfies the model and has the optimum.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import zip_longest

import numpy as np

from trex.data.audit.quantities import digits
from trex.data.contract import DOMAINS
from trex.data.extraction import program
from trex.data.flywheel.bucket import CLEAN_COT, CODE, EXPLAINED, FORMULATE, IMPLEMENT
from trex.data.flywheel.dialogue import Dialogue
from trex.data.flywheel.recombine import Recombined
from trex.data.flywheel.representation import Representation, numbers_of
from trex.data.flywheel.writing import ANSWER, CHECKLIST, KINDS, MODEL, PROGRAM, checklist, model_text
from trex.data.formulation import LONGEST_ANSWER, indices
from trex.data.gates import DECIMALS, HALF, TOLERANCE, Refused
from trex.data.problem import sentence
from trex.data.wording import filled
from trex.solver.check import violation
from trex.solver.model import WHOLE, Model
from trex.solver.solve import solve

ALIGNED = re.compile(r"\\begin\{aligned\}\n(.*?)\n\\end\{aligned\}", re.DOTALL)
TICKED = re.compile(r"`([^`\n]+)`")
LINE = re.compile(r"^- (Sets|Decisions|Objective|Constraint|Data|Result)\b:?\s*(.*)$")
RELATIVE = 1e-6
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")
PRINTED = re.compile(r"^(.+) = (-?[\d.]+(?:e[+-]?\d+)?)$", re.MULTILINE)
MORE = re.compile(r"- and (\d+) more, which the program prints")
REST = "All other decisions are zero."
OTHERS = re.compile(
    r"All other decisions of these kinds are zero\. The program also prints what goes with them: ([^\n]+)\."
)
ROOM = 1e-4  # around a value that was rounded: solvers err where bounds are about their tolerance apart
SECONDS = 20.0  # for the decisions that an answer leaves out


def reasoning(row: Dialogue, optimum: float) -> str:
    """The model in words and the checklist say what the program does. optimum: of the program's model."""
    said = []
    model = model_text(row.representation)
    if row.bucket.task == IMPLEMENT:
        for reason in model_faults(row.representation, row.asked):
            raise Refused("reasoning", f"the model that is given: {reason}")
        said.append("the model that is given")
    if row.bucket.style != CODE and (MODEL in row.answer or row.bucket.task == FORMULATE):
        written = () if _is_asked(row) else _otherwise(model, row.answer.partition(f"{MODEL}\n\n")[2])
        for reason in (*model_faults(row.representation, row.answer), *written):
            raise Refused("reasoning", f"the answer's model: {reason}")
        said.append("the answer's model")
    if row.bucket.style == CLEAN_COT:
        for reason in checklist_faults(row, optimum):
            raise Refused("reasoning", f"the checklist: {reason}")
        said.append("the checklist")
    return ", ".join(said)


def _is_asked(row: Dialogue) -> bool:
    """Whether a model that was asked cleaned the answer: its words are its own."""
    return row.cleaning is not None and row.representation.origin is None


def _otherwise(model: str, text: str) -> Iterator[str]:
    """The first line of a text up to its program that is not a representation's model, or which it has not."""
    lines = text.partition(f"\n\n{PROGRAM}\n")[0].split("\n")
    for line, expected in zip_longest(lines, model.split("\n")):
        if line != expected:
            yield f"{line!r:.80} stands for {expected!r:.80}"
            return


def model_faults(found: Representation, text: str) -> Iterator[str]:
    """What a model in LaTeX says otherwise than the representation."""
    body = ALIGNED.search(text)
    if body is None:
        yield "it has no aligned formulas"
        return
    lines = [line.strip() for line in body[1].split("\\\\\n")]
    if not lines[0].startswith(f"\\{found.sense[:3]}\\"):
        yield f"its objective is {lines[0][:40]!r}; the program is to {found.sense}"
    if lacking := [term.name for term in found.objective if _flat(term.formula).lstrip("-") not in _flat(lines[0])]:
        yield f"its objective lacks the term {lacking[0]!r}"
    if len(lines) - 1 != len(found.constraints):
        yield f"it has {len(lines) - 1} constraints; the program has {len(found.constraints)}"
    for rule in found.constraints:
        if not any(_flat(rule.formula) in _flat(line) for line in lines[1:]):
            yield f"the constraint {rule.name!r} is not {rule.formula!r:.80}"
    for decision in found.decisions:
        if f"- ${decision.symbol} {DOMAINS[decision.domain]}$" not in text:
            yield f"the variables {decision.symbol!r} are not declared {KINDS[decision.domain]}"


def checklist_faults(row: Dialogue, optimum: float) -> Iterator[str]:
    """What the checklist of a Clean-CoT answer says otherwise than the program, line by line."""
    found, text = row.representation, row.answer.partition(CHECKLIST)[2]
    lines = text.strip("\n").partition("\n\n")[0].split("\n")
    parsed = [LINE.match(line) for line in lines]
    if bad := [line for line, match in zip(lines, parsed, strict=False) if match is None]:
        yield f"{bad[0][:60]!r} is no line of a checklist"
        return
    parts = [(match[1], match[2]) for match in parsed if match]
    names = _known(row)
    for kind, said in parts:
        if unknown := [name for name in TICKED.findall(said) if name not in names]:
            yield f"{kind} names {unknown[0]!r}, which the program has not"
    yield from _decisions(found, [said for kind, said in parts if kind == "Decisions"])
    yield from _objective(found, [said for kind, said in parts if kind == "Objective"])
    told = [name for kind, said in parts if kind == "Constraint" for name in TICKED.findall(said)[:1]]
    if sorted(told) != sorted(rule.name for rule in found.constraints):
        yield f"it tells of the constraints {told}; the program has {[rule.name for rule in found.constraints]}"
    yield from _numbers(row, parts, optimum)
    results = [said for kind, said in parts if kind == "Result"]
    if len(results) != (row.bucket.task != FORMULATE and row.bucket.mode != "DPS"):
        yield f"it has {len(results)} results"
    for said in results:
        values = list(digits(said))
        if not values or not _signed(said, values[0].value, optimum):
            yield f"its result is {said!r}; the optimum is {optimum!r}"
    if not _is_asked(row):
        right = checklist(found, row.bucket.mode, None if row.bucket.task == FORMULATE else optimum)
        for line, expected in zip_longest(lines, right):
            if line != expected and not _same_but_for_rounding(line or "", expected or ""):
                yield f"{line!r:.80} is not {expected!r:.80}"


def _same_but_for_rounding(line: str, expected: str) -> bool:
    """Whether two lines tell a result in the same words; how far the numbers are apart is looked at elsewhere."""
    if not expected.startswith("- Result"):
        return False
    number = NUMBER.search(expected)
    if number is None:
        return False
    start, end = (re.escape(part) for part in (expected[: number.start()], expected[number.end() :]))
    return re.fullmatch(rf"{start}{NUMBER.pattern}{end}", line) is not None


def _signed(said: str, value: float, optimum: float) -> bool:
    found = NUMBER.search(said)
    number = float(found[0].replace(",", "")) if found else value
    return abs(number - optimum) <= RELATIVE * max(1.0, abs(optimum))


def _known(row: Dialogue) -> set[str]:
    """Names of the program, its files and its data."""
    code = program(row.answer).code or row.program
    return set(re.findall(r"[A-Za-z_]\w*", code)) | set(row.files) | set(row.representation.data)


def _decisions(found: Representation, said: list[str]) -> Iterator[str]:
    expected = {decision.name: KINDS[decision.domain] for decision in found.decisions}
    told = {}
    for line in said:
        match = re.match(r"`(\w+)` \(([^)]+)\)", line)
        if match is None:
            yield f"{line[:60]!r} does not name variables and their kind"
            return
        told[match[1]] = match[2]
    if told != expected:
        other = next(name for name in {**expected, **told} if told.get(name) != expected.get(name))
        yield f"it says {other!r} are {told.get(other, 'none')}; the program has {expected.get(other, 'none')}"


def _objective(found: Representation, said: list[str]) -> Iterator[str]:
    other = {"minimize": "maxim", "maximize": "minim"}[found.sense]
    if len(said) != 1 or found.sense not in said[0] or other in said[0].lower():
        yield f"its objective is {said}; the program is to {found.sense}"
    elif lacking := [term.name for term in found.objective if f"`{term.name}`" not in said[0]]:
        yield f"its objective lacks {lacking[0]!r}"


def _numbers(row: Dialogue, parts: list[tuple[str, str]], optimum: float) -> Iterator[str]:
    """Numbers of a checklist stand in the data, or are sizes of index sets, or the optimum."""
    found = row.representation
    sizes = [float(len(found.data[part.name])) for part in found.sets]
    known = {*numbers_of(found.data), *sizes, abs(optimum), 0.0, 1.0}
    said = " ".join([rule.meaning for rule in found.constraints] + [decision.meaning for decision in found.decisions])
    known |= {quantity.value for quantity in digits(said)}
    for kind, text in parts:
        for quantity in digits(text) if kind != "Result" else ():
            if not any(abs(quantity.value - value) <= RELATIVE * max(1.0, abs(value)) for value in known):
                yield f"{kind} has the number {quantity.written}, which the program has not"
    counted = [float(value.value) for kind, text in parts if kind == "Sets" for value in digits(text)]
    if counted != (sizes if row.bucket.mode != "DPS" else []):
        yield f"it counts {counted} members; the data have {sizes}"


def _flat(formula: str) -> str:
    return re.sub(r"\s+", "", formula)


def printed(stdout: str, model: Model, optimum: float) -> Iterator[str]:
    """What is wrong with the solution that a family's program prints: the optimum, then `name = value` where not 0."""
    first = re.match(r"objective: (\S+)\n", stdout)
    try:
        value = float(first[1]) if first else None
    except ValueError:
        value = None
    if value is None or abs(value - optimum) > HALF + RELATIVE * max(1.0, abs(optimum)):
        yield f"the program prints {stdout.partition(chr(10))[0]!r:.80}; the optimum is {optimum!r}"
        return
    known = set(model.variables)
    values = {match[1]: float(match[2]) for match in PRINTED.finditer(stdout) if match[1] in known}
    if stdout.count("\n") == 1 + len(values):  # long print-outs are cut
        yield from _point(model, values, optimum, "the program's print-out")


def answered(row: Dialogue, found: Recombined, model: Model, optimum: float) -> Iterator[str]:
    """What is wrong with the part of an answer that tells the optimum and the decisions of a family's instance."""
    told = row.answer.partition(f"\n\n{ANSWER}\n\n")[2]
    if row.bucket.style != EXPLAINED or row.bucket.task == FORMULATE:
        return
    if (row.bucket.mode == "DPS") == bool(told):  # nobody who answers has seen the data file
        yield f"an answer in mode {row.bucket.mode} {'tells' if told else 'does not tell'} its result"
    if not told:
        return
    contract, words = found.family.contract, found.problem.words
    goal, unit = (filled(part, words) for part in contract.goal)
    best = "least" if contract.sense == "minimize" else "largest"
    first, *lines = [line for line in told.split("\n") if line]
    value = re.fullmatch(
        rf"The {best} {re.escape(goal)} is (-?[\d.e+-]+){re.escape(f' {unit}' if unit else '')}\.", first
    )
    if value is None or abs(float(value[1]) - optimum) > HALF + RELATIVE * max(1.0, abs(optimum)):
        yield f"the answer says {first!r:.100}; the {best} {goal} is {optimum!r} {unit}".rstrip()
        return
    says = {v.name: v.says for v in contract.variables if v.says}
    values: dict[str, float] = {}
    more = [int(match[1]) for line in lines if (match := MORE.fullmatch(line))]
    shown = [line for line in lines[:-1] if not MORE.fullmatch(line)]
    for line in shown:
        decision = _decision(line.removeprefix("- "), says, words, model, values) if line.startswith("- ") else None
        if decision is None:
            yield f"the answer says {line!r:.100}, which tells of no decision"
            return
        values |= [decision]
    tellable = sum(1 for name in model.variables if name.split("[")[0] in says)
    if more and (len(more) > 1 or len(shown) != LONGEST_ANSWER or not 0 < more[0] <= tellable - len(shown)):
        yield f"{more} of {tellable} decisions are left out behind {len(shown)}; accepted: behind {LONGEST_ANSWER}"
        return
    zero = set() if more else set(says)
    untold = {f"${v.symbol}$, {filled(v.meaning, words)}": v.name for v in contract.variables if not v.says}
    last = lines[-1] if lines else ""
    if last == REST:
        zero |= set(untold.values())
    elif match := OTHERS.fullmatch(last):
        named = match[1].split("; ")
        if len(set(named)) < len(named) or not set(named) <= set(untold):
            yield f"the answer ends with {last!r:.200}; accepted: {'; '.join(untold) or 'no more kinds'}"
            return
        zero |= {name for meaning, name in untold.items() if meaning not in named}
    elif lines:
        yield f"the answer ends with {last!r:.100}"
        return
    yield from _completed(model, values, zero, optimum)


def _decision(
    line: str, says: Mapping[str, str], words: Mapping[str, str], model: Model, taken: Mapping[str, float]
) -> tuple[str, float] | None:
    """The variable, none of those taken, and the value that a line of an answer tells."""
    for name in model.variables:
        template = says.get(name.split("[")[0])
        if template is None or name in taken:
            continue
        if "{value}" not in template:
            if line == sentence(filled(template, words, *indices(name))):
                return name, 1.0
            continue
        start = sentence(filled(template, words, *indices(name), value="\0")).partition("\0")[0]
        number = re.match(r"-?\d+(?:\.\d+)?(?:e-?\d+)?", line[len(start) :]) if line.startswith(start) else None
        # a plural is singular behind a 1
        if number and line == sentence(filled(template, words, *indices(name), value=number[0])):
            return name, float(number[0])
    return None


def _completed(model: Model, values: Mapping[str, float], zero: set[str], optimum: float) -> Iterator[str]:
    """Whether decisions that are told, all others of the kinds `zero`, can be completed to a solution."""
    who = "the answer's plan"
    if all(name.split("[")[0] in zero for name in model.variables):
        yield from _point(model, values, optimum, who)
        return
    lower, upper = model.lower.copy(), model.upper.copy()
    for k, name in enumerate(model.variables):
        if name in values or name.split("[")[0] in zero:
            value = values.get(name, 0.0)
            room = 0.0 if model.kinds[k] in WHOLE or value == round(value, DECIMALS - 1) else ROOM
            lower[k], upper[k] = max(lower[k], value - room), min(upper[k], value + room)
    if bool(np.any(lower > upper)):
        yield f"{who} is beyond the bounds of the variables"
        return
    found = solve(replace(model, lower=lower, upper=upper), SECONDS)
    if found.status == "infeasible":
        yield f"{who} cannot be completed to a solution"
    elif found.status == "optimal" and found.objective is not None and not _near(found.objective, optimum, model, ROOM):
        yield f"{who} comes to {found.objective!r}; the optimum is {optimum!r}"


def _point(model: Model, values: Mapping[str, float], optimum: float, who: str) -> Iterator[str]:
    """Whether values, zero for all other variables, satisfy a model and have its optimum, but for their rounding."""
    point = np.array([values.get(name, 0.0) for name in model.variables])
    moved = np.abs(model.value) * ~np.isin(model.index, model.integers)
    room = HALF * float(max(np.add.reduceat(np.append(moved, 0.0), model.start[:-1]), default=0.0))
    if (breach := violation(model, point, TOLERANCE + room)) is not None:
        yield f"{who}: {breach}"
    elif not _near(model.objective(point), optimum, model, HALF):
        yield f"{who} comes to {model.objective(point)!r}; the optimum is {optimum!r}"


def _near(value: float, optimum: float, model: Model, room: float) -> bool:
    """Equal but for what values that are off by up to `room` move."""
    moved = room * float(np.sum(np.abs(model.cost)))
    return abs(value - optimum) <= moved + 10 * RELATIVE * max(1.0, abs(optimum))
