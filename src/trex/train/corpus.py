"""The rows that a run trains on and those held out: documents generated or read, tokenised and packed by one rank.

Documents are proved as they are generated, some hundredths of a second to seconds each, so the first rank makes the
rows and leaves them in the run's folder (`rows.safetensors`), where the others read them; generated documents stay
there too (`documents`), so that a run that was stopped goes on generating where it was. A mixture's folder has rows
and a tokenizer already.
"""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from trex.checkpoint import tensors
from trex.checkpoint.together import Together
from trex.data.chat_format import SPECIAL
from trex.data.dialogue_rows import Messages, holds_dialogues, packed, read_dialogues, texts
from trex.data.documents import Document, read_jsonl
from trex.data.engine import Here, Settings, generate
from trex.data.mixture.folder import MANIFEST, TRAIN, VALIDATION, Mixture
from trex.data.mixture.tokenizers import same_ids
from trex.data.plan import Plan
from trex.data.problem import DataError
from trex.data.tokens import Rows, Tokenizer, pack
from trex.data.vocabulary import BEGIN, END, FullTokenizer
from trex.train.agreement import agree, of_first

ROWS, DOCUMENTS, FILE = "rows.safetensors", "documents", "documents.jsonl"
DIFFICULTIES = (1, 2, 3)  # of generated documents
MOST_HELD_OUT = 0.5


@dataclass(frozen=True)
class Corpus:
    """Rows of a run; held_out None where nothing is held out. tokenizer: the reduced one, None for a whole one."""

    rows: Rows
    held_out: Rows | None
    vocab_size: int  # ids of the tokenizer
    tokenizer: dict[str, Any] | None  # as `Tokenizer.from_dict` reads it
    left_out: int = 0  # dialogues that a row cannot hold


@dataclass(frozen=True)
class Source:
    """Where texts come from and how they become rows. Raises DataError for numbers out of range."""

    documents: int  # generated, where there is no file
    data: Path | None  # JSON lines with "text", documents or dialogues, a folder of documents, or a mixture's
    seed: int
    held_out: float  # share of the texts; a mixture has held some out itself, which 0 leaves unused
    seq_len: int
    tokenizer: Tokenizer | FullTokenizer | None  # None: fitted to the texts that are trained on

    def __post_init__(self) -> None:
        if self.data is None and self.documents < 1:
            raise DataError(f"documents {self.documents}; accepted: from 1")
        if not 0 <= self.held_out <= MOST_HELD_OUT:
            raise DataError(f"held-out share {self.held_out}; accepted: 0 to {MOST_HELD_OUT}")

    def texts(self, folder: Path) -> list[str]:
        """All texts, those generated kept in `folder`. Raises DataError that names the first bad line."""
        if self.data is not None:
            return list(_read(self.data))
        made = folder / DOCUMENTS
        generate(made, Settings(Plan.of(self.documents, self.seed, difficulty=DIFFICULTIES), execute=False), pool=Here)
        return [document.text for document in read_jsonl(made / FILE)]

    def corpus(self, folder: Path) -> Corpus:
        """The rows. Of every 1 / held_out texts, rounded, the first is held out, and whatever equals one of those.

        Raises DataError for what cannot be read, and for a mixture with ids of another tokenizer than the model's.
        """
        if self.data is not None and (self.data / MANIFEST).is_file():
            return self._mixture(Mixture.open(self.data))
        if self.data is not None and holds_dialogues(self.data):
            return self._dialogues(read_dialogues(self.data))
        texts = self.texts(folder)
        held = texts[:: max(2, round(1 / self.held_out))] if self.held_out else []
        training = [text for text in texts if text not in set(held)] if held else texts
        if not training:
            raise DataError(f"{len(texts)} texts, {len(held)} of them held out: none are left to train on")
        tokenizer = self.tokenizer or Tokenizer.fit(training, special=SPECIAL)
        first, last = tokenizer.special_id(BEGIN), tokenizer.special_id(END)

        def rows(chosen: list[str]) -> Rows:
            return pack(([first, *tokenizer.encode(text), last] for text in chosen), self.seq_len)

        return Corpus(rows(training), rows(held) if held else None, tokenizer.vocab_size, _kept(tokenizer))

    def _dialogues(self, dialogues: list[Messages]) -> Corpus:
        """Rows whose targets are what the assistant writes. Raises DataError where none of the dialogues fits."""
        held = dialogues[:: max(2, round(1 / self.held_out))] if self.held_out else []
        training = [one for one in dialogues if one not in held]
        if not training:
            raise DataError(f"{len(dialogues)} dialogues, {len(held)} of them held out: none are left to train on")
        tokenizer = self.tokenizer or Tokenizer.fit((text for one in training for text in texts(one)), special=SPECIAL)
        rows = packed(training, tokenizer, self.seq_len)
        held_out = packed(held, tokenizer, self.seq_len).rows if held else None
        return Corpus(rows.rows, held_out, tokenizer.vocab_size, _kept(tokenizer), rows.left_out)

    def _mixture(self, mixture: Mixture) -> Corpus:
        """The rows of a mixture, packed anew where they have another length."""
        tokenizer = mixture.tokenizer().tokenizer
        if self.tokenizer is not None and not same_ids(self.tokenizer, tokenizer):
            raise DataError(
                f"{mixture.folder} has ids of another tokenizer than the model's; accepted: a mixture of its"
            )
        rows = mixture.rows(TRAIN, self.seq_len)
        if rows is None:
            raise DataError(f"{mixture.folder} holds no document to train on")
        held = mixture.rows(VALIDATION, self.seq_len) if self.held_out else None
        return Corpus(rows, held, tokenizer.vocab_size, _kept(tokenizer))


def _kept(tokenizer: Tokenizer | FullTokenizer) -> dict[str, Any] | None:
    return tokenizer.to_dict() if isinstance(tokenizer, Tokenizer) else None


def load(source: Source, folder: Path, ranks: Together, timeout_s: float) -> Corpus:
    """The corpus on all ranks, which see one file system. timeout_s: of collectives.

    Raises DataError for texts that cannot be read; AgreedError on all of many ranks.
    """
    if ranks.world == 1:
        folder.mkdir(parents=True, exist_ok=True)
        return source.corpus(folder)
    vocab_size, tokenizer, left_out = of_first(ranks, lambda: _make(source, folder), timeout_s / 4)
    rows, held_out = agree(ranks, lambda: _stored(folder / ROWS))
    return Corpus(rows, held_out, vocab_size, tokenizer, left_out)


def _make(source: Source, folder: Path) -> tuple[int, dict[str, Any] | None, int]:
    folder.mkdir(parents=True, exist_ok=True)
    made = source.corpus(folder)
    named = _named("rows", made.rows) | (_named("held_out", made.held_out) if made.held_out else {})
    tensors.write(folder / ROWS, [tensors.whole(name, tensor) for name, tensor in named.items()])
    return made.vocab_size, made.tokenizer, made.left_out


def _named(name: str, rows: Rows) -> dict[str, Tensor]:
    return {f"{name}.{part}": getattr(rows, part) for part in ("tokens", "doc_ids", "labels")}


def _stored(path: Path) -> tuple[Rows, Rows | None]:
    found = {name: tensors.read_tensor(path, entry) for name, entry in tensors.read_header(path).items()}
    sets = {
        name: Rows(*(found[f"{name}.{part}"] for part in ("tokens", "doc_ids", "labels")))
        for name in ("rows", "held_out")
        if f"{name}.tokens" in found
    }
    return sets["rows"], sets.get("held_out")


def _read(path: Path) -> Iterator[str]:
    """Texts of JSON lines, each {"text": …} or a document, or of the documents.jsonl of a folder.

    Raises DataError that names the first bad line.
    """
    if path.is_dir():
        if not (path / FILE).is_file():
            raise DataError(f"{path} holds no {FILE} and no {MANIFEST}; accepted: documents, or a mixture")
        path = path / FILE
    empty = True
    try:
        with path.open("rb") as stream:
            for number, line in enumerate(stream, start=1):
                if line.strip():
                    empty = False
                    yield _text(line, f"{path}, line {number}")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from None
    if empty:
        raise DataError(f"{path} holds no line")


def _text(line: bytes, where: str) -> str:
    try:
        body = json.loads(line)
        if isinstance(body, dict) and "text" not in body and "problem" in body:
            return Document.from_line(line.decode()).text
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: {error}") from None
    text = body.get("text") if isinstance(body, dict) else None
    if not isinstance(text, str) or not text:
        raise DataError(f'{where} is {line[:60].decode(errors="replace")!r}; accepted: {{"text": "…"}}, or a document')
    return text


def padded(vocab_size: int, multiple: int = 128) -> int:
    """A vocabulary that tensor parallel ranks can share, whatever the layout: Megatron's rounding, also its 128."""
    return math.ceil(vocab_size / multiple) * multiple
