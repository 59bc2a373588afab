"""The gates of the flywheel: good dialogues pass with evidence for each gate, and each gate refuses what it is for."""

from dataclasses import replace

import pytest

from trex.data.flywheel.bucket import CLEAN_COT, CODE, EXPLAINED, FORMULATE, REPAIR, Bucket
from trex.data.flywheel.cleaner import clean
from trex.data.flywheel.dialogue import Dialogue, Message
from trex.data.flywheel.embedded import Attempt, Parent, write
from trex.data.flywheel.judging import judge
from trex.data.flywheel.making import finish, make
from trex.data.flywheel.reviewer import components, review, reviewed
from trex.data.gates import Refused


def attempt(mode="DP", task="formulate-and-implement", style=EXPLAINED, family="blending", seed=4) -> Attempt:
    bucket = Bucket(mode, family, 1, task, style)
    return Attempt("t", bucket, seed, Parent("seed", "seed", bucket, ""))


def good(**kinds) -> Dialogue:
    return write(attempt(**kinds))


def answered(row: Dialogue, old: str, new: str) -> Dialogue:
    """The answer, and the program that it holds, changed."""
    assert old in row.answer
    last = Message("assistant", row.answer.replace(old, new))
    return replace(row, messages=(*row.messages[:-1], last), program=row.program.replace(old, new))


def asked(row: Dialogue, old: str, new: str) -> Dialogue:
    assert old in row.problem
    changed = [Message(m.role, m.content.replace(old, new)) if m.role == "user" else m for m in row.messages]
    return replace(row, problem=row.problem.replace(old, new), messages=tuple(changed))


@pytest.mark.parametrize("mode", ["DP", "DT", "DPS"])
@pytest.mark.parametrize(("task", "style"), [("implement", CODE), (FORMULATE, EXPLAINED), (REPAIR, EXPLAINED)])
def test_good_dialogues_pass_with_evidence(mode, task, style):
    row, facts = judge(good(mode=mode, task=task, style=style))
    assert facts.optimum == pytest.approx(row.optimum)
    expected = {"schema", "safety", "code", "execution", "model", "optimum", "independent", "data", "numbers", "units"}
    assert expected | {"contract", "claim", "export"} <= set(row.evidence)
    assert ("repair" in row.evidence) == (task == REPAIR)


CASES = {
    "schema": lambda: replace(good(), messages=good().messages[::-1]),
    "safety": lambda: answered(good(), "import pyomo.environ as pyo", "import os\nimport pyomo.environ as pyo"),
    "code": lambda: replace(good(), program=good().program + "\nprint(1)"),
    "execution": lambda: answered(good(), "m = model(data)\n", "m = model()\n"),
    "contract": lambda: answered(good(), "pyo.NonNegativeReals", "pyo.NonNegativeIntegers"),
    "independent": lambda: answered(good(), 'data["price"][b] * ', '2 * data["price"][b] * '),
    "claim": lambda: replace(good(), optimum=good().optimum + 1),
    "units": lambda: replace(
        good(),
        representation=replace(
            good().representation,
            parameters=tuple(replace(p, unit="parsecs") for p in good().representation.parameters),
        ),
    ),
    "reasoning": lambda: answered(good(), "\\max\\", "\\min\\"),
}


@pytest.mark.parametrize("gate", CASES)
def test_each_gate_refuses_what_it_is_for(gate):
    with pytest.raises(Refused) as error:
        judge(CASES[gate]())
    assert error.value.gate == gate, str(error.value)


def test_a_number_more_in_the_text_is_seen_unless_the_author_says_that_it_does_not_matter():
    row = good()
    sentence = "The office has moved to a building with 17 floors."
    told = asked(row, row.problem, f"{sentence} {row.problem}")
    with pytest.raises(Refused, match=r"numbers: 17 of the text are not in the data"):
        judge(told)
    aside = replace(row.representation, asides=(*row.representation.asides, sentence))
    judge(replace(told, representation=aside))


def test_tables_and_files_must_hold_the_data_of_the_program():
    row = good(mode="DT")
    table = next(line for line in row.problem.splitlines() if line.startswith("| ") and any(map(str.isdigit, line)))
    cells = table.split("|")
    cells[2], cells[3] = cells[3], cells[2]
    assert cells[2] != cells[3]
    with pytest.raises(Refused, match="data: no table holds"):
        judge(asked(row, table, "|".join(cells)))
    row = good(mode="DPS")
    name, content = next(iter(row.files.items()))
    number = next(iter(row.representation.data["price"].values()))
    with pytest.raises(Refused, match=rf"data.json: price: .*not {number}"):
        judge(replace(row, files={name: content.replace(str(number), str(number + 1))}))


def test_unsafe_programs_are_refused_before_anything_runs():
    for code in (
        "import subprocess", "open('other.json')", "open('data.json', 'w')", "eval('1')", "().__class__.__bases__",
        "import pathlib\npathlib.Path('x').write_text('y')",
    ):  # fmt: skip
        row = answered(good(), "import pyomo.environ as pyo", f"import pyomo.environ as pyo\n{code}")
        with pytest.raises(Refused, match=r"^safety"):
            judge(row)


def test_the_cleaner_repairs_what_the_contract_decides_and_keeps_before_after_and_verdicts():
    row = replace(good(style=CLEAN_COT), cleaning=None)
    broken = answered(answered(row, "sense=pyo.maximize", "sense=pyo.minimize"), "pyo.NonNegativeReals", "pyo.Reals")
    cleaned = reviewed(clean(broken))
    assert cleaned.cleaning.before == broken.answer and len(cleaned.cleaning.changes) == 3
    assert cleaned.cleaning.reviews[0].accepted and cleaned.program == row.program
    judge(cleaned)
    assert finish(row).gate == "" and make(attempt(style=CLEAN_COT)).row.cleaning is not None


def test_the_reviewer_reads_the_program_itself():
    row = clean(good(style=CLEAN_COT))
    found = components(row.program)
    assert found.variables == {"mix": "continuous"} and found.senses == ("maximize",)
    assert review(row).accepted
    for old, new, said in (
        ("- Objective: maximize", "- Objective: minimize", "objective"),
        ("(continuous, not negative)", "(whole numbers, not negative)", "declares it"),
        ("- Constraint `market`", "- Constraint `limits`", "constraints"),
        ("- Decisions: `mix`", "- Decisions: `mixture`", "does not tell of the variables 'mix'"),
    ):
        said_no = review(answered(row, old, new))
        assert not said_no.accepted and any(said in reason for reason in said_no.reasons)


def test_a_repaired_program_must_have_been_wrong():
    row = good(task=REPAIR)
    right = replace(row, wrong=row.program, messages=tuple(
        Message(m.role, m.content.replace(row.wrong.rstrip(), row.program.rstrip())) for m in row.messages
    ))  # fmt: skip
    with pytest.raises(Refused, match=r"^repair: the program that is to be repaired is not the family's with one"):
        judge(right)
    foreign = replace(right, author="somebody", representation=replace(row.representation, origin=None))
    with pytest.raises(Refused, match=r"^repair: the program that is to be repaired builds the same model"):
        judge(foreign)
