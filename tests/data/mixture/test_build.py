"""Mixtures: shares, epochs, what is held out, the same bytes from the same texts, and nothing lost on the way."""

import hashlib
import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyarrow import parquet

from trex.data.mixture import build as building
from trex.data.mixture.build import build
from trex.data.mixture.folder import Mixture
from trex.data.mixture.recipe import Recipe, Source
from trex.data.problem import DataError

Write = Callable[..., Path]
SOURCES = (Source("or", 5.0, "or.jsonl"), Source("maths", 3.0, "maths.jsonl"), Source("web", 2.0, "web.jsonl"))
RECIPE = Recipe("small", SOURCES, 32, seed=1, held_out=0.1, shard_tokens=700)


@pytest.fixture
def base(write: Write) -> Path:
    write("or", 60)
    write("maths", 40)
    return write("web", 9).parent


def files(folder: Path) -> dict[str, str]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


def listed(mixture: Mixture, split: str) -> list[dict[str, Any]]:
    """What the mixture says of its documents, in order."""
    parts = mixture.manifest["splits"][split]["shards"]
    return [row for part in parts for row in parquet.read_table(mixture.folder / part["documents_file"]).to_pylist()]


def decoded(mixture: Mixture, split: str) -> list[str]:
    tokenizer = mixture.tokenizer().tokenizer
    return [tokenizer.decode(ids.tolist()) for ids in mixture.documents(split)]


def read(base: Path, name: str) -> list[str]:
    return [json.loads(line)["text"] for line in (base / f"{name}.jsonl").read_text().splitlines()]


def test_sources_have_their_shares_to_within_a_document(base: Path, tmp_path: Path) -> None:
    mixture = build(RECIPE, tmp_path / "out", base)
    rows = listed(mixture, "train")
    longest = max(row["tokens"] for row in rows)
    total = 0
    taken: Counter[str] = Counter()
    for row in rows:  # all along, not only in the end
        total += row["tokens"]
        taken[row["source"]] += row["tokens"]
        for name, share in (("or", 0.5), ("maths", 0.3), ("web", 0.2)):
            assert abs(taken[name] - share * total) <= 2 * longest
    assert total == mixture.manifest["splits"]["train"]["tokens"]
    times = Counter((row["source"], row["sha256"]) for row in rows)
    assert max(times.values()) <= 4 and {times[key] for key in times if key[0] == "web"} == {4}
    assert all(row["epoch"] < times[row["source"], row["sha256"]] for row in rows)
    stated = {source["name"]: source for source in mixture.manifest["sources"]}
    assert {name: source["train_tokens"] for name, source in stated.items()} == taken


def test_every_text_comes_back_from_the_rows(base: Path, tmp_path: Path) -> None:
    mixture = build(RECIPE, tmp_path / "out", base)
    assert len(mixture.manifest["splits"]["train"]["shards"]) > 3
    for split in ("train", "validation"):
        rows, found = listed(mixture, split), decoded(mixture, split)
        assert [hashlib.sha256(text.encode()).hexdigest() for text in found] == [row["sha256"] for row in rows]
        assert [row["document"] for row in rows] == list(range(len(rows)))
        assert {row["licence"] for row in rows} == {"CC0-1.0"}
        assert [len(ids) for ids in mixture.documents(split)] == [row["tokens"] for row in rows]
    for ids in mixture.documents("train"):
        assert ids[0] == 0 and ids[-1] == 1 and not {0, 1} & set(ids[1:-1].tolist())


def test_no_text_is_on_both_sides(base: Path, tmp_path: Path) -> None:
    with (base / "web.jsonl").open("a") as file:  # what others have too, and itself twice
        for text in (read(base, "or")[0], read(base, "or")[7], read(base, "web")[0], read(base, "web")[0], "  ", ""):
            file.write(json.dumps({"text": text}) + "\n")
    for seed in range(5):
        mixture = build(replace(RECIPE, seed=seed), tmp_path / f"out{seed}", base)
        train, held = set(decoded(mixture, "train")), decoded(mixture, "validation")
        assert held and len(set(held)) == len(held) and not train & set(held)
        web = mixture.manifest["sources"][2]
        assert (web["read"], web["blank"], web["duplicates"]) == (15, 2, 4)
        assert [source["held_out"] for source in mixture.manifest["sources"]] == [6, 4, 1]
        assert {row["source"] for row in listed(mixture, "validation")} == {"or", "maths", "web"}


def test_same_seed_same_bytes(base: Path, tmp_path: Path) -> None:
    build(RECIPE, tmp_path / "one", base)
    build(RECIPE, tmp_path / "two", base)
    assert files(tmp_path / "one") == files(tmp_path / "two")
    lines = (base / "or.jsonl").read_text().splitlines(keepends=True)
    random.Random(0).shuffle(lines)
    (base / "or.jsonl").write_text("".join(lines))  # the order of a source's texts plays no part
    moved = build(RECIPE, tmp_path / "three", base)
    one = Mixture.open(tmp_path / "one")
    assert Counter(decoded(moved, "validation")) == Counter(decoded(one, "validation"))
    assert decoded(moved, "train") == decoded(one, "train")
    other = build(replace(RECIPE, seed=2), tmp_path / "four", base)
    assert decoded(other, "train")[:20] != decoded(one, "train")[:20]
    assert set(decoded(other, "validation")) != set(decoded(one, "validation"))


def test_epochs_have_different_orders(base: Path, tmp_path: Path) -> None:
    mixture = build(replace(RECIPE, sources=SOURCES[:1], held_out=0.0, max_epochs=3), tmp_path / "out", base)
    rows = listed(mixture, "train")
    orders = [[row["sha256"] for row in rows if row["epoch"] == epoch] for epoch in range(3)]
    assert sorted(orders[0]) == sorted(orders[1]) == sorted(orders[2]) and len(orders[0]) == 60
    assert orders[0] != orders[1] != orders[2] and mixture.splits == ("train",)
    assert mixture.manifest["sources"][0]["epochs"] == 3


def test_a_number_of_tokens(base: Path, tmp_path: Path) -> None:
    mixture = build(replace(RECIPE, tokens=1500), tmp_path / "out", base)
    longest = max(row["tokens"] for row in listed(mixture, "train"))
    assert 1500 <= mixture.manifest["splits"]["train"]["tokens"] < 1500 + longest
    with pytest.raises(DataError) as error:
        build(replace(RECIPE, tokens=1_000_000), tmp_path / "more", base)
    assert "source web is used up after" in str(error.value) and "accepted: tokens up to" in str(error.value)
    most = int(str(error.value).split("used up after ")[1].split()[0].replace(",", ""))
    made = build(replace(RECIPE, tokens=most), tmp_path / "most", base)
    assert made.manifest["splits"]["train"]["tokens"] == most


def test_whole_or_nothing(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "made"
    out.mkdir()
    (base / "web.jsonl").write_text('{"text": "one"}\nbroken\n')
    with pytest.raises(DataError, match=r"web\.jsonl, line 2"):
        build(RECIPE, out / "a", base)
    (base / "web.jsonl").write_text('{"text": "\\ud800"}\n')
    with pytest.raises(DataError, match=r"web\.jsonl, line 1: text that is not Unicode"):
        build(RECIPE, out / "a", base)
    (base / "web.jsonl").write_text('{"text": "  "}\n')
    with pytest.raises(DataError, match="source web has no text to train on"):
        build(RECIPE, out / "a", base)

    def stop(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(building, "card", stop)
    with pytest.raises(KeyboardInterrupt):
        build(replace(RECIPE, sources=SOURCES[:2]), out / "a", base)
    assert list(out.iterdir()) == []
    (out / "a").mkdir()
    with pytest.raises(FileExistsError):
        build(RECIPE, out / "a", base)


def test_the_card_states_what_is_there(base: Path, tmp_path: Path) -> None:
    mixture = build(RECIPE, tmp_path / "out", base)
    card = (tmp_path / "out" / "README.md").read_text()
    train = mixture.manifest["splits"]["train"]
    for part in (f"{train['tokens']:,} tokens", f"{train['documents']:,} documents", "seed 1", "| or | - | CC0-1.0 |"):
        assert part in card
    for shard in train["shards"]:
        assert f"`{hashlib.sha256((tmp_path / 'out' / shard['file']).read_bytes()).hexdigest()}`" in card
    head = yaml.safe_load(card.split("---\n")[1])
    for split in head["configs"][0]["data_files"]:
        assert len(list((tmp_path / "out").glob(split["path"]))) == len(
            mixture.manifest["splits"][split["split"]]["shards"]
        )


def test_a_tokenizer_from_a_file_is_used(base: Path, tmp_path: Path) -> None:
    first = build(RECIPE, tmp_path / "first", base)
    again = build(replace(RECIPE, tokenizer="first", sources=SOURCES[1:]), tmp_path / "again", tmp_path)
    assert again.tokenizer().body == first.tokenizer().body
    whole = build(replace(RECIPE, tokenizer="deepseek", sources=SOURCES[2:]), tmp_path / "whole", base)
    assert whole.tokenizer().tokenizer.vocab_size > 100_000
    assert set(decoded(whole, "train")) <= set(read(base, "web"))
    with pytest.raises(DataError, match="none: "):
        build(replace(RECIPE, tokenizer="none"), tmp_path / "no", base)


def test_changes_are_noticed(base: Path, tmp_path: Path) -> None:
    mixture = build(RECIPE, tmp_path / "out", base)
    shard = tmp_path / "out" / mixture.manifest["splits"]["train"]["shards"][1]["file"]
    whole = shard.read_bytes()
    shard.write_bytes(whole[:100] + bytes([whole[100] ^ 1]) + whole[101:])
    with pytest.raises(DataError, match="does not have the hash"):
        list(mixture.documents("train"))
    shard.unlink()
    with pytest.raises(DataError, match="cannot be read"):
        list(mixture.documents("train"))
    (tmp_path / "out" / "trex_tokenizer.json").write_text("{}")
    with pytest.raises(DataError, match="does not have the hash"):
        mixture.tokenizer()
    body = json.loads((tmp_path / "out" / "mixture.json").read_text())
    body["splits"]["train"]["shards"][0]["file"] = "../elsewhere.parquet"
    (tmp_path / "out" / "mixture.json").write_text(json.dumps(body))
    with pytest.raises(DataError, match="is no mixture"):
        Mixture.open(tmp_path / "out")
