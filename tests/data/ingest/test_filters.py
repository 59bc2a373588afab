"""Cleaning, language, quality and relevance: by hand, and against plain counts."""

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.data.ingest.made import CHINESE, GERMAN, ROUTING, SIMPLEX, WORDS, text

from trex.data.ingest import quality
from trex.data.ingest.cleaning import boilerplate, clean, readable
from trex.data.ingest.language import detect, prose
from trex.data.ingest.quality import Thresholds, fault
from trex.data.ingest.reading import Refused
from trex.data.ingest.relevance import relevance

pytest.importorskip("py3langid")


def test_cleaning_by_hand():
    raw = (
        "\ufeffThe co\u00adst\u00a0is x² – 3\u200b \r\nof\u2028the e\u0301lan\x07\fand the \ufb01rst\r\n\r\n\r\n\r\n"
        "Please enable JavaScript to view this page.\n![plot](data:image/png;base64,AAAA)\nend   \n\n"
    )
    assert clean(raw) == ("The cost is x² – 3\nof\nthe élan\nand the first\n\nplot\nend", 1)


def test_code_keeps_its_lines():
    code = "Text.\n```js\n// enable javascript\n\tsubscribe(newsletter)\n```\nShare this on Facebook"
    assert clean(code) == ("Text.\n```js\n// enable javascript\n\tsubscribe(newsletter)\n```", 1)


@pytest.mark.parametrize(
    ("line", "is_it"),
    [
        ("We use cookies to improve your experience.", True),
        ("Privacy Policy", True),
        ("Skip to main content", True),
        ("Sign up for our weekly newsletter!", True),
        ("The privacy policy of a hospital limits which data a planner may use for rostering.", False),
        ("The baker sells cookies and bread; the oven limits both.", False),
        ("Share of trucks that print labels", False),
        ("Copyright 2026 the authors, CC-BY-4.0", False),
    ],
)
def test_lines_of_boilerplate(line: str, is_it: bool):
    assert boilerplate(line) is is_it


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(codec="utf-8"), max_size=200))
def test_cleaning_twice_is_cleaning_once(raw: str):
    once, _ = clean(raw)
    assert clean(once) == (once, 0)
    assert not any(unicodedata.category(c) == "Cc" and c not in "\n\t" for c in once)


@pytest.mark.parametrize(
    ("raw", "gate"), [(" ", "empty"), ("abc\ufffd", "encoding"), ("\ue000bc", "encoding"), ("x" * 51, "long line")]
)
def test_what_cannot_be_mended_is_refused(raw: str, gate: str):
    with pytest.raises(Refused) as caught:
        readable(raw, 50)
    assert caught.value.gate == gate
    readable("x" * 50, 50)


@pytest.mark.parametrize(("raw", "code"), [(SIMPLEX, "en"), (ROUTING, "en"), (GERMAN, "de"), (CHINESE, "zh")])
def test_languages(raw: str, code: str):
    found, sure = detect(raw)
    assert found == code and sure > 0.9


def test_prose_has_no_code_tables_and_formulae():
    raw = "It costs $5 and $6.\n```\ncode\n```\n| a | b |\nLet $x \\ge 0$ be.\n$$\nmin c\n$$\n~~~\nopen"
    assert prose(raw).split() == ["It", "costs", "$5", "and", "$6.", "Let", "be."]


@pytest.mark.parametrize(
    ("raw", "language"), [(SIMPLEX, "en"), (ROUTING, "en"), (GERMAN, "de"), (CHINESE, "zh"), (text(1), "en")]
)
def test_good_texts_pass(raw: str, language: str):
    assert fault(raw, language, Thresholds()) == ""
    assert fault(raw.replace("\n", " "), language, Thresholds()) == ""


LINES = SIMPLEX.split("\n")
RUNS = [" ".join(SIMPLEX.split()[k : k + 5]) for k in range(0, 100, 5)]
BAD = {
    "words": " ".join(SIMPLEX.split()[:49]),
    "mean word length": SIMPLEX + "\nGo" + " a b c." * 200,
    "symbols per word": SIMPLEX.replace(" a ", " #a # ").replace(" the ", " #the … "),
    "share of bullet lines": "\n".join("- " + line for line in LINES),
    "share of lines ending in an ellipsis": "\n".join([*LINES[:3], *(line + " ..." for line in LINES[3:])]),
    "share of words with a letter": SIMPLEX + " 12345 67890" * 50,
    "stop words": " ".join(w for w in SIMPLEX.split() if w.lower() not in quality.STOP_WORDS["en"]),
    "share of lines with an end": "\n".join(line.rstrip(".") for line in LINES),
    "share of short lines": "\n".join(f"{run.rpartition(' ')[0]}." for run in RUNS),
    "share of repeated lines": SIMPLEX + "\nA line again, and so on." * 4,
    "characters in repeated lines": "\n".join([*LINES, *text(3, 6).split("\n"), LINES[1], LINES[2], LINES[3]]),
    "characters in the commonest 2-gram": SIMPLEX + " operational feasibility is operational feasibility" * 12,
    "characters in repeated 5-grams": SIMPLEX
    + "".join(f" {run} {word}" for run, word in zip(reversed(RUNS), WORDS, strict=False)),
}


@pytest.mark.parametrize("rule", BAD)
def test_each_rule_refuses_what_it_is_for(rule: str):
    assert fault(BAD[rule], "en", Thresholds()).startswith(rule), fault(BAD[rule], "en", Thresholds())


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(["a", "bb", "ccc"]), max_size=25), st.integers(2, 6))
def test_repeated_runs_against_a_plain_count(found: list[str], size: int):
    marked, k, before = [False] * len(found), 0, []
    while k <= len(found) - size:
        if found[k : k + size] in before:
            marked[k : k + size] = [True] * size
            k += size
        else:
            before.append(found[k : k + size])
            k += 1
    total = sum(map(len, found))
    plain = sum(len(word) for word, is_in in zip(found, marked, strict=True) if is_in) / max(1, total)
    assert quality._in_repeated(found, size) == plain
    runs = [found[k : k + size] for k in range(len(found) - size + 1)]
    most = max((len("".join(run)) * runs.count(run) for run in runs if runs.count(run) > 1), default=0)
    assert quality._commonest(found, size) == most / max(1, total)


def test_relevance_by_hand():
    # 3: linear program, 2: knapsack, 1: optimal; 10 words
    assert relevance("A linear\nprogram and a knapsack have an optimal plan again", 10) == (600.0, 3)
    assert relevance("Cats and dogs", 3) == (0.0, 0)
    assert relevance("constraint " * 1000, 1000) == (5.0, 1)  # one word does not make a text relevant
    assert relevance("用单纯形法求解线性规划", 11) == (round(5000 / 11, 2), 2)
    scores = [relevance(raw, len(quality.words(raw, code)))[0] for raw, code in ((SIMPLEX, "en"), (ROUTING, "en"))]
    assert min(scores) > 30 > relevance(text(1), len(text(1).split()))[0]
