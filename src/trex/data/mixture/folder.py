"""A finished mixture in its folder: rows for training and validation, the tokenizer, and what it is made of."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from trex.data.mixture import shards
from trex.data.mixture.shards import Ids, Packed
from trex.data.mixture.tokenizers import FULL_FILE, REDUCED_FILE, Kept, of_file
from trex.data.problem import DataError
from trex.data.tokens import Rows, pack

MANIFEST, KIND, VERSION = "mixture.json", "trex mixture", 1
TRAIN, VALIDATION = "train", "validation"


@dataclass(frozen=True)
class Mixture:
    """What a folder holds; its files are read, and compared with their hashes, as they are asked for."""

    folder: Path
    manifest: dict[str, Any]

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Read a folder's manifest. Raises DataError where there is none or it is something else."""
        path = folder / MANIFEST
        try:
            body = json.loads(path.read_bytes())
            if body["kind"] != KIND or body["version"] != VERSION:
                raise ValueError(f"kind {body['kind']!r}, version {body['version']!r}")
            for part in body["splits"].values():
                int(part["documents"]), int(part["tokens"]), int(part["rows"])
                for shard in part["shards"]:
                    names = [shard["file"], shard["documents_file"]]
                    if any(Path(name).is_absolute() or ".." in Path(name).parts for name in names):
                        raise ValueError(f"files {names}")
            if TRAIN not in body["splits"] or body["tokenizer"]["file"] not in (FULL_FILE, REDUCED_FILE):
                raise ValueError(f"splits {list(body['splits'])}, tokenizer {body['tokenizer']['file']!r}")
            int(body["recipe"]["seq_len"])
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise DataError(f"{path} is no mixture of version {VERSION}: {error!r:.200}") from None
        return cls(folder, body)

    @property
    def seq_len(self) -> int:
        """Positions of a row."""
        return int(self.manifest["recipe"]["seq_len"])

    @property
    def splits(self) -> tuple[str, ...]:
        """Those that have documents."""
        return tuple(name for name, part in self.manifest["splits"].items() if part["documents"])

    def tokenizer(self) -> Kept:
        """The tokenizer. Raises DataError where it is not the one that the manifest names."""
        stated = self.manifest["tokenizer"]
        kept = of_file(_checked(self.folder / stated["file"], stated["sha256"]))
        if kept.to_dict() != stated:
            raise DataError(f"{self.folder / MANIFEST}: tokenizer {stated!r:.200}; the file's is {kept.to_dict()}")
        return kept

    def shards(self, split: str) -> Iterator[Packed]:
        """The files of a split one by one. Raises DataError for one that was changed."""
        vocab_size = int(self.manifest["tokenizer"]["vocab_size"])
        for shard in self.manifest["splits"][split]["shards"]:
            path = _checked(self.folder / shard["file"], shard["sha256"])
            content = shards.read(path)
            if content.tokens.min() < 0 or max(content.tokens.max(), content.labels.max()) >= vocab_size:
                raise DataError(f"{path} holds ids outside of the tokenizer's 0 to {vocab_size - 1}")
            yield content

    def documents(self, split: str) -> Iterator[Ids]:
        """Tokens of the documents of a split, begin and end with them, in the order in which they were drawn."""
        expected = 0
        for content in self.shards(split):
            for number, ids in shards.documents(content):
                if number != expected:
                    raise DataError(f"{self.folder}, {split}: document {number} where {expected} was expected")
                expected += 1
                yield ids

    def rows(self, split: str, seq_len: int) -> Rows | None:
        """All rows of a split, packed anew for another length than the mixture's; None for a split without documents.

        Unlike everything else here they are in memory at once, as the trainer needs them.
        """
        if split not in self.splits:
            return None
        if seq_len != self.seq_len:
            return pack([ids.tolist() for ids in self.documents(split)], seq_len)
        parts = [content.rows for content in self.shards(split)]
        return Rows(*(torch.cat([getattr(part, name) for part in parts]) for name in ("tokens", "doc_ids", "labels")))


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _checked(path: Path, sha256: str) -> Path:
    try:
        found = digest(path)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from None
    if found != sha256:
        raise DataError(f"{path} does not have the hash in {MANIFEST}: it was changed or is not whole")
    return path


def dtype_of(vocab_size: int) -> type[np.uint16] | type[np.int32]:
    """The smallest type of Megatron's for the ids of a vocabulary, by its own bound."""
    return np.uint16 if vocab_size < 65500 else np.int32
