"""Each gate on faults planted in good rows: it finds them, and finds nothing in the rows they were made from."""

import re
from collections.abc import Iterator

import pytest

from trex.data.audit import claims, direction, integrality, numbers, quantities, running, tables
from trex.data.audit.facts import Facts, look
from trex.data.audit.findings import GATES, NOTE, REFUSE, SEVERITIES, Finding
from trex.data.audit.rows import Row
from trex.data.audit.verdicts import findings, judge, verdict
from trex.data.documents import Document, generate
from trex.data.proving import sandbox
from trex.solver.workers import Died

SECONDS = 20.0
TEXT = (
    "A carpenter makes tables and chairs. A table brings 30 euros and takes 4 hours; a chair brings 20 euros and takes "
    "3 hours. There are 50 hours. Maximize the profit, which must come from an integer number of each."
)
CODE = """import gurobipy as gp
from gurobipy import GRB
m = gp.Model("shop")
t = m.addVar(vtype=GRB.INTEGER, name="t")
c = m.addVar(vtype=GRB.INTEGER, name="c")
m.setObjective(30 * t + 20 * c, GRB.MAXIMIZE)
m.addConstr(4 * t + 3 * c <= 50)
m.optimize()
"""
BEST = 370  # by hand: 11 tables (44 h) and 2 chairs (6 h); 12 tables and no chair (2 h left) give 360


@pytest.fixture(scope="module", autouse=True)
def _ended() -> Iterator[None]:
    yield
    sandbox().close()


def made(code: str = CODE, text: str = TEXT, after: str = "", label: str | None = None, **files: str) -> Row:
    return Row(1, "made", text, f"```python\n{code}```\n{after}", label, files)


def seen(row: Row, linear: bool = False) -> list[Finding]:
    return list(findings(row, look(row, SECONDS), linear))


def told(found: list[Finding]) -> list[tuple[str, str, str]]:
    return [(f.gate, f.kind, f.severity) for f in found]


def test_the_good_row_has_no_findings():
    verdict = judge(made(after=f"The optimal profit is {BEST} euros.", label=str(BEST)), SECONDS, True)
    assert (verdict["verdict"], verdict["findings"], verdict["objective"]) == ("accepted", [], BEST)
    assert verdict["proposed_label"] is None and verdict["status"] == "optimal"


PLANTED = [
    # what is replaced in the program, by what; gate and kind; what the evidence says
    ("4 * t", "4 * (t", "code", "syntax", "line 7"),
    ("import GRB", "import GRB\nraise KeyError('k')", "execution", "KeyError", "'k'"),
    ("import GRB", "import GRB\nimport sys\nsys.exit(3)", "execution", "SystemExit", "3"),
    ("import GRB", "import GRB\nimport os\nos.kill(os.getpid(), 9)", "execution", "killed", ""),
    ("m.addConstr(4 * t + 3 * c <= 50)", "m.addGenConstrPow(t, c, 0.6)", "model", "not representable", "exponent 0.6"),
    ("<= 50)", "<= 50)\nm.addConstr(t >= 99)", "optimum", "infeasible", "SCIP"),
    ("m.addConstr(4 * t + 3 * c <= 50)", "pass", "optimum", "unbounded", "unbounded"),
    ("30 * t + 20 * c", "0 * t", "trivial", "zero", "0"),
    ("<= 50", "<= 0", "trivial", "zero point", "all 2 variables are 0"),
    ("GRB.MAXIMIZE", "GRB.MINIMIZE", "trivial", "zero point", "all 2 variables are 0"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "gate", "kind", "says"), PLANTED, ids=[f"{p[2]}-{p[1][:20]}" for p in PLANTED])
def test_planted_in_the_program(old: str, new: str, gate: str, kind: str, says: str):
    assert CODE.count(old) == 1
    refusing = [f for f in seen(made(CODE.replace(old, new))) if f.severity == REFUSE]
    assert refusing and refusing[0].gate == gate
    assert refusing[0].kind.startswith(kind) and says in refusing[0].evidence


def test_no_program_and_no_answer():
    assert told(seen(Row(1, "a", TEXT, "It is 370."))) == [("code", "none", REFUSE)]
    assert told(seen(Row(1, "a", TEXT, "", "370"))) == [("code", "label only", NOTE)]


def test_a_formulation_is_unchecked_where_no_program_is_asked_for():
    row = Row(1, "a", f"{TEXT} Formulate the model.", "$$\\max\\ 30 t + 20 c$$")
    assert told(seen(row)) == [("code", "formulation only", NOTE)]
    assert verdict(row, seen(row), look(row, 10.0))["verdict"] == "unchecked"
    asked = Row(1, "a", f"{TEXT} Write a program with Pyomo.", row.answer)
    assert told(seen(asked)) == [("code", "none", REFUSE)]


def test_a_loop_without_end_is_ended():
    row = made("import gurobipy\nwhile True:\n    pass\n")
    assert told(list(findings(row, look(row, 1.0)))) [0] == ("execution", "timeout", REFUSE)  # fmt: skip


def test_what_is_only_written_or_solved_twice_is_noted():
    assert ("model", "not solved", NOTE) in told(seen(made(CODE.replace("m.optimize()", "m.write('m.lp')"))))
    again = CODE + "m.addConstr(t <= 5)\nm.optimize()\n"
    assert ("model", "several", NOTE) in told(seen(made(again)))
    assert ("model", "none", REFUSE) in told(seen(made("print('no model')\n")))


def test_nonlinear_models_are_refused_where_that_is_asked_for():
    row = made(CODE.replace("4 * t + 3 * c <= 50", "4 * t * t + 3 * c <= 50"))
    assert ("nonlinear", "nonlinear", NOTE) in told(seen(row))
    assert ("nonlinear", "nonlinear", REFUSE) in told(seen(row, linear=True))
    power = made(CODE.replace("m.optimize()", "m.addGenConstrExp(t, c)\nm.optimize()"))
    assert ("nonlinear", "nonlinear", REFUSE) in told(seen(power, linear=True))


@pytest.mark.parametrize(
    ("after", "severity"),
    [
        ("The optimal profit is 370.", None),
        ("Optimal objective value: **370.00**", None),
        ("The maximum total profit is $370 per week", None),
        ("The optimal value is $0.37 thousand.", None),
        ("So the answer is \\boxed{370}.", None),
        ("The optimal profit is 360.", REFUSE),
        ("Objective value = 370.5", REFUSE),
        ("The optimal value is \\boxed{371}", REFUSE),
        ("The optimal profit is 360. No: the optimal profit is 370.", None),
        ("The optimal profit per hour is 7.4.", None),
        ("The largest gain is 360 euros.", NOTE),
        ("The largest gain is 370 euros.", None),
        ("The optimal number of chairs is 2.", None),
    ],
)  # fmt: skip
def test_what_the_answer_claims(after: str, severity: str | None):
    found = [f for f in seen(made(after=after)) if f.gate == "claim"]
    assert [f.severity for f in found] == ([severity] if severity else [])


def test_reasoning_and_code_claim_nothing():
    row = made(CODE + "# the optimal profit is 1\n")
    thinking = Row(1, "a", TEXT, f"<think>The optimal profit is 1.</think>\n{row.answer}")
    assert [f for r in (row, thinking) for f in seen(r) if f.gate == "claim"] == []


def test_what_the_program_prints_is_noted():
    row = made(CODE + 'print("Optimal profit:", m.ObjVal - 1)\n')
    assert ("claim", "printed", NOTE) in told(seen(row))
    assert seen(made(CODE + 'print("Optimal profit:", round(m.ObjVal, 1))\n')) == []


@pytest.mark.parametrize(("label", "wrong"), [("370", False), ("370.0", False), ("3.7e2", False), ("369.9", True)])
def test_labels(label: str, wrong: bool):
    verdict = judge(made(label=label), SECONDS, False)
    assert [f["kind"] for f in verdict["findings"]] == (["label"] if wrong else [])
    if wrong:
        assert verdict["proposed_label"]["value"] == BEST
        assert re.search("HiGHS .* and SCIP .* agree", verdict["proposed_label"]["reason"])
    else:
        assert verdict["proposed_label"] is None


def test_no_label_is_proposed_by_one_solver_alone():
    nonconvex = CODE.replace("4 * t + 3 * c <= 50", "t * c <= 50").replace("m.opt", "m.addConstr(t + c <= 20)\nm.opt")
    verdict = judge(made(nonconvex, label="1"), SECONDS, False)
    kinds = {f["kind"] for f in verdict["findings"]}
    assert {"label", "one solver"} <= kinds and verdict["proposed_label"] is None


def test_a_rounded_optimum_is_one():
    assert claims.agrees("12.5", 12.4837) is True
    assert claims.agrees("12.50", 12.4837) is False
    assert claims.agrees("17.71", 17.71428) and not claims.agrees("17.72", 17.71428)
    assert claims.agrees("776738904.7901208", 776738904.7901645)  # relative, of large numbers


def text_findings(text: str) -> list[tuple[str, str, str]]:
    return told([f for f in seen(made(text=text)) if f.gate == "tables"])


def test_tables():
    whole = "| a | b |\n|---|---|\n| 1 | 2 |\n"
    assert text_findings(f"{TEXT}\n\n{whole}") == []
    assert text_findings(f"{TEXT}\n\n{whole}| 3 | 4 | 5 |\n") == [("tables", "ragged", REFUSE)]
    assert text_findings(f"{TEXT}\n\n{whole}| 3 |\n") == [("tables", "ragged", REFUSE)]
    assert text_findings(f"{TEXT}\n\n{whole}| a \\| b | 4 |\n") == []
    assert text_findings(f"{TEXT}\n\n{whole}| $|R|$ | 4 |\n") == [("tables", "ragged", NOTE)]
    assert text_findings(f"{TEXT}\n```\n{whole}| 3 |\n```\n") == []
    assert text_findings("Maximize the profit. The costs are shown in the table below.") == [
        ("tables", "no table", REFUSE)
    ]
    assert text_findings("Maximize the profit. The table below shows costs: A 3, B 4, C 5.") == [
        ("tables", "no table", NOTE)
    ]
    assert text_findings(f"The table below shows costs.\n\n{whole}") == []


def test_files():
    reads = "import json\nn = json.load(open('n.json'))\n" + CODE
    given = made(reads, **{"n.json": "{}"})
    assert [f for f in seen(given) if f.gate == "tables"] == []
    found = told(seen(made(reads)))
    assert ("tables", "file not given", REFUSE) in found and ("execution", "FileNotFoundError", REFUSE) in found
    guarded = "try:\n    open('n.json')\nexcept OSError:\n    pass\n" + CODE
    assert told(seen(made(guarded))) == [("tables", "file not given", NOTE)]
    own = "open('n.json', 'w').write('{}')\nopen('n.json')\n" + CODE
    assert told(seen(made(own))) == []
    missing = made(text=f"{TEXT} The data are provided in the file costs.csv.")
    assert ("tables", "no file", REFUSE) in told(seen(missing))
    there = made(text=f"{TEXT} The data are provided in the file costs.csv.", **{"data/costs.csv": "1"})
    assert told(seen(there)) == []


@pytest.mark.parametrize(
    ("text", "code", "only_text", "only_code"),
    [
        ("at most 17 of 40 kg", "x = 17 * 40", [], []),
        ("at most 17 of 40 kg", "x = 17", ["40"], []),
        ("at most 17 of 40 kg", "x = 18 * 40", [], ["18"]),  # 17 may be an end of a range
        ("at most 170 of 40 kg", "x = 180 * 40", ["170"], ["180"]),
        ("5 days of 8 hours", "x = 40", [], []),
        ("40% are lost", "x = 0.6", [], []),
        ("40 percent are lost", "x = 0.4", [], []),
        ("two dozen and a third, twice", "x = [24, 1 / 3, 0.3333333333333333, 2]", [], []),
        ("costs 1,200 euros", "x = 1200", [], []),
        ("2/3 of them", "x = 2 / 3", [], []),
        ("Table 9: (8) step 7\n6. a", "x = 5", [], ["5"]),
        ("5 shops", "x = ['a', 'b', 'c', 'd', 'e']", [], []),
        ("shops 1 to 6 and 33", "for i in range(1, 7): y[33] = round(i, 4)", [], []),
        ("nothing", "m.Params.TimeLimit = 77", [], []),
        ("nothing", "x = 1e6 + 1e-9", [], []),
        ("twenty-five and three hundred", "x = 25 + 300", [], []),
    ],
)
def test_numbers(text: str, code: str, only_text: list[str], only_code: list[str]):
    row = Row(1, "a", text, f"```python\nimport gurobipy\n{code}\n```")
    found = list(numbers.numbers(row, _unsolved(row)))
    assert all(f.severity == NOTE for f in found)
    evidence = {f.kind: f.evidence.partition(" of the ")[0].split(", ") for f in found}
    assert evidence == {
        **({"only in the program": only_code} if only_code else {}),
        **({"only in the text": only_text} if only_text else {}),
    }


def _unsolved(row: Row) -> Facts:
    """What is known without running anything."""
    from trex.data.audit.facts import parse
    from trex.data.extraction import Program

    code = row.answer.removeprefix("```python\n").removesuffix("```")
    return Facts(Program(code, "fence"), *parse(code), None, None, row.problem, (), (), ())


def test_numbers_in_words():
    said = quantities.words("twenty-five and three hundred; two hundred and five, or three million two thousand one")
    assert said >= {25, 300, 205, 3_002_001} and said.isdisjoint({325, 2800, 105})
    assert 24 in quantities.words("two dozen") and 2 / 3 in quantities.words("two thirds")
    assert [q.value for q in quantities.digits("1,200.5, 3 million, 2/4, 7% and x1 or 1.2.3")][:4] == [
        1200.5,
        3e6,
        0.5,
        7,
    ]


FLIPPED = CODE.replace("GRB.MAXIMIZE", "GRB.MINIMIZE").replace("<= 50)", "<= 50)\nm.addConstr(t + c >= 7)")


def test_direction():
    found = [f for f in seen(made(FLIPPED)) if f.gate == "direction"]
    assert [(f.kind, f.severity) for f in found] == [("opposite", REFUSE)]
    assert "Maximize the profit" in found[0].evidence and "140" in found[0].evidence
    negated = CODE.replace("30 * t + 20 * c, GRB.MAXIMIZE", "-30 * t - 20 * c, GRB.MINIMIZE")
    assert [(f.kind, f.severity) for f in seen(made(negated)) if f.gate == "direction"] == [("negated", NOTE)]
    both = TEXT.replace("Maximize", "Minimize the waste, and maximize")
    assert [f for f in seen(made(FLIPPED, both)) if f.gate == "direction"] == []
    unsure = f"{TEXT} Take the smallest team."
    assert [f.severity for f in seen(made(FLIPPED, unsure)) if f.gate == "direction"] == [NOTE]
    ratio = TEXT.replace("the profit", "the ratio of profit to hours")
    assert ("direction", "ratio", NOTE) in told(seen(made(text=ratio)))


def test_a_dual_is_no_wrong_direction():
    """Of the carpenter's linear program: min 50 y, 4 y >= 30, 3 y >= 20; 375 by hand."""
    code = CODE.partition("t = ")[0] + (
        'y = m.addVar(name="y")\nm.setObjective(50 * y)\nm.addConstr(4 * y >= 30)\nm.addConstr(3 * y >= 20)\n'
        "m.optimize()\n"
    )
    facts = look(made(code), SECONDS)
    assert facts.optimum == pytest.approx(375)
    found = list(direction.direction(made(code), facts))
    assert [(f.kind, f.severity) for f in found] == [("opposite", NOTE)]


CONTINUOUS = CODE.replace("vtype=GRB.INTEGER, ", "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (TEXT, [("continuous", REFUSE)]),
        (TEXT.replace(", which must come from an integer number of each", ""), []),
        (f"{TEXT.partition(', which')[0]}. How many chairs?", [("counts", NOTE)]),
        (f"{TEXT.partition(', which')[0]}. Plans need not be an integer number.", []),
        (f"{TEXT.partition(', which')[0]}. How many chairs? They can be fractional.", []),
    ],
)
def test_integrality_of_continuous_models(text: str, expected: list[tuple[str, str]]):
    found = [f for f in seen(made(CONTINUOUS, text)) if f.gate == "integrality"]
    assert [(f.kind, f.severity) for f in found] == expected


def test_integrality_the_other_ways():
    whole = CONTINUOUS.replace("<= 50)", "<= 48)")  # 12 tables
    assert ("integrality", "continuous", NOTE) in told(seen(made(whole, TEXT.replace("50", "48"))))
    fractional = TEXT.partition(", which")[0] + ". Amounts can be fractional."
    assert ("integrality", "integer", NOTE) in told(seen(made(text=fractional)))
    denied = TEXT.partition(", which")[0] + ". No table can be divided."
    assert [f for f in seen(made(text=denied)) if f.gate == "integrality"] == []
    assert integrality.WHOLE.search("x is an integer variable") and not integrality.WHOLE.search("a list of integers")


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    families = ["knapsack", "diet", "transportation", "max_flow", "portfolio_variance", "cutting_stock"]
    return list(generate(6, seed=11, families=families, difficulty=1))


def as_row(document: Document, code: str) -> Row:
    from trex.data.audit import attached

    text = document.statement
    answer = f"```python\n{code}```\n\n{document.answer}"
    return Row(1, document.family, text, answer, repr(document.objective), attached.split(text)[1])


def test_nothing_refuses_a_proved_document(documents: list[Document]):
    """Both programs of each, dual and second formulations among them; the labels are those that were proved."""
    for document in documents:
        for code in (document.program, document.reformulation):
            row = as_row(document, code)
            verdict = judge(row, SECONDS, False)
            refusing = [f for f in verdict["findings"] if f["severity"] == REFUSE]
            assert refusing == [], (document.family, document.mode)
            assert verdict["objective"] == pytest.approx(document.objective, rel=1e-6)


@pytest.mark.slow
def test_nothing_refuses_a_proved_document_of_any_family():
    test_nothing_refuses_a_proved_document(list(generate(132, seed=900, difficulty=2)))


def test_a_wrong_number_in_a_document_is_found(documents: list[Document]):
    """The answer's text then names another optimum than the program has."""
    for document in documents:
        wrong = re.sub(r" is -?[\d.]+", f" is {document.objective * 1.37 + 3:.6f}", document.answer, count=1)
        assert wrong != document.answer
        row = as_row(document, document.reformulation)
        row = Row(1, "wrong", row.problem, row.answer.replace(document.answer, wrong), None, row.files)
        assert "answer" in [f.kind for f in seen(row) if f.gate == "claim"], document.family


def test_findings_are_of_known_gates_on_one_line():
    rows = [made(CODE.replace(old, new)) for old, new, *_ in PLANTED]
    for finding in (f for row in rows for f in seen(row, True)):
        assert finding.gate in GATES and finding.severity in SEVERITIES
        assert "\n" not in finding.evidence and 0 < len(finding.evidence) <= 300


def test_nothing_that_varies_is_in_a_message():
    said = running.steady("KeyError: <object at 0x7f3a2b1c> in /var/jobs/12/data.json")
    assert said == "KeyError: <object at 0x…> in data.json"
    assert tables.cells("| a | b |") == 2


def test_a_row_that_ends_its_process_is_refused():
    from trex.data.audit.verdicts import ended

    verdict = ended(made(), Died("it ended its process (SIGALRM)"))
    assert verdict["verdict"] == "refused" and "SIGALRM" in verdict["findings"][0]["evidence"]
