"""Plans: written once, equal or refused by name, without secrets."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from types import MappingProxyType

import pytest

from trex.data.endpoint import Endpoint, EndpointError, Settings
from trex.eval.items import Item
from trex.eval.plan import Plan, start
from trex.eval.rows import EvaluationError

ITEMS = (
    Item("nl4opt/1", "nl4opt", "How many?", 3.0),
    Item("families/1", "families", "How few?", None, files=MappingProxyType({"data.json": "{}"})),
)
PROMPTS = {item.id: [{"role": "user", "content": item.question}] for item in ITEMS}


def plan(items: tuple[Item, ...] = ITEMS, **changed: object) -> Plan:
    prompts = changed.pop("prompts", PROMPTS)
    given = dict(interface="pyomo", shots=0, samples=3, model="m", base_url="http://h/v1", prompt_version="1")
    return Plan.of(items, prompts, **{**given, **changed})  # type: ignore[arg-type]


def test_a_plan_is_written_once_and_read_back(tmp_path: Path) -> None:
    start(tmp_path / "new" / "run", plan(settings=Settings(0.6, 0.95, 4096, 7)))
    folder = tmp_path / "new" / "run"
    written = (folder / "plan.json").read_bytes()
    assert Plan.read(folder) == plan(settings=Settings(0.6, 0.95, 4096, 7))
    start(folder, plan(settings=Settings(0.6, 0.95, 4096, 7)))
    assert (folder / "plan.json").read_bytes() == written
    assert [path.name for path in folder.iterdir()] == ["plan.json"]


def test_every_key_is_asked() -> None:
    assert plan(samples=2).keys == [("nl4opt/1", 0), ("nl4opt/1", 1), ("families/1", 0), ("families/1", 1)]


CHANGES = {
    "items": plan(ITEMS[:1]),
    "items_sha256": plan((replace(ITEMS[0], answer=4.0), ITEMS[1])),
    "interface": plan(interface="highspy"),
    "shots": plan(shots=2),
    "samples": plan(samples=4),
    "model": plan(model="n"),
    "base_url": plan(base_url="http://h:1/v1"),
    "recorded_sha256": plan(recorded_sha256="0"),
    "settings.temperature": plan(settings=Settings(temperature=0.1)),
    "settings.top_p": plan(settings=Settings(top_p=0.1)),
    "settings.max_tokens": plan(settings=Settings(max_tokens=1)),
    "settings.seed": plan(settings=Settings(seed=0)),
    "prompt_version": plan(prompt_version="2"),
    "prompts_sha256": plan(prompts={**PROMPTS, "nl4opt/1": [{"role": "system", "content": "How many?"}]}),
}


@pytest.mark.parametrize("name", CHANGES)
def test_the_first_field_that_differs_is_named(name: str, tmp_path: Path) -> None:
    start(tmp_path, plan())
    said = (
        "2 items, not 1; the first that differs is number 2: families/1, not none" if name == "items" else f"{name} = "
    )
    with pytest.raises(EvaluationError, match=rf"plan\.json has {said}") as caught:
        start(tmp_path, replace(CHANGES[name], sets=plan().sets))
    assert "not " in str(caught.value)
    assert Plan.read(tmp_path) == plan()


@pytest.mark.parametrize(
    "changed",
    [
        {"files": {"data.json": "[]"}}, {"question": "How few? "}, {"answer": 1.0}, {"reference": "min x"},
        {"reference_code": "x"}, {"cluster": "c"},
    ],
)  # fmt: skip
def test_all_of_an_item_counts(changed: dict[str, object]) -> None:
    assert plan((ITEMS[0], replace(ITEMS[1], **changed))).items_sha256 != plan().items_sha256


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "no JSON"),
        ("[]", "no JSON object"),
        ("{}", "fields are not those"),
        (json.dumps({**asdict(plan()), "api_key": "x"}), "fields are not those"),
        (json.dumps({**asdict(plan()), "samples": "3"}), "samples = '3'"),
        (json.dumps({**asdict(plan()), "samples": None}), "samples = None"),
        (json.dumps({**asdict(plan()), "items": ["a", "a"]}), "1 of them distinct"),
        (json.dumps({**asdict(plan()), "settings": {"top_k": 1}}), "top_k"),
        (json.dumps({**asdict(plan()), "settings": [1]}), "settings"),
        (json.dumps({**asdict(plan()), "items": 3}), "items"),
        (json.dumps({**asdict(plan()), "items": [3]}), "an item has id 3"),
        (json.dumps({**asdict(plan()), "model": None}), "model = None"),
    ],
)
def test_a_damaged_plan_is_refused(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(EvaluationError, match=r"plan\.json: ") as caught:
        start(tmp_path, plan())
    assert said in str(caught.value)
    assert (tmp_path / "plan.json").read_text() == text


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"interface": "gams"}, "interface = 'gams'; accepted: pyomo, gurobipy, highspy"),
        ({"samples": 0}, "samples = 0"),
        ({"samples": True}, "samples = True"),
        ({"shots": -1}, "shots = -1"),
        ({"prompts": {"nl4opt/1": []}}, "2 items have no prompt, the first is 'nl4opt/1'"),
        ({"items": ()}, "0 items"),
        ({"items": (ITEMS[0], ITEMS[0])}, "1 of them distinct"),
        ({"items": (replace(ITEMS[0], set="x"),)}, "sets = 'x'"),
    ],
)
def test_what_a_plan_does_not_accept(changed: dict[str, object], said: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        plan(**changed)  # type: ignore[arg-type]
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -0.1),
        ("temperature", float("nan")),
        ("top_p", 1.1),
        ("max_tokens", 0),
        ("seed", 1.5),
        ("seed", -1),
    ],
)
def test_what_settings_do_not_accept(name: str, value: float) -> None:
    with pytest.raises(EndpointError, match=name):
        Settings(**{name: value})  # type: ignore[arg-type]


def test_a_plan_is_over_fields_whatever_was_computed_of_items() -> None:
    before = plan()
    assert ITEMS[0].keys and plan() == before  # which the item keeps


def test_a_slash_at_the_end_of_an_address_is_none(tmp_path: Path) -> None:
    start(tmp_path, plan())
    start(tmp_path, plan(base_url="http://h/v1/"))
    assert Plan.read(tmp_path).base_url == Endpoint("http://h/v1/", "m").base_url == "http://h/v1"


def test_answers_without_a_plan_are_not_taken_over(tmp_path: Path) -> None:
    (tmp_path / "answers.jsonl").write_text("")
    with pytest.raises(EvaluationError, match=r"holds answers\.jsonl without"):
        start(tmp_path, plan())
    with pytest.raises(EvaluationError, match="is no run"):
        Plan.read(tmp_path)
