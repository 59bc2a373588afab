"""What every tokenizer here can do, and a whole one read from a Hugging Face `tokenizer.json`.

Special tokens never come out of a text: whoever means one asks for its id by name.
"""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any, Protocol, Self

from tokenizers import Tokenizer as Engine

from trex.data.problem import DataError

BEGIN, END = "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"


class AnyTokenizer(Protocol):
    """Text to ids and back. `trex.data.tokens.Tokenizer` is one, `FullTokenizer` another."""

    @property
    def vocab_size(self) -> int:
        """Number of ids: they run from 0."""
        ...

    @property
    def special(self) -> Mapping[str, int]:
        """Names and ids of the special tokens, begin and end of a text among them."""
        ...

    def special_id(self, name: str) -> int:
        """The id of a special token. Raises DataError for a name that is not among them."""
        ...

    def encode(self, text: str) -> list[int]:
        """Ids of a text, none of them special. Raises DataError for text that is not Unicode."""
        ...

    def to_bytes(self, token: int) -> bytes:
        """What one id stands for in UTF-8, perhaps a part of a character only. Raises DataError for no id."""
        ...

    def decode(self, ids: Iterable[int], keep_special: bool = False) -> str:
        """The text of ids; special tokens are left out or kept as their names. Bytes that are no UTF-8: U+FFFD."""
        ...


class FullTokenizer:
    """A byte-level BPE tokenizer with all ids of its file, DeepSeek's for one; text is never read as special."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        """Take the content of a `tokenizer.json`. Raises DataError where it is no byte-level BPE with begin and end."""
        self._engine, self.special = without_special(body)
        missing = [name for name in (BEGIN, END) if name not in self.special]
        if missing:
            raise DataError(f"tokenizer.json has no added token {missing[0]!r}; accepted: DeepSeek's begin and end")
        self._names = {i: name for name, i in self.special.items()}
        self.vocab_size = max(max(self._engine.get_vocab().values()), *self.special.values()) + 1

    @classmethod
    def from_file(cls, path: str | PathLike[str]) -> Self:
        """Read a `tokenizer.json`. Raises DataError for a file that cannot be read or is something else."""
        try:
            body = json.loads(Path(path).read_bytes())
        except (OSError, ValueError, RecursionError) as error:
            raise DataError(f"{path}: {error}") from None
        if not isinstance(body, dict):
            raise DataError(f"{path} holds a {type(body).__name__}; accepted: a JSON object")
        return cls(body)

    def special_id(self, name: str) -> int:
        """The id of a special token. Raises DataError for a name that is not among them."""
        return find_special(self.special, name)

    def encode(self, text: str) -> list[int]:
        """Ids of a text, none of them special. Raises DataError for text that is not Unicode."""
        return plain_ids(self._engine, text)

    def to_bytes(self, token: int) -> bytes:
        """What one id stands for in UTF-8; nothing for an id that the file leaves free. Raises DataError for no id."""
        if not 0 <= token < self.vocab_size:
            raise DataError(f"token id {token}; accepted: 0 to {self.vocab_size - 1}")
        if token in self._names:
            return self._names[token].encode()
        return token_bytes(self._engine.id_to_token(token) or "")

    def decode(self, ids: Iterable[int], keep_special: bool = False) -> str:
        """The text of ids; special tokens are left out or kept as their names. Bytes that are no UTF-8: U+FFFD."""
        kept = [self.to_bytes(i) for i in ids if keep_special or i not in self._names]
        return b"".join(kept).decode(errors="replace")


def without_special(body: Mapping[str, Any]) -> tuple[Engine, dict[str, int]]:
    """An engine without the file's added tokens, which it would recognise inside any text; and these, by name.

    Raises DataError for the content of a file that is not byte-level BPE.
    """
    parts = [body.get(name) for name in ("model", "decoder")]
    kinds = tuple(part.get("type") if isinstance(part, Mapping) else None for part in parts)
    if kinds != ("BPE", "ByteLevel"):
        raise DataError(f"tokenizer.json with model and decoder of types {kinds}; accepted: ('BPE', 'ByteLevel')")
    try:
        special = {str(token["content"]): int(token["id"]) for token in body["added_tokens"]}
        engine = Engine.from_str(json.dumps({**body, "added_tokens": []}))
    except Exception as error:  # the library raises bare Exceptions
        reason = f"no {error}" if isinstance(error, KeyError) else error
        raise DataError(f"a tokenizer.json that Hugging Face's tokenizers cannot read: {reason}") from None
    return engine, special


def plain_ids(engine: Engine, text: str) -> list[int]:
    """Ids of a text from an engine without special tokens. Raises DataError for text that is not Unicode."""
    try:
        return list(engine.encode(text, add_special_tokens=False).ids)
    except (TypeError, UnicodeEncodeError) as error:
        raise DataError(f"text that is not Unicode: {error}") from None


def find_special(special: Mapping[str, int], name: str) -> int:
    """The id of a name. Raises DataError, listing the first of those there are, for another."""
    if name not in special:
        shown = ", ".join(list(special)[:12])
        raise DataError(f"no special token {name!r}; accepted: {shown}{', …' if len(special) > 12 else ''}")
    return special[name]


def token_bytes(token: str) -> bytes:
    """The bytes of a byte-level token: each letter stands for one; any other string is its own UTF-8."""
    table = byte_of_letter()
    if all(letter in table for letter in token):
        return bytes(table[letter] for letter in token)
    return token.encode()


@cache
def byte_of_letter() -> dict[str, int]:
    """The byte of each of the 256 letters of byte-level BPE (GPT-2's table).

    Printable characters of Latin-1 stand for themselves; the other bytes, in order, have the letters from U+0100.
    """
    own = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in own]
    return {chr(byte): byte for byte in own} | {chr(0x100 + place): byte for place, byte in enumerate(others)}
