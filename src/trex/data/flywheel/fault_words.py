"""Faults in words: a number of the text that the program ignores, a wrong optimum, reasoning against the code."""

import itertools
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from trex.data.flywheel.bucket import CLEAN_COT, EXPLAINED
from trex.data.flywheel.dialogue import Dialogue
from trex.data.flywheel.fault_proof import Edit, Proof
from trex.data.flywheel.fault_source import with_answer, with_problem
from trex.data.flywheel.fault_values import changed, leaves, numeral, program_with
from trex.data.flywheel.representation import Decision
from trex.data.problem import nice, sentence
from trex.data.rendering import DATA_FILE, literal
from trex.data.wording import NUMERAL, numbers
from trex.solver.model import Model

FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LETTER = re.compile(r"\$[a-z]\$")
MOST = (
    "There is one more rule: {what} must not exceed {n}.",
    "For technical reasons no more than {n} is allowed for {what}.",
    "It has been agreed that {what} stays at {n} or below.",
)
LEAST = (
    "A contract asks for at least {n} for {what}.",
    "In any case, {what} must reach {n} or more.",
    "Less than {n} is not accepted for {what}.",
)
FEE = (
    "If {what}, a fee of {n} has to be added to the total.",
    "A one-off charge of {n} is due in the event that {what}.",
)
CHARGE = ("A surcharge of {n} applies to every unit of {what}.", "Each unit of {what} costs {n} more than stated.")
AMENDED = (
    'Since the figures were drawn up, the value of {member} under "{meaning}" has gone up by {n}.',
    "For {member}, {n} has to be added to the {meaning} stated here.",
    'Please note that for {member} the figure for "{meaning}" is higher by {n} from now on.',
    'For safety, the figure for {member} under "{meaning}" has to be taken {n} percent higher.',
)
INVENTED = (
    "- Constraint `budget_cap`: total spending stays within the budget of the year.",
    "- Constraint `minimum_lot`: what is used at all is used up to a minimum lot.",
    "- Constraint `balance_of_shares`: no member gets more than half of the total.",
    "- Constraint `one_of_each_kind`: at least one of each kind is chosen.",
)
PHRASES = ("continuous, not negative", "whole numbers, not negative", "yes or no", "continuous, of either sign")
LATEX = (
    (r"\ge 0$, continuous", r"\in \{0, 1\}$, yes or no"), (r"\in \{0, 1\}$, yes or no", r"\ge 0$, continuous"),
    (r"\in \mathbb{Z}_{\ge 0}$, whole numbers", r"\ge 0$, continuous"),
    (r"\in \mathbb{R}$, continuous, of either sign", r"\in \mathbb{Z}_{\ge 0}$, whole numbers"),
)  # fmt: skip
TURNED = {"minimize": "maximize", "maximize": "minimize", r"\min": r"\max", r"\max": r"\min",
          r"\le": r"\ge", r"\ge": r"\le"}  # fmt: skip


def unused_number(row: Dialogue, rng: random.Random) -> Iterator[Edit]:
    """A sentence more in the problem, with a number that binds, of which the program knows nothing."""
    known = set(numbers(row.problem))
    found = [leaf for leaf in leaves(row) if len(leaf.members) == 1 and leaf.value > 0]
    options: list[Edit] = []
    for leaf in rng.sample(found, min(4, len(found))):
        form = rng.choice(AMENDED)
        share = rng.choice((10, 15, 20, 25, 40))
        more = share if "percent" in form else _fresh(leaf.value * share / 100, known)
        value = leaf.value * (1 + share / 100) if "percent" in form else leaf.value + more
        if more in known:
            continue
        text = form.format(meaning=leaf.parameter.meaning, member=leaf.members[0], n=numeral(more, row.problem))
        data = changed(row.representation.data, {leaf: nice(value)})
        files = {**row.files, DATA_FILE: literal(data)} if row.bucket.mode == "DPS" else row.files
        program = program_with(row.program, data)

        def amended(proof: Proof, program: str = program, files: dict[str, str] = files) -> bool:
            return proof.builds_other(program, files)

        options.append(_told(row, text, rng, amended))
    rng.shuffle(options)
    # the number of a limit comes from the optimum: it is drawn where the fault is proved
    yield from options[:1]
    yield from (_Binding(row, rng, known).edit() for _ in range(3))
    yield from options[1:]


class _Binding:
    """A limit, minimum, fee or charge on one variable, which the optimum does not keep or does not count."""

    def __init__(self, row: Dialogue, rng: random.Random, known: set[float]) -> None:
        self.row, self.rng, self.known = row, random.Random(rng.random()), known

    def edit(self) -> Edit:
        return Edit("", self.row, lambda proof: False, self.made)

    def made(self, proof: Proof) -> Edit | None:
        """The sentence for a variable that is not zero at the optimum; None where none can be named."""
        model, solution = proof.right.model, proof.solution
        if model is None or solution is None:
            return None
        named = []
        for decision in self.row.representation.decisions:
            for k, name in enumerate(model.variables):
                family, _, members = name.partition("[")
                what = _statement(decision, members.removesuffix("]").split(",")) if members else ""
                if family == decision.name and solution.values[name] > 0.01 and what:
                    named.append((k, decision, what, solution.values[name]))
        if not named:
            return None
        k, decision, what, value = self.rng.choice(named)
        return self._sentence(model, k, decision, what, value)

    def _sentence(self, model: Model, k: int, decision: Decision, what: str, value: float) -> Edit:
        rng, row = self.rng, self.row
        direction = 1 if row.representation.sense == "minimize" else -1
        cost = max(1.0, abs(float(model.cost[k])), float(np.abs(model.cost).max()))
        number = _fresh(cost * rng.choice((0.4, 1.2, 2.5)), self.known)
        charged = model.cost.copy()
        charged[k] += direction * number
        if decision.domain == "binary":
            text, other = rng.choice(FEE), replace(model, cost=charged)
        else:
            form = rng.choice((MOST, LEAST, CHARGE))
            text = rng.choice(form)
            lower, upper = model.lower.copy(), model.upper.copy()
            if form is CHARGE:
                other = replace(model, cost=charged)
            elif form is MOST:
                number = _fresh(value * rng.choice((0.4, 0.6, 0.8)), self.known)
                upper[k] = number
                other = replace(model, upper=upper)
            else:
                number = _fresh(value * rng.choice((1.2, 1.5, 1.8)), self.known)
                lower[k] = number
                other = replace(model, lower=lower)
        told = text.format(what=what, n=numeral(number, row.problem))
        return _told(row, told, rng, lambda proof: proof.matters(other))


def wrong_claim(row: Dialogue, rng: random.Random) -> Iterator[Edit]:
    """Another optimum than the program's: in the answer's words, in what the row claims, or in both."""
    wrong = _another(row.optimum, rng)
    words = _claims(row)
    options = [Edit(f"the row claims {wrong}, not {row.optimum}", replace(row, optimum=float(wrong)))]
    if words is not None:
        start, end = words
        told = numeral(wrong, row.answer[start:end])
        new = with_answer(row, row.answer[:start] + told + row.answer[end:])
        if row.cleaning is not None:
            old = row.answer[start:end]
            before = re.sub(rf"(?<![\w.,]){re.escape(old)}(?![\w,]|\.\d)", told, row.cleaning.before)
            new = replace(new, cleaning=replace(row.cleaning, before=before))
        options += [Edit(f"the answer says {told}, not {row.optimum}", new)] * 2
        both = replace(new, optimum=float(wrong))
        options.append(Edit(f"answer and row claim {told}, not {row.optimum}", both))
    rng.shuffle(options)
    yield from options


def contradiction(row: Dialogue, rng: random.Random) -> Iterator[Edit]:
    """The checklist or the model in words says another direction, domain, constraint or number than the program."""
    if row.bucket.style not in (CLEAN_COT, EXPLAINED) or not row.answer:
        return
    parts = [(match.start(), match.end()) for match in FENCE.finditer(row.answer)]

    def outside(at: int) -> bool:
        return not any(start <= at < end for start, end in parts)

    options = [
        Edit(what, with_answer(row, row.answer[:start] + new + row.answer[end:]))
        for start, end, new, what in (*_checklist(row.answer), *_model(row.answer))
        if outside(start)
    ]
    rng.shuffle(options)
    yield from options


def _checklist(answer: str) -> Iterator[tuple[int, int, str, str]]:
    """Changes of lines of the checklist: begin, end, what stands there instead, and what that is."""
    for match in re.finditer(r"^- Objective: (minimize|maximize)", answer, re.MULTILINE):
        for _ in range(2):
            yield *match.span(1), TURNED[match[1]], f"the checklist says {TURNED[match[1]]}"
    for match in re.finditer(r"^- Decisions: `(\w+)` \(([^)]+)\)", answer, re.MULTILINE):
        for phrase in PHRASES:
            if match[2] in PHRASES and phrase != match[2]:
                yield *match.span(2), phrase, f"the checklist calls `{match[1]}` {phrase}"
    lines = list(re.finditer(r"^- Constraint `(\w+)`:.*\n", answer, re.MULTILINE))
    for match in lines:
        yield *match.span(), "", f"the checklist leaves out the constraint `{match[1]}`"
    for line in INVENTED if lines else ():
        end = lines[-1].end()
        yield end, end, f"{line}\n", f"the checklist has a constraint that is not there: {line[2:]}"
    for match in re.finditer(r"^- Sets: .*$", answer, re.MULTILINE):
        for number in re.finditer(r"(?<=[ ,])\d+(?= )", match[0]):
            start = match.start() + number.start()
            new = str(int(number[0]) + 2)
            yield start, start + len(number[0]), new, f"the checklist counts {new} instead of {number[0]}"


def _model(answer: str) -> Iterator[tuple[int, int, str, str]]:
    """Changes of the model in words and LaTeX."""
    for match in re.finditer(r"\\(?:min|max)(?=\\)", answer):
        for _ in range(2):
            yield *match.span(), TURNED[match[0]], f"the model in words has {TURNED[match[0]]}"
    for old, new in LATEX:
        for match in re.finditer(re.escape(old), answer):
            yield *match.span(), new, f"the model in words has a variable `{new}` instead of `{old}`"
    rows = list(re.finditer(r"^(\\text\{s\.t\.\}\\ )?& .*\\text\{\((.+?)\)\}( \\\\)?$", answer, re.MULTILINE))
    for match in rows:
        sides = list(re.finditer(r"\\[lg]e(?= )", match[0].split("&& \\text")[0]))
        if len(sides) == 1:
            start = match.start() + sides[0].start()
            new = TURNED[sides[0][0]]
            yield start, start + 3, new, f"the model in words has {new} in `{match[2]}`"
    for match in rows[1:]:  # the first one carries "s.t."
        yield match.start() - 1, match.end(), "", f"the model in words leaves out the constraint `{match[2]}`"


def _told(row: Dialogue, text: str, rng: random.Random, proves: Callable[[Proof], bool]) -> Edit:
    """The problem with one more sentence at the end of one of its paragraphs of prose."""
    parts = row.problem.split("\n\n")
    prose = [k for k, part in enumerate(parts) if not re.match(r"(?:\||- |Table \d+:)", part) and "\n- " not in part]
    k = rng.choice(prose or [len(parts) - 1])
    parts[k] = f"{parts[k]} {sentence(text)}" if prose else f"{parts[k]}\n\n{sentence(text)}"
    what = f"the problem says besides, and the program ignores: {sentence(text)}"
    return Edit(what, with_problem(row, "\n\n".join(parts)), proves)


def _statement(decision: Decision, members: list[str]) -> str:
    """What a variable stands for, with its members' names; "" where the meaning has no place for each."""
    meaning = decision.meaning
    if decision.domain == "binary":
        if not meaning.startswith("1 if ") or "0 if" in meaning:
            return ""
        meaning = meaning.removeprefix("1 if ")
    # by letter: the words may name the indices in another order than the symbol does
    indices = re.findall("[a-z]", decision.symbol.partition("_")[2])
    letters = LETTER.findall(meaning)
    if len(indices) != len(members) or sorted(letters) != sorted(indices) or meaning.count("$") != 2 * len(members):
        return ""
    named = dict(zip(indices, members, strict=True))
    return LETTER.sub(lambda match: named[match[1]], meaning)


def _claims(row: Dialogue) -> tuple[int, int] | None:
    """Where the answer says the optimum, outside of its fences and closest to its end's result."""
    inside = [match.span() for match in FENCE.finditer(row.answer)]
    for line in re.finditer(r"^(?:- Result: |The (?:least|largest) ).*$", row.answer, re.MULTILINE):
        if any(start <= line.start() < end for start, end in inside):
            continue
        for match in NUMERAL.finditer(line[0]):
            if abs(float(match[0].replace(",", "")) - row.optimum) <= 1e-6 * max(1.0, abs(row.optimum)):
                return line.start() + match.start(), line.start() + match.end()
    return None


def _another(value: float, rng: random.Random) -> float:
    """An optimum close by: another digit, two digits exchanged, a digit lost, or some percent more or less."""
    shown = str(nice(value))
    places = [k for k, digit in enumerate(shown) if digit.isdigit()]
    k = rng.choice(places)
    options = [shown[:k] + rng.choice("0123456789") + shown[k + 1 :] for _ in range(3)]
    for a, b in itertools.pairwise(places):
        if b == a + 1:
            options.append(shown[:a] + shown[b] + shown[a] + shown[b + 1 :])
    options.append(shown[:k] + shown[k + 1 :])
    values = [nice(float(option)) for option in options if re.fullmatch(r"-?\d+(\.\d+)?", option)]
    percent = rng.choice((0.98, 0.99, 1.01, 1.02))
    values += [nice(round(value * percent, 2)), nice(round(value * percent, 2)), nice(value + rng.choice((-3, 2, 5)))]
    values = [new for new in values if abs(new - value) > max(1e-3 * abs(value), 1e-3)]
    return rng.choice(values)


def _fresh(near: float, known: set[float]) -> float:
    """A plain number close to another that the text does not have yet."""
    value = nice(round(near) if near >= 5 else max(0.1, round(near, 1)))
    while value in known:
        value = nice(value + (1 if near >= 5 else 0.1))
    return value
