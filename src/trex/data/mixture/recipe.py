"""What a mixture is made of: a YAML file, read field by field.

name: or_cpt
seed: 0
seq_len: 4096
sources:
  - {name: or, path: runs/documents, weight: 0.5}
  - {name: mathematics, embedded: mathematics, weight: 0.3}
  - {name: web, path: data/web, split: train, licence: ODC-By-1.0, weight: 0.2}
"""

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

import yaml

from trex.data.problem import DataError

EMBEDDED = ("mathematics", "code", "text")  # texts that ship with Python and with installed packages
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
REDUCED, DEEPSEEK = "reduced", "deepseek"
LARGEST = 2**31 - 1  # rows, shards and ids are of 32 bits
DEFAULT = {"or": 0.5, "mathematics": 0.2, "code": 0.15, "text": 0.15}  # our choice: the paper states no mixture


@dataclass(frozen=True)
class Source:
    """One source. Raises DataError for a value that is out of range."""

    name: str
    weight: float  # of its share of the tokens, relative to the other sources' weights
    path: str = ""  # a file or folder, relative to the recipe's own; or else
    embedded: str = ""  # one of EMBEDDED
    field: str = "text"  # column or key with the text
    split: str = ""  # of a folder that holds several
    licence: str = ""  # of texts that state none themselves
    limit: int = 0  # texts that are read, the first ones; 0: all
    max_epochs: int = 0  # how often a text may be drawn; 0: the recipe's

    def __post_init__(self) -> None:
        """Check the values."""
        if not NAME.fullmatch(self.name):
            raise DataError(f"source name {self.name!r:.80}; accepted: up to 64 letters, digits, '_', '.' and '-'")
        if not (math.isfinite(self.weight) and self.weight > 0):
            raise DataError(f"source {self.name}: weight {self.weight}; accepted: above 0")
        if bool(self.path) == bool(self.embedded):
            raise DataError(f"source {self.name}: accepted is one of path and embedded")
        if self.embedded and self.embedded not in EMBEDDED:
            raise DataError(f"source {self.name}: embedded {self.embedded!r}; accepted: {', '.join(EMBEDDED)}")
        if not self.field:
            raise DataError(f"source {self.name}: field is empty; accepted: the name of the column with the text")
        for field in ("limit", "max_epochs"):
            if not 0 <= getattr(self, field) <= LARGEST:
                raise DataError(f"source {self.name}: {field} {getattr(self, field)}; accepted: from 0 to {LARGEST:,}")


@dataclass(frozen=True)
class Recipe:
    """A mixture as it is asked for. Equal recipes over equal texts make equal files. Raises DataError."""

    name: str
    sources: tuple[Source, ...]
    seq_len: int  # positions of a row
    seed: int = 0
    tokens: int = 0  # to draw for training; 0: as many as weights and epochs allow
    held_out: float = 0.01  # share of each source's texts that is never trained on
    max_epochs: int = 4  # up to which repeated text helps about as much as new (Muennighoff et al., 2023)
    tokenizer: str = REDUCED  # REDUCED, DEEPSEEK, or a file or folder
    shard_tokens: int = 2**21  # of one file, about; what is held in memory at a time

    def __post_init__(self) -> None:
        """Check the values."""
        if not NAME.fullmatch(self.name):
            raise DataError(f"name {self.name!r:.80}; accepted: up to 64 letters, digits, '_', '.' and '-'")
        if not self.sources:
            raise DataError("a mixture of no sources; accepted: from 1")
        names = [source.name for source in self.sources]
        if len(names) > 255:
            raise DataError(f"{len(names)} sources; accepted: up to 255")
        if twice := [name for name in names if names.count(name) > 1]:
            raise DataError(f"source {twice[0]} is there twice")
        if not 0 <= self.held_out <= 0.5:
            raise DataError(f"held_out {self.held_out}; accepted: 0 to 0.5")
        if not self.tokenizer:
            raise DataError(f"tokenizer is empty; accepted: {REDUCED}, {DEEPSEEK}, or a file")
        for field, least in (("seq_len", 1), ("max_epochs", 1), ("shard_tokens", 1), ("seed", 0), ("tokens", 0)):
            most = 2**62 if field in ("tokens", "seed") else LARGEST
            if not least <= getattr(self, field) <= most:
                raise DataError(f"{field} {getattr(self, field)}; accepted: from {least} to {most:,}")

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a YAML file. Raises DataError that names the field."""
        try:
            body = yaml.safe_load(path.read_bytes())
        except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
            said = error.strerror if isinstance(error, OSError) else " ".join(str(error).split())
            raise DataError(f"{path} cannot be read: {said}") from None
        return cls.of(body, str(path))

    @classmethod
    def of(cls, body: Any, where: str) -> Self:
        """Read what YAML or JSON gave. Raises DataError that names the field."""
        given = _fields(cls, body, where)
        sources = given["sources"]
        if not isinstance(sources, list | tuple):
            raise DataError(f"{where}: sources is a {type(sources).__name__}; accepted: a list")
        read = [Source(**_fields(Source, part, f"{where}, source {k}")) for k, part in enumerate(sources, start=1)]
        return cls(**{**given, "sources": tuple(read)})

    @classmethod
    def default(cls, documents: Path, seq_len: int = 4096) -> Self:
        """OR documents of a folder with embedded texts of all kinds, in the shares DEFAULT."""
        sources = [Source(name, weight, embedded=name) for name, weight in DEFAULT.items() if name in EMBEDDED]
        return cls("or_cpt", (Source("or", DEFAULT["or"], str(documents.resolve())), *sources), seq_len)

    def epochs(self, source: Source) -> int:
        """How often a text of a source may be drawn."""
        return source.max_epochs or self.max_epochs

    def share(self, source: Source) -> float:
        """What share of the tokens a source is to have."""
        return source.weight / math.fsum(other.weight for other in self.sources)

    def to_dict(self) -> dict[str, Any]:
        """As JSON types, which `of` reads."""
        return {**asdict(self), "sources": [asdict(source) for source in self.sources]}


def _fields(kind: Any, body: Any, where: str) -> dict[str, Any]:
    """The fields of a dataclass, each of its type."""
    if not isinstance(body, Mapping):
        raise DataError(f"{where} is a {type(body).__name__}; accepted: a mapping of fields")
    known = {field.name: field for field in fields(kind)}
    found = {}
    for name, value in body.items():
        if name not in known:
            raise DataError(f"{where}: field {name!r}; accepted: {', '.join(known)}")
        found[name] = _value(known[name].type, value, f"{where}: {name}")
    needed = ("name", "weight") if kind is Source else ("name", "sources", "seq_len")
    if missing := [name for name in needed if name not in found]:
        raise DataError(f"{where} lacks {', '.join(missing)}")
    return found


def _value(kind: Any, value: Any, where: str) -> Any:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind is int and not (number and isinstance(value, int)):
        raise DataError(f"{where} = {value!r:.80}; accepted: a whole number{_as_text(kind, value)}")
    if kind is float:
        if not number or (isinstance(value, int) and abs(value) > 2**1000):
            raise DataError(f"{where} = {value!r:.80}; accepted: a number{_as_text(kind, value)}")
        return float(value)
    if kind is str and not isinstance(value, str):
        raise DataError(f"{where} = {value!r:.80}; accepted: text")
    return value


def _as_text(kind: type[int] | type[float], value: Any) -> str:
    """How a number is written that YAML 1.1 reads as text: its exponent has a sign and a point before it."""
    try:
        found = float(value) if isinstance(value, str) else math.nan
    except ValueError:
        return ""
    if not math.isfinite(found) or (kind is int and not found.is_integer()):
        return ""
    return f"; YAML reads this as text: write {int(found) if kind is int else yaml.safe_dump(found).split()[0]}"
