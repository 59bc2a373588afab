"""Documents: their programs run, their parts agree, and changes are noticed."""

import json
import re
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from trex.data import families
from trex.data.contract import CONTINUOUS
from trex.data.documents import SHOWN, Document, generate, hashes, read_jsonl, verify, write_jsonl, write_up
from trex.data.formulation import answer
from trex.data.plan import ATTEMPTS, HELD_OUT, MOST, SEED_STRIDE, Plan
from trex.data.problem import DataError
from trex.data.rendering import MODES, literal
from trex.solver.uniqueness import MULTIPLE, UNIQUE, UNKNOWN

THREE = ("knapsack", "production_planning", "transportation")


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    return list(generate(12, seed=3, families=THREE, difficulty=(1, 2)))


def rehashed(document: Document, **changes: object) -> Document:
    """The document with changes and the hashes of whoever made them."""
    content, statement = hashes({**asdict(document), **changes})
    provenance = {**document.provenance, "content_sha256": content, "statement_sha256": statement}
    return Document.from_line(replace(document, **{**changes, "provenance": provenance}).line)


@pytest.mark.parametrize("name", THREE)
@pytest.mark.parametrize("mode", ["DT", "DPS"])
def test_the_program_alone_finds_the_recorded_answer(name: str, mode: str, tmp_path: Path) -> None:
    document = write_up(families.get(name).problem(7, 2), mode)
    (tmp_path / "program.py").write_text(document.program)
    if mode == "DPS":
        (tmp_path / "data.json").write_text(literal(document.data))
    done = subprocess.run(
        [sys.executable, "-I", "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    first, *rest = [line for line in done.stdout.splitlines() if line.startswith("objective:") or " = " in line]
    assert float(first.removeprefix("objective:")) == pytest.approx(document.objective, rel=1e-6)
    printed = {k: float(v) for k, v in (line.split(" = ") for line in rest)}
    if document.unique == "unique":
        assert printed == pytest.approx(document.values, abs=1e-4)


def test_modes_share_everything_but_text_and_programs() -> None:
    problem = families.get("transportation").problem(0, 1)
    rows = [asdict(write_up(problem, mode)) for mode in MODES]
    for key in ("data", "formulation", "objective", "values", "answer", "distractors"):
        assert rows[0][key] == rows[1][key] == rows[2][key]
    assert len({row["problem"] for row in rows}) == 3
    assert rows[0]["program"] == rows[1]["program"] != rows[2]["program"]


def test_the_text_holds_all_parts(documents: list[Document]) -> None:
    assert {document.shown for document in documents} == set(SHOWN)
    for document in documents:
        programs = {"pyomo": [document.program], "gurobipy": [document.reformulation]}
        programs["both"] = [document.program, document.reformulation]
        parts = [document.statement, document.formulation, *programs[document.shown], document.answer]
        places = [document.text.index(part) for part in parts]
        assert places == sorted(places)
        assert (literal(document.data) in document.text) == (document.mode == "DPS" or "data = " in document.text)


def test_rows_come_back_equal(documents: list[Document], tmp_path: Path) -> None:
    path = tmp_path / "documents.jsonl"
    assert write_jsonl(path, documents) == 12
    assert list(read_jsonl(path)) == documents
    path.write_bytes(path.read_bytes() + b'{"family": "half')
    assert list(read_jsonl(path)) == documents


@pytest.mark.parametrize("key", ["problem", "objective", "values", "data", "program", "answer"])
def test_a_changed_row_is_noticed(key: str, documents: list[Document], tmp_path: Path) -> None:
    row = asdict(documents[1])
    value = row[key]
    row[key] = value + 1 if key == "objective" else {**value, "extra": 1} if isinstance(value, dict) else value + " "
    path = tmp_path / "documents.jsonl"
    path.write_text("\n".join([documents[0].line, json.dumps(row), documents[2].line]) + "\n")
    with pytest.raises(DataError, match=r"row 2: .*recorded hash"):
        list(read_jsonl(path))


@pytest.mark.parametrize("k", range(6))  # three families, three modes
def test_a_change_with_recomputed_hashes_is_found(k: int, documents: list[Document]) -> None:
    document = documents[k]
    verify(document)
    number = next(re.finditer(r"\d+", document.answer))
    largest = max(document.values, key=document.values.__getitem__)
    changes = {
        "data": json.loads(re.sub(r"\d+(?=[,}])", "77", json.dumps(document.data), count=1)),
        "problem": document.problem.replace(" the ", " a ", 1),
        "formulation": document.formulation.replace(r"\le", r"\ge", 1),
        "program": document.program.replace("<=", ">=", 1),
        "reformulation": document.reformulation.replace("data", "dat", 1),
        "objective": document.objective * 1.01,
        "values": {**document.values, largest: document.values[largest] / 2},
        "answer": document.answer[: number.start()] + "4711" + document.answer[number.end() :],
        "status": "time_limit",
        "unique": "unknown",
        "domain": "astrology",
        "distractors": ["There are no limits."],
    }
    for key, value in changes.items():
        assert value != getattr(document, key), key
        with pytest.raises(DataError):
            verify(rehashed(document, **{key: value}))


def test_a_slightly_changed_plan_is_found(documents: list[Document]) -> None:
    """By a ten-thousandth, the answer told accordingly: it is not the only plan, no whole number, or worth less."""
    for document in documents:
        family = families.get(document.family)
        problem = family.problem(document.provenance["seed"], document.provenance["difficulty"])
        for name, value in document.values.items():
            values = {**document.values, name: value + 1e-4}
            told = answer(family, problem, document.objective, values, document.unique)
            with pytest.raises(DataError):
                verify(rehashed(document, values=values, answer=told))


@pytest.mark.parametrize("claim", [UNIQUE, MULTIPLE, UNKNOWN])
def test_a_false_claim_on_other_plans_is_found(claim: str, documents: list[Document]) -> None:
    """Also where a value was moved by as little as rounding does, so that the plan counts as another."""
    for document in documents:
        if document.unique == claim:
            continue
        family = families.get(document.family)
        problem = family.problem(document.provenance["seed"], document.provenance["difficulty"])
        continuous = {v.name for v in family.contract.variables if v.domain == CONTINUOUS}
        free = [name for name in document.values if name.split("[")[0] in continuous]
        for moved in ({}, *({name: document.values[name] + 1e-9} for name in free[:1])):
            values = {**document.values, **moved}
            told = answer(family, problem, document.objective, values, claim)
            with pytest.raises(DataError, match="unique"):
                verify(rehashed(document, values=values, unique=claim, answer=told))


def test_another_way_to_write_a_row_is_found(documents: list[Document]) -> None:
    document = documents[0]
    with pytest.raises(DataError, match="another way"):
        Document.from_line('{"problem": "There are no limits.", ' + document.line[1:])
    with pytest.raises(DataError, match="another way"):
        Document.from_line(json.dumps(json.loads(document.line), ensure_ascii=False, indent=1).replace("\n", " "))
    turned = rehashed(document, data=dict(reversed(document.data.items())))
    with pytest.raises(DataError, match="data is"):
        verify(turned)


def test_versions_excuse_nothing_but_versions(documents: list[Document]) -> None:
    document = documents[0]
    made = document.provenance
    older = {"package": "trex-reproduction 0.0.1", "solver": re.sub(r"[\d.]+", "1.0.0", made["solver"])}
    verify(replace(document, provenance={**made, **older}))
    for forged in ({"package": "oracle 1.0.0"}, {"solver": "Oracle 1.0.0"}, {"confirmed_by": ["an oracle"]}):
        with pytest.raises(DataError):
            verify(replace(document, provenance={**made, **older, **forged}))


def test_all_that_is_not_zero_is_told_or_named() -> None:
    for name in families.names():
        document = next(generate(1, 3, [name], difficulty=1))
        variables = {v.name: v for v in families.get(name).contract.variables}
        used = {key.split("[")[0] for key in document.values}
        for untold in (variables[key] for key in used if not variables[key].says):
            assert f"${untold.symbol}$" in document.answer


@pytest.mark.parametrize("key", ["variables", "constraints", "model_fingerprint", "confirmed_by", "gates", "seed"])
def test_a_changed_provenance_is_found(key: str, documents: list[Document]) -> None:
    document = documents[0]
    value = document.provenance[key]
    other = value + 1 if isinstance(value, int) else [*value, "prayer"] if isinstance(value, list) else "0" * 32
    with pytest.raises(DataError):
        verify(replace(document, provenance={**document.provenance, key: other}))


def test_another_optimum_is_accepted_and_a_worse_point_is_not() -> None:
    """Of two items of equal value and use either may be taken, whichever the solver of this machine finds."""
    family = families.get("knapsack")
    for seed in range(200):
        problem = family.problem(seed, 3)
        document = write_up(problem, "DT")
        items, value, use = (problem.data[key] for key in ("items", "value", "use"))
        chosen = [i for i in items if f"take[{i}]" in document.values]
        left = [i for i in items if i not in chosen]
        alike = [(i, j) for i in chosen for j in left if (value[i], use[i]) == (value[j], use[j])]
        if alike:
            break
    out, into = alike[0]
    worse = next(j for j in left if value[j] < value[out])
    assert document.unique == "multiple"
    for new, fine in ((into, True), (worse, False)):
        values = {f"take[{i}]": 1.0 for i in items if i == new or (i in chosen and i != out)}
        told = answer(family, problem, document.objective, values, "multiple")
        changed = rehashed(document, values=values, answer=told)
        if fine:
            verify(changed)
        else:
            with pytest.raises(DataError):
                verify(changed)


def test_parts_of_a_wrong_kind_and_missing_provenance_are_named(documents: list[Document]) -> None:
    document = documents[0]
    for key, value in (("values", [1]), ("objective", "1"), ("answer", None), ("data", "{}")):
        with pytest.raises(DataError, match=f"{key} is"):
            Document.from_line(json.dumps({**asdict(document), key: value}))
    for key in ("family", "seed", "difficulty", "mode"):
        provenance = {k: v for k, v in document.provenance.items() if k != key}
        with pytest.raises(DataError, match=key):
            verify(replace(document, provenance=provenance))


@pytest.mark.parametrize("line", ["", "{}", "[]", "null", "{", '{"family": "knapsack"}', "\xff", "[" * 100_000])
def test_what_is_no_document_is_named(line: str, tmp_path: Path) -> None:
    path = tmp_path / "documents.jsonl"
    path.write_bytes(line.encode("latin-1") + b"\n")
    with pytest.raises(DataError, match="row 1"):
        list(read_jsonl(path))


def test_a_plan_uses_all_combinations_equally_and_early() -> None:
    plan = Plan.of(72, seed=1, families=THREE)
    items = [plan.item(k) for k in range(72)]
    combinations = [(item.family, item.mode, item.difficulty) for item in items]
    assert {combinations.count(c) for c in combinations} == {2} and len(set(combinations)) == 36
    assert {item.mode for item in items[:3]} == set(MODES)
    assert [item.seed for item in items] == [SEED_STRIDE + k for k in range(72)]


def test_no_two_documents_share_a_seed() -> None:
    last = Plan.of(MOST, HELD_OUT - 1).item(MOST - 1, ATTEMPTS - 1).seed
    assert last < Plan.of(1, HELD_OUT).item(0).seed
    assert Plan.of(MOST, 0).item(MOST - 1).seed < Plan.of(MOST, 0).item(0, 1).seed


@pytest.mark.parametrize(
    "bad",
    [
        {"count": -1}, {"count": MOST + 1}, {"seed": -1}, {"families": ["hanoi"]}, {"families": []},
        {"modes": ["DT", "DT"]}, {"modes": "TEX"}, {"difficulty": 9}, {"difficulty": ()},
    ],
)  # fmt: skip
def test_bad_arguments_are_named_before_any_work(bad: dict) -> None:
    with pytest.raises(DataError, match="accepted"):
        Plan.of(**{"count": 1, **bad})
