"""The embedded author: it needs no model. It recombines the families: other entities, another scale, clauses left out
or added, a term of the objective weighted; then it writes problem and answer from the representation.

It solves once, to say an optimum; whether that is right is for the gates to find.
"""

import inspect
import math
import random
from collections.abc import Mapping
from dataclasses import dataclass

from trex.data import families
from trex.data.contract import BINARY
from trex.data.flywheel.bucket import CODE, EXPLAINED, REPAIR, Bucket
from trex.data.flywheel.dialogue import Dialogue, Message
from trex.data.flywheel.looking import SECONDS
from trex.data.flywheel.recombine import (
    DROPPABLE,
    Recombined,
    recombine,
    representation,
    statement,
    weighable,
)
from trex.data.flywheel.representation import Change, Origin, Representation
from trex.data.flywheel.writing import SYSTEM, model_text, question, reply, shortened
from trex.data.flywheel.wrong import Wrong, wrong
from trex.data.formulation import answer, indices
from trex.data.gates import DECIMALS, Refused
from trex.data.problem import nice, sentence
from trex.data.program import program, reformulation
from trex.data.rendering import DATA_FILE, literal, render
from trex.solver.pyomo_model import from_pyomo
from trex.solver.solve import solve

NAME = "embedded"
WEIGHTS = (0.5, 1.5, 2, 3)
UNCHANGED = 0.4  # share of dialogues whose model is the family's own, with other entities and another scale
LEAST = 1e-6


@dataclass(frozen=True)
class Parent:
    """What a dialogue is made from: a seed, or a dialogue of an earlier round."""

    id: str
    lineage: str
    bucket: Bucket
    domain: str
    generation: int = 0
    changes: tuple[Change, ...] = ()
    representation: str = ""  # as JSON, with the problem's text, for authors that are asked
    problem: str = ""


@dataclass(frozen=True)
class Attempt:
    """One attempt at one dialogue. seed: of the instance, which no other attempt of any run shares."""

    id: str
    bucket: Bucket
    seed: int
    parent: Parent


def write(attempt: Attempt) -> Dialogue:
    """The dialogue of an attempt. Raises Refused where the recombined problem has no optimum to speak of."""
    bucket, rng = attempt.bucket, random.Random(f"author/{attempt.id}/{attempt.seed}")
    found, optimum, values = _problem(attempt, rng)
    problem, family = found.problem, found.family
    text = render(problem, bucket.mode, family)
    told_as = representation(found, text.distractors)
    model = model_text(told_as)
    code = program(problem, bucket.mode, found.source)
    broken = rng.choice(list(wrong(found.source, family.contract))) if bucket.task == REPAIR else None
    wrong_code = program(problem, bucket.mode, broken.source) if broken else ""
    # Clean-CoT is what the cleaner makes of an explained answer
    style = CODE if bucket.style == CODE else EXPLAINED
    seen = bucket.mode != "DPS"  # nobody who answers has seen the data file
    told = answer(family, problem, round(optimum, DECIMALS) + 0.0, values, "unknown") if seen else ""
    fault = _explained(broken, told_as) if broken else ""
    return Dialogue(
        id=attempt.id,
        bucket=bucket,
        representation=told_as,
        problem=text.problem,
        messages=(
            Message("system", SYSTEM),
            Message("user", question(bucket.task, rng.randrange(60), text.problem, model, wrong_code)),
            Message("assistant", reply(bucket.task, style, model, code, told, (), fault)),
        ),
        files={DATA_FILE: literal(problem.data)} if bucket.mode == "DPS" else {},
        program=code,
        optimum=round(optimum, DECIMALS) + 0.0,
        lineage=attempt.parent.lineage,
        parent=attempt.parent.id,
        author=NAME,
        second="" if found.is_changed else reformulation(problem, bucket.mode),
        wrong=wrong_code,
        generation=attempt.parent.generation + 1,
    )


def _explained(broken: Wrong, found: Representation) -> str:
    """What is wrong with a program, with the rule that it breaks."""
    rule = next((rule.meaning for rule in found.constraints if f"constraint `{rule.name}`" in broken.fault), "")
    return f"{sentence(broken.fault)} {shortened(rule)}".strip()


def _problem(attempt: Attempt, rng: random.Random) -> tuple[Recombined, float, dict[str, float]]:
    """A recombined problem with its optimum and the variables that are not zero."""
    bucket = attempt.bucket
    changes: tuple[Change, ...] = ()
    kept = [c for c in attempt.parent.changes if c.kind in ("drop", "weigh")]
    kind = rng.random()
    if kind >= UNCHANGED:
        inherited = tuple(kept) if kept and rng.random() < 0.5 else ()
        changes = _changed(bucket, inherited, rng)
    found = recombine(Origin(bucket.structure, attempt.seed, bucket.difficulty, changes, bucket.domain))
    optimum, values = _solved(found)
    adds = kind >= UNCHANGED and (not changes or rng.random() < 0.6)
    if adds and (more := _added(found, values, rng)) is not None:
        try:
            other = recombine(
                Origin(bucket.structure, attempt.seed, bucket.difficulty, (*changes, more), bucket.domain)
            )
            return other, *_solved(other)
        except Refused:  # nothing satisfies it
            pass
    return found, optimum, values


def _changed(bucket: Bucket, changes: tuple[Change, ...], rng: random.Random) -> tuple[Change, ...]:
    """One change more: a clause left out or a term weighted, where the family has such."""
    family = families.get(bucket.structure)
    taken = {change.target for change in changes}
    options = [Change("drop", name) for name in DROPPABLE.get(family.name, ()) if name not in taken]
    source = inspect.getsource(family.model)
    options += [
        Change("weigh", name, (), rng.choice(WEIGHTS))
        for name in weighable(source, family.contract)
        if name not in taken
    ]
    return (*changes, rng.choice(options)) if options else changes


def _solved(found: Recombined) -> tuple[float, dict[str, float]]:
    solution = solve(from_pyomo(found.model()), SECONDS)
    if solution.status != "optimal" or solution.objective is None:
        raise Refused("solver", f"{solution.status} {solution.message}".strip())
    rounded = {name: round(value, DECIMALS) + 0.0 for name, value in solution.values.items()}
    return solution.objective, {name: value for name, value in rounded.items() if value}


def _added(found: Recombined, values: Mapping[str, float], rng: random.Random) -> Change | None:
    """A clause that the optimum breaks, on members that it names; None where nothing can be said of any variable."""
    words = found.problem.words
    known = {member for part in found.family.sets for member in found.problem.data[part.key]}
    options = []
    for variables in found.family.contract.variables:
        if not variables.says:
            continue
        members = [indices(name) for name in values if name.split("[")[0] == variables.name]
        named = [m for m in members if m and known >= set(m) and statement(variables, m, words)]
        if not named:
            continue
        if variables.domain == BINARY:
            first, second = rng.choice(named), rng.choice(named)
            options += [Change("forbid", variables.name, (first,))]
            options += [Change("exclude", variables.name, (first, second))] * (first != second)
        else:
            one = rng.choice(named)
            value = values[f"{variables.name}[{','.join(one)}]"]
            most = value * rng.choice((0.5, 0.6, 0.75, 0.8))
            most = math.floor(most) if value >= 2 else round(most, 2)
            if LEAST < most < value:
                options += [Change("cap", variables.name, (one,), nice(most))]
    return rng.choice(options) if options else None
