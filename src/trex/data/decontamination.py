"""Is a document in a benchmark? Runs of 13 words shared with any of its texts, or a model isomorphic to one of its own.

Thirteen words are the usual measure (Brown et al., Language Models are Few-Shot Learners, 2020, appendix C).
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from trex.data.near_duplicates import grams, words
from trex.data.problem import DataError
from trex.solver import lp
from trex.solver.equivalence import compare
from trex.solver.equivalence.fingerprint import fingerprint
from trex.solver.model import Model, ModelError

GRAM = 13  # words
TEXTS, MODELS = (".jsonl", ".json", ".txt", ".md"), (".lp", ".mps")


@dataclass(frozen=True)
class Hit:
    """Where a document meets a benchmark."""

    kind: str  # "13-gram" | "isomorphic model"
    source: str  # file, with the line of a text
    grams: int = 0  # shared runs of words


@dataclass(frozen=True)
class Benchmarks:
    """What must not be in training data: hashed runs of words with their source, and models by fingerprint."""

    texts: int = 0
    grams: dict[int, str] = field(default_factory=dict)
    models: dict[str, list[tuple[str, Model]]] = field(default_factory=dict)
    sha256: str = ""  # of all files that were read

    @classmethod
    def read(cls, folder: Path) -> Self:
        """All texts and models below a folder. Raises DataError for a folder or a file that cannot be read."""
        if not folder.is_dir():
            raise DataError(f"{folder} is no folder of benchmarks")
        found: dict[int, str] = {}
        models: dict[str, list[tuple[str, Model]]] = {}
        digest, texts = hashlib.sha256(), 0
        for path in sorted(p for p in folder.rglob("*") if p.suffix in (*TEXTS, *MODELS)):
            name = str(path.relative_to(folder))
            try:
                content = path.read_bytes()
                digest.update(content)
                if path.suffix in MODELS:
                    model = lp.read(path)
                    models.setdefault(fingerprint(model), []).append((name, model))
                    continue
                for where, text in _texts(name, content.decode()):
                    texts += 1
                    found |= {gram: where for gram in _grams(text) if gram not in found}
            except (OSError, UnicodeDecodeError, ModelError) as error:
                raise DataError(f"{path} cannot be read: {error}") from None
        return cls(texts, found, models, digest.hexdigest())

    def find(self, text: str, model: Model | None = None, known: str = "") -> Hit | None:
        """Where a text, or a model of this fingerprint, is in the benchmarks; None where it is not."""
        shared = [gram for gram in _grams(text) if gram in self.grams]
        if shared:
            return Hit("13-gram", min(self.grams[gram] for gram in shared), len(shared))
        for source, other in self.models.get(known, ()):
            if model is not None and compare(model, other, mode="isomorphism").kind == "equal":
                return Hit("isomorphic model", source)
        return None


def _grams(text: str) -> Iterable[int]:
    tokens = words(text)
    return grams(tokens, GRAM) if len(tokens) >= GRAM else ()


def _texts(name: str, content: str) -> Iterator[tuple[str, str]]:
    """The strings of a JSON file or of each line of a JSONL file; any other text whole."""
    if name.endswith(".jsonl"):
        for number, line in enumerate(content.splitlines(), start=1):
            if line.strip():
                yield from ((f"{name}:{number}", text) for text in _strings(_json(line, f"{name}:{number}")))
    elif name.endswith(".json"):
        yield from ((name, text) for text in _strings(_json(content, name)))
    else:
        yield name, content


def _json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where} is no JSON: {error}") from None


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
