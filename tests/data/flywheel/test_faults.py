"""Planted faults: each is really there, checked by other means than those that planted it, and the rest is kept."""

import ast
import io
import json
import random
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from trex.data.flywheel import embedded, faults
from trex.data.flywheel.bucket import BOTH, CLEAN_COT, CODE, EXPLAINED, FORMULATE, REPAIR, Bucket
from trex.data.flywheel.dialogue import Cleaning, Dialogue, Message
from trex.data.flywheel.faults import KINDS, Planted, plant, planted, possible
from trex.data.flywheel.representation import numbers_of
from trex.data.flywheel.writing import checklist, model_text, reply
from trex.data.problem import DataError
from trex.data.wording import numbers
from trex.solver.model import Model
from trex.solver.sandbox import Execution, Sandbox
from trex.solver.solve import unchecked

FLYWHEEL = Path(faults.__file__).parent
GATES = {"gates_on_form", "gates_on_model", "gates", "audit", "checklist", "cleaner", "reviewer", "cleaning", "review"}
FAMILIES = 3  # that each kind is planted in, where so many have a place
UNITS = (12, 60, 1000)


def row(structure: str, mode: str, style: str, task: str = BOTH, seed: int = 5) -> Dialogue:
    """A good row of the embedded author, in Clean-CoT with a checklist written from its representation."""
    bucket = Bucket(mode, structure, 1, task, style)
    parent = embedded.Parent("seed", "seed", bucket, "any")
    made = embedded.write(embedded.Attempt(f"{structure}-{mode}-{style}-{task}", bucket, seed, parent))
    if style != CLEAN_COT:
        return made
    lines = checklist(made.representation, mode, made.optimum)
    answer = reply(task, style, model_text(made.representation), made.program, "", lines, "a constraint is missing.")
    return replace(made, messages=(*made.messages[:-1], Message("assistant", answer)))


@pytest.fixture(scope="module")
def rows() -> tuple[Dialogue, ...]:
    return (
        row("transportation", "DPS", CLEAN_COT),
        row("blending", "DT", EXPLAINED),
        row("contract_allocation", "DP", CLEAN_COT),
        row("capacitated_facility_location", "DT", CLEAN_COT),
        row("lot_sizing", "DP", EXPLAINED, REPAIR),
        row("storage_dispatch", "DPS", EXPLAINED),
    )


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as made:
        yield made


@pytest.fixture(scope="module")
def all_planted(rows: tuple[Dialogue, ...], sandbox: Sandbox) -> dict[str, list[tuple[Dialogue, Planted]]]:
    found: dict[str, list[tuple[Dialogue, Planted]]] = {kind: [] for kind in KINDS}
    for kind in KINDS:
        for good in random.Random(kind).sample(rows, len(rows)):
            made = plant(good, kind, random.Random(kind), sandbox) if len(found[kind]) < FAMILIES else None
            if made is not None:
                found[kind].append((good, made))
    return found


Run = Callable[[Dialogue], Execution]


def model(run: Run, made: Dialogue) -> Model:
    found = run(made).model
    assert found is not None
    return found


def parts(found: Model) -> dict[str, list]:
    """What a model says of each family of rows and variables, and of the objective."""
    told: dict[str, list] = {"objective": [*found.cost.tolist(), found.offset, found.sense, sorted(found.quadratic)]}
    for r, name in enumerate(found.rows):
        line = (name, sorted(found.row(r)), float(found.row_lower[r]), float(found.row_upper[r]))
        told.setdefault("row " + name.split("[")[0], []).append(line)
    for j, name in enumerate(found.variables):
        line = (name, found.kinds[j], float(found.lower[j]), float(found.upper[j]))
        told.setdefault("variable " + name.split("[")[0], []).append(line)
    return told


def changed(run: Run, good: Dialogue, bad: Dialogue) -> set[str]:
    """Families and objective of which two rows' models say different things."""
    here, there = parts(model(run, good)), parts(model(run, bad))
    return {name for name in here.keys() | there.keys() if here.get(name) != there.get(name)}


def literals(program: str) -> set[float]:
    tokens = tokenize.generate_tokens(io.StringIO(program).readline)
    return {float(token.string) for token in tokens if token.type == tokenize.NUMBER}


def held(program: str) -> dict:
    """The data that a program holds."""
    for node in ast.parse(program).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            return ast.literal_eval(node.value)
    return {}


def exchanged(old: list[float], new: list[float]) -> list[tuple[float, float]]:
    assert len(old) == len(new)
    return [(a, b) for a, b in zip(old, new, strict=True) if a != b]


def is_flipped(good: Dialogue, bad: Dialogue, run: Run) -> bool:
    right, wrong = model(run, good), model(run, bad)
    negated = np.array_equal(right.cost, -wrong.cost)
    return (right.sense != wrong.sense) != negated and parts(right).keys() == parts(wrong).keys()


def is_dropped(good: Dialogue, bad: Dialogue, run: Run) -> bool:
    here, there = parts(model(run, good)), parts(model(run, bad))
    lost = {name for name in here if name not in there}
    return len(lost) == 1 and all(name.startswith("row ") for name in lost)


def is_other_domain(good: Dialogue, bad: Dialogue, run: Run) -> bool:
    differing = changed(run, good, bad)
    return len(differing) == 1 and differing.pop().startswith("variable ")


def is_other_sign(good: Dialogue, bad: Dialogue, run: Run) -> bool:
    differing = changed(run, good, bad)
    old, new = ([c for c in made.program if c in "<>+-"] for made in (good, bad))
    gone = Counter(old) - Counter(new)
    return len(differing) == 1 and not differing.pop().startswith("variable ") and sum(gone.values()) == 1


def is_other_unit(good: Dialogue, bad: Dialogue, run: Run) -> bool:
    def times(old: float, new: float) -> bool:
        return any(abs(new - unit * old) < 1e-5 or abs(new - old / unit) < 1e-5 for unit in UNITS)

    if bad.problem != good.problem:
        pairs = exchanged(numbers(good.problem), numbers(bad.problem))
        return len(pairs) == 1 and times(*pairs[0]) and bad.program == good.program
    old, new = held(good.program), held(bad.program)
    if old != new:
        keys = [key for key in old if old[key] != new[key]]
        scaled = all(times(*pair) for pair in zip(numbers_of(old[keys[0]]), numbers_of(new[keys[0]]), strict=True))
        return len(keys) == 1 and scaled and bool(changed(run, good, bad))
    extra = [number for number in literals(bad.program) - literals(good.program) if number in UNITS]
    return bool(extra or bad.program.count("60") > good.program.count("60")) and bool(changed(run, good, bad))


def is_exchanged(good: Dialogue, bad: Dialogue, run: Run) -> bool:
    files = [sorted(numbers_of(json.loads(made.files.get("data.json", "{}")))) for made in (good, bad)]
    texts = [sorted(numbers(made.problem)) for made in (good, bad)]
    values = [sorted(numbers_of(held(made.program))) for made in (good, bad)]
    kept = files[0] == files[1] and texts[0] == texts[1] and values[0] == values[1]
    if bad.problem != good.problem:
        return kept and bad.program == good.program
    found = run(bad)
    return kept and (found.status == "error" or found.claimed != run(good).claimed or bool(changed(run, good, bad)))


def is_other_ratio(good: Dialogue, bad: Dialogue, run: Run) -> bool:
    differing = changed(run, good, bad)
    return 1 <= len(differing) <= 2 and held(good.program) == held(bad.program)


def is_invented(good: Dialogue, bad: Dialogue, run: Run) -> bool:
    new = literals(bad.program) - literals(good.program) - {0.0}
    known = set(numbers(good.asked)) | set(numbers_of(good.representation.data))
    return len(new) == 1 and not new & known and bool(changed(run, good, bad))


def is_unused(good: Dialogue, bad: Dialogue, run: Run) -> bool:
    more = Counter(numbers(bad.problem)) - Counter(numbers(good.problem))
    told = len(bad.problem) > len(good.problem) and bad.problem in bad.asked
    fresh = [number for number in more if number not in numbers(good.problem)]
    return told and len(fresh) == 1 and (bad.program, bad.files) == (good.program, good.files)


def is_infeasible(good: Dialogue, bad: Dialogue, run: Run) -> bool:
    data = bad.representation.data
    new = set(numbers_of(data)) - set(numbers_of(good.representation.data))
    stated = (
        set(numbers(bad.problem)) if bad.bucket.mode != "DPS" else set(numbers_of(json.loads(bad.files["data.json"])))
    )
    computed = held(bad.program) or json.loads(bad.files["data.json"])
    is_consistent = new <= stated and computed == data and bad.optimum == good.optimum
    return is_consistent and unchecked(model(run, bad))[0] == "Infeasible"


def is_other_claim(good: Dialogue, bad: Dialogue, run: Run) -> bool:
    claimed = run(good).claimed
    assert claimed is not None
    outside = bad.answer.replace(bad.program.rstrip(), "")
    lines = [line for line in outside.splitlines() if line.startswith(("- Result:", "The least", "The largest"))]
    said = [number for line in lines for number in numbers(line)]
    told = [bad.optimum, *said]
    wrong = any(abs(number - claimed) > 1e-4 * abs(claimed) for number in told)
    told_there = bool(said) or good.bucket.mode == "DPS"  # where no answer can know its optimum
    return told_there and wrong and bad.program == good.program and bad.problem == good.problem


def is_other_table(good: Dialogue, bad: Dialogue, run: Run) -> bool:
    if good.bucket.mode == "DT":
        pairs = exchanged(numbers(good.problem), numbers(bad.problem))
        return len(pairs) == 1 and bad.program == good.program
    before, after = (json.loads(made.files["data.json"]) for made in (good, bad))
    found = run(bad)
    return before != after and (found.status == "error" or bool(changed(run, good, bad)))


def is_one_off(good: Dialogue, bad: Dialogue, run: Run) -> bool:
    size = [len(model(run, made).rows) + len(model(run, made).value) for made in (good, bad)]
    return size[0] != size[1] or bool(changed(run, good, bad))


def is_misused(good: Dialogue, bad: Dialogue, run: Run) -> bool:
    found = run(bad)
    return found.status == "error" or found.how != "solved" or len(model(run, bad).rows) < len(model(run, good).rows)


def is_contradicted(good: Dialogue, bad: Dialogue, run: Run) -> bool:
    here, there = (set(made.answer.replace(made.program.rstrip(), "").splitlines()) for made in (good, bad))
    return bad.program == good.program and 1 <= len(here ^ there) <= 2


CHECKS: Mapping[str, Callable[[Dialogue, Dialogue, Run], bool]] = {
    "flipped objective": is_flipped,
    "dropped constraints": is_dropped,
    "wrong domain": is_other_domain,
    "wrong sign": is_other_sign,
    "unit slip": is_other_unit,
    "swapped columns": is_exchanged,
    "ratio linearised wrongly": is_other_ratio,
    "number in code but not in text": is_invented,
    "number in text unused": is_unused,
    "infeasible data": is_infeasible,
    "wrong claimed value": is_other_claim,
    "table not matching file": is_other_table,
    "off-by-one index set": is_one_off,
    "API misuse": is_misused,
    "reasoning contradicts code": is_contradicted,
}


@pytest.mark.parametrize("kind", CHECKS)
def test_a_fault_of_each_kind_is_there_in_two_families_or_more(
    kind: str, all_planted: dict[str, list[tuple[Dialogue, Planted]]], sandbox: Sandbox
) -> None:
    known: dict[str, Execution] = {}

    def run(made: Dialogue) -> Execution:
        key = made.program + json.dumps(made.files)
        if key not in known:
            known[key] = sandbox.run(made.program, made.files)
        return known[key]

    found = all_planted[kind]
    assert len({good.representation.structure for good, _ in found}) >= 2
    for good, made in found:
        assert CHECKS[kind](good, made.row, run), f"{good.id}: {made.what}"


def test_every_row_with_a_fault_is_a_valid_one_that_differs(
    all_planted: dict[str, list[tuple[Dialogue, Planted]]],
) -> None:
    assert tuple(all_planted) == tuple(CHECKS) == KINDS
    for kind, found in all_planted.items():
        for good, made in found:
            assert made.kind == kind
            assert made.what and "\n" not in made.what
            assert made.row != good
            assert Dialogue.from_line(made.row.line).line == made.row.line
            assert made.row.problem in made.row.asked
            assert made.row.program.rstrip() in made.row.answer
            assert (made.row.id, made.row.bucket, made.row.lineage) == (good.id, good.bucket, good.lineage)


def test_same_seed_same_faults_each_in_a_row_of_its_own(rows: tuple[Dialogue, ...]) -> None:
    first, again, other = planted(rows, 4, 3), planted(rows, 4, 3), planted(rows, 4, 4)
    assert first == again
    assert len({made.row.id for made in first}) == len({made.kind for made in first}) == 4
    assert first != other


def test_more_faults_than_rows_are_refused(rows: tuple[Dialogue, ...]) -> None:
    with pytest.raises(DataError, match="2 faults; accepted: up to 1"):
        planted(rows[:1], 2, 0)
    with pytest.raises(DataError, match="0 faults"):
        planted(rows, 0, 0)


def test_a_row_without_a_place_gets_no_fault(sandbox: Sandbox) -> None:
    code = row("knapsack", "DP", CODE)
    words = row("knapsack", "DP", EXPLAINED, FORMULATE)
    assert "reasoning contradicts code" not in possible(code)
    assert plant(code, "reasoning contradicts code", random.Random(0), sandbox) is None
    assert plant(words, "flipped objective", random.Random(0), sandbox) is None
    assert "wrong claimed value" in possible(words)


def test_what_the_cleaner_was_given_has_the_fault_too(rows: tuple[Dialogue, ...], sandbox: Sandbox) -> None:
    good = replace(
        rows[0], cleaning=Cleaning("any", f"First:\n{rows[0].program}", ("a heading",)), evidence={"g": "ok"}
    )
    made = plant(good, "dropped constraints", random.Random(1), sandbox)
    assert made is not None and made.row.cleaning is not None
    assert made.row.program.rstrip() in made.row.cleaning.before
    assert made.row.evidence == {}


def test_an_unknown_kind_is_refused(rows: tuple[Dialogue, ...]) -> None:
    with pytest.raises(DataError, match="fault 'typo'; accepted: flipped objective"):
        plant(rows[0], "typo", random.Random(0))


def test_a_program_that_does_not_parse_is_named(rows: tuple[Dialogue, ...]) -> None:
    broken = replace(rows[0], program="def", messages=(Message("assistant", "def"),))
    with pytest.raises(DataError, match="does not parse"):
        possible(broken)


def test_the_injector_knows_nothing_of_the_gates() -> None:
    own = {path.stem for path in FLYWHEEL.glob("fault*.py")}
    seen: set[str] = set()
    waiting = sorted(own)
    while waiting:
        name = waiting.pop()
        seen.add(name)
        for node in ast.walk(ast.parse((FLYWHEEL / f"{name}.py").read_text())):
            if not isinstance(node, ast.ImportFrom | ast.Import):
                continue
            base = node.module or "" if isinstance(node, ast.ImportFrom) else ""
            for full in [f"{base}.{alias.name}".lstrip(".") for alias in node.names]:
                assert not full.startswith(("trex.data.gates", "trex.data.execution", "trex.data.audit")), (
                    f"{name}: {full}"
                )
                local = full.removeprefix("trex.data.flywheel.").split(".")[0]
                if full.startswith("trex.data.flywheel.") and local not in seen:
                    waiting.append(local)
    assert not seen & GATES
    assert seen - own <= {"representation", "bucket", "dialogue"}
