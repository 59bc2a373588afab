"""The gates that compare a document or dialogue with those before it and with the benchmarks."""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from trex.data import families
from trex.data.decontamination import Benchmarks
from trex.data.near_duplicates import NearDuplicates
from trex.solver.equivalence import compare
from trex.solver.model import Model
from trex.solver.pyomo_model import from_pyomo


class Compared(Protocol):
    """What is compared: the model's fingerprint and origin, the statement and its signature."""

    @property
    def fingerprint(self) -> str:
        """Of the model: equal for isomorphic ones."""

    @property
    def origin(self) -> tuple[Any, ...]:
        """What the model can be built from again."""

    @property
    def statement(self) -> str:
        """What is asked, with its files."""

    @property
    def signature(self) -> bytes:
        """Of the statement."""


class Collection:
    """What the documents written so far are compared with.

    model: builds a model from its origin, to tell isomorphic ones from ones with the same fingerprint.
    """

    def __init__(self, near: float, benchmarks: Benchmarks, model: Callable[..., Model] | None = None) -> None:
        self._benchmarks = benchmarks
        self._model = model or family_model
        self._near = NearDuplicates(near)
        self._models: dict[str, list[tuple[Any, ...]]] = {}  # fingerprint -> origins

    def refusal(self, found: Compared) -> tuple[str, str] | None:
        """Gate and reason where another document has its model or nearly its text, or a benchmark has it."""
        model: Model | None = None
        if found.fingerprint in self._models or found.fingerprint in self._benchmarks.models:
            model = self._model(*found.origin)
            for other in self._models.get(found.fingerprint, ()):
                if compare(model, self._model(*other), mode="isomorphism").kind != "different":
                    return "duplicate", f"the model is that of {', '.join(map(str, other)):.200}"
        if (near := self._near.find(_signed(found))) is not None:
            return "near-duplicate", f"{near[1]:.2f} like the text of document {near[0]}"
        if (hit := self._benchmarks.find(found.statement, model, found.fingerprint)) is not None:
            return "benchmark", f"{hit.kind}: {hit.source}"
        return None

    def add(self, found: Compared) -> None:
        """Let a document in."""
        self.add_text(found.signature)
        self._models.setdefault(found.fingerprint, []).append(found.origin)

    def add_text(self, signature: bytes) -> None:
        """Let a text in that later ones must not be like."""
        self._near.add(np.frombuffer(signature, dtype=np.uint32))


def _signed(found: Compared) -> np.ndarray:
    return np.frombuffer(found.signature, dtype=np.uint32)


def family_model(family: str, seed: int, difficulty: int) -> Model:
    """The model of an instance of a family."""
    found = families.get(family)
    return from_pyomo(found.model(found.problem(seed, difficulty).data))
