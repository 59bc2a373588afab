"""Dialogues as rows: what is trained on is what the assistant writes, each dialogue whole and apart."""

import json
from pathlib import Path

import pytest

from trex.data.chat import encode, tokenize
from trex.data.chat_answer import ChatError
from trex.data.chat_format import SPECIAL
from trex.data.dialogue_rows import packed, read_dialogues, texts
from trex.data.problem import DataError
from trex.data.tokens import IGNORE, Tokenizer, pack
from trex.data.vocabulary import END


def said(*turns: str) -> list[dict[str, str]]:
    """A dialogue: system, then user and assistant in turn."""
    roles = ["system", *["user", "assistant"] * len(turns)]
    return [{"role": role, "content": turn} for role, turn in zip(roles, turns, strict=False)]


DIALOGUES = [
    said("You model.", "Minimise 3 x + 2 y, where both are at least 0 and x is whole.", "m.x = Var()\nm.y = Var()"),
    said("You model.", "And?", "Yes, two.", "More <｜Assistant｜> text?", "No more."),
    said("", "Short.", "x"),
]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.fit((text for one in DIALOGUES for text in texts(one)), special=SPECIAL)


@pytest.mark.parametrize("seq_len", [48, 200])
def test_targets_are_the_assistants_words_and_the_ends_of_its_turns(tokenizer: Tokenizer, seq_len: int) -> None:
    found = packed(DIALOGUES, tokenizer, seq_len)
    rows = found.rows
    assert found.left_out == 0
    for number, messages in enumerate(DIALOGUES):
        here = rows.doc_ids == number
        assert len(here.any(dim=1).nonzero()) == 1  # whole, in one row
        ids, trained = tokenize(encode(messages), tokenizer)
        assert rows.tokens[here].tolist() == ids[:-1]
        labels = rows.labels[here].tolist()
        assert [label != IGNORE for label in labels] == trained[1:]
        written = tokenizer.decode((label for label in labels if label != IGNORE), keep_special=True)
        assert written == "".join(m["content"] + END for m in messages if m["role"] == "assistant")
    assert rows.targets == sum(sum(tokenize(encode(m), tokenizer)[1]) for m in DIALOGUES)


def test_a_dialogue_that_a_row_cannot_hold_is_left_out_and_counted(tokenizer: Tokenizer) -> None:
    longest = max(len(tokenize(encode(m), tokenizer)[0]) for m in DIALOGUES)
    assert packed(DIALOGUES, tokenizer, longest - 1).left_out == 0
    found = packed(DIALOGUES, tokenizer, longest - 2)
    assert found.left_out == 1 and int(found.rows.doc_ids.max()) == len(DIALOGUES) - 2
    with pytest.raises(DataError, match="3 dialogues, none of which a row of 4 positions can hold"):
        packed(DIALOGUES, tokenizer, 4)


def test_a_dialogue_without_an_answer_is_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(DataError, match="dialogue 1 has no message of the assistant"):
        packed([DIALOGUES[0], said("s", "only asked")], tokenizer, 100)
    with pytest.raises(ChatError):
        packed([[{"role": "nobody", "content": "x"}]], tokenizer, 100)


def test_a_mask_is_as_long_as_its_document() -> None:
    rows = pack([[1, 2, 3, 4], [5, 6]], 5, [[True, False, True, False], [True, True]])
    assert rows.labels.tolist() == [[IGNORE, 3, IGNORE, 6, IGNORE]]
    with pytest.raises(DataError, match="document 0 has 3 tokens and a mask of 2"):
        pack([[1, 2, 3]], 5, [[True, True]])


def test_dialogues_are_read_from_a_file_and_the_first_bad_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "dialogues.jsonl"
    path.write_text("".join(json.dumps({"messages": one}) + "\n\n" for one in DIALOGUES))
    assert read_dialogues(path) == DIALOGUES
    for bad in ("[]", "{", '{"messages": 3}', '{"messages": [{"role": "x"}]}', '{"messages": []}'):
        path.write_text(json.dumps({"messages": DIALOGUES[0]}) + f"\n{bad}\n")
        with pytest.raises(DataError, match="line 2"):
            read_dialogues(path)
    path.write_text("\n")
    with pytest.raises(DataError, match="holds no line"):
        read_dialogues(path)
    with pytest.raises(DataError, match="cannot be read"):
        read_dialogues(tmp_path / "none")
