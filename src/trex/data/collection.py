"""The gates that compare a document with those before it and with the benchmarks."""

from trex.data import families
from trex.data.decontamination import Benchmarks
from trex.data.documents import Document
from trex.data.near_duplicates import NearDuplicates
from trex.data.proving import Outcome, signed
from trex.solver.equivalence import compare
from trex.solver.model import Model
from trex.solver.pyomo_model import from_pyomo


class Collection:
    """What the documents written so far are compared with."""

    def __init__(self, near: float, benchmarks: Benchmarks) -> None:
        self._benchmarks = benchmarks
        self._near = NearDuplicates(near)
        self._models: dict[str, list[tuple[str, int, int]]] = {}  # fingerprint -> origins

    def refusal(self, outcome: Outcome) -> Outcome:
        """The outcome, refused where another document has its model or nearly its text, or a benchmark has it."""
        model: Model | None = None
        if outcome.fingerprint in self._models or outcome.fingerprint in self._benchmarks.models:
            model = _model(*outcome.origin)
            for other in self._models.get(outcome.fingerprint, ()):
                if compare(model, _model(*other), mode="isomorphism").kind != "different":
                    return _refused(outcome, "duplicate", f"the model is that of seed {other[1]}")
        if (near := self._near.find(signed(outcome))) is not None:
            return _refused(outcome, "near-duplicate", f"{near[1]:.2f} like the text of document {near[0]}")
        if (hit := self._benchmarks.find(outcome.statement, model, outcome.fingerprint)) is not None:
            return _refused(outcome, "benchmark", f"{hit.kind}: {hit.source}")
        return outcome

    def add(self, outcome: Outcome) -> None:
        """Let a document in."""
        self._near.add(signed(outcome))
        self._models.setdefault(outcome.fingerprint, []).append(outcome.origin)


def _refused(outcome: Outcome, gate: str, reason: str) -> Outcome:
    return Outcome(gate=gate, reason=reason, data=Document.from_line(outcome.line).data)


def _model(family: str, seed: int, difficulty: int) -> Model:
    """The model of a document, from its origin."""
    found = families.get(family)
    return from_pyomo(found.model(found.problem(seed, difficulty).data))
