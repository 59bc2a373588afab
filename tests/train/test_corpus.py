"""Corpora from files, folders and mixtures."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from trex.data.mixture.build import build
from trex.data.mixture.folder import Mixture
from trex.data.mixture.recipe import Recipe
from trex.data.mixture.recipe import Source as Part
from trex.data.problem import DataError
from trex.data.tokens import IGNORE, Rows, Tokenizer, pack
from trex.train.corpus import Source

TEXTS = [f"maximise {k} x subject to x <= {k * k}, " * (1 + k % 4) for k in range(30)]


@pytest.fixture
def mixture(tmp_path: Path) -> Mixture:
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    recipe = Recipe("m", (Part("or", 1.0, "texts.jsonl"),), 24, held_out=0.1, max_epochs=1, shard_tokens=200)
    return build(recipe, tmp_path / "mixture", tmp_path)


def sequences(rows: Rows) -> list[tuple[list[int], list[int]]]:
    """Inputs and targets of each document's piece in each row, sorted."""
    found = []
    for row in range(len(rows)):
        for document in set(rows.doc_ids[row].tolist()) - {-1}:
            where = rows.doc_ids[row] == document
            found.append((rows.tokens[row, where].tolist(), rows.labels[row, where].tolist()))
    return sorted(found)


@pytest.mark.parametrize("seq_len", [24, 17, 100])
def test_a_mixture_gives_rows_of_any_length(mixture: Mixture, seq_len: int, tmp_path: Path) -> None:
    corpus = Source(1, mixture.folder, 0, 0.05, seq_len, None).corpus(tmp_path)
    tokenizer = Tokenizer.from_dict(corpus.tokenizer or {})
    assert corpus.vocab_size == tokenizer.vocab_size and corpus.rows.seq_len == seq_len and corpus.held_out
    held = {
        text for text in TEXTS if tokenizer.encode(text) in [d[1:-1].tolist() for d in mixture.documents("validation")]
    }
    assert len(held) == 3
    expected = pack([tokenizer.document(text) for text in TEXTS if text not in held], seq_len)
    assert sequences(corpus.rows) == sequences(expected)
    assert sequences(corpus.held_out) == sequences(pack([tokenizer.document(text) for text in held], seq_len))
    for rows in (corpus.rows, corpus.held_out):
        assert rows.tokens.dtype == rows.doc_ids.dtype == rows.labels.dtype == torch.int64
    assert Source(1, mixture.folder, 0, 0.0, seq_len, None).corpus(tmp_path).held_out is None


def test_the_ids_must_be_the_model_s(mixture: Mixture, tmp_path: Path) -> None:
    source = Source(1, mixture.folder, 0, 0.05, 24, Tokenizer.fit(["another"]))
    with pytest.raises(DataError, match="another tokenizer than the model's"):
        source.corpus(tmp_path)
    own = mixture.tokenizer().tokenizer
    assert replace(source, tokenizer=own).corpus(tmp_path).vocab_size == own.vocab_size


def test_a_folder_of_documents_is_its_file(tmp_path: Path) -> None:
    (tmp_path / "or").mkdir()
    path = tmp_path / "or" / "documents.jsonl"
    path.write_text("".join(json.dumps({"text": text, "source": "s", "licence": "MIT"}) + "\n" for text in TEXTS))
    one, other = (Source(1, data, 0, 0.1, 24, None).corpus(tmp_path) for data in (path, path.parent))
    assert one.rows.sha256 == other.rows.sha256
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"holds no documents\.jsonl and no mixture\.json"):
        Source(1, tmp_path / "empty", 0, 0.1, 24, None).corpus(tmp_path)


def test_dialogues_give_rows_whose_targets_are_the_answers(tmp_path: Path) -> None:
    path = tmp_path / "dialogues.jsonl"
    dialogues = [
        [{"role": "user", "content": f"What is {k} + {k}?"}, {"role": "assistant", "content": f"{2 * k}, I say"}]
        for k in range(20)
    ]
    long = [{"role": "user", "content": "and " * 400}, {"role": "assistant", "content": "so"}]
    path.write_text("".join(json.dumps({"messages": one}) + "\n" for one in [*dialogues[:5], long, *dialogues[5:]]))
    corpus = Source(1, path, 0, 0.1, 64, None).corpus(tmp_path)
    tokenizer = Tokenizer.from_dict(corpus.tokenizer or {})
    assert corpus.left_out == 1 and corpus.held_out is not None and corpus.vocab_size == tokenizer.vocab_size

    def answers(rows: Rows) -> list[str]:
        return sorted(tokenizer.decode(t for t in labels if t != IGNORE) for _, labels in sequences(rows))

    held = [0, 9, 19]  # places 0, 10 and 20 of the file
    assert answers(corpus.held_out) == sorted(f"{2 * k}, I say" for k in held)
    assert answers(corpus.rows) == sorted(f"{2 * k}, I say" for k in range(20) if k not in held)
    assert Source(1, path, 0, 0.0, 64, None).corpus(tmp_path).held_out is None
