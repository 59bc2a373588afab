"""What a run asks, written once into its folder: a run that goes on must ask the same."""

import hashlib
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

from trex.data.endpoint import EndpointError, Messages, Settings
from trex.eval.items import SETS, Item
from trex.eval.rows import EvaluationError, Key, read_json
from trex.files import locked, make_folder, write_atomic

FILE = "plan.json"
ANSWERS = "answers.jsonl"
INTERFACES = ("pyomo", "gurobipy", "highspy")


@dataclass(frozen=True)
class Plan:
    """What a run asks. `base_url` is "" and `recorded_sha256` a hash where answers are recorded ones.

    Where a server has another address in each run, `base_url` is a word for it, as "checkpoint".

    Raises EvaluationError for a value that is not accepted.
    """

    sets: tuple[str, ...]
    items: tuple[str, ...]  # ids
    items_sha256: str  # over all that the items hold, labels included
    interface: str  # one of INTERFACES
    shots: int
    samples: int  # per item
    model: str
    base_url: str
    recorded_sha256: str
    settings: Settings
    prompt_version: str
    prompts_sha256: str  # over all messages

    def __post_init__(self) -> None:
        for name in ("model", "base_url", "recorded_sha256", "items_sha256", "prompt_version", "prompts_sha256"):
            if not isinstance(getattr(self, name), str):
                raise EvaluationError(f"{name} = {getattr(self, name)!r:.80}; accepted: a text")
        object.__setattr__(self, "base_url", self.base_url.rstrip("/"))
        if bad := [item for item in self.items if not isinstance(item, str) or not item]:
            raise EvaluationError(f"an item has id {bad[0]!r:.80}; accepted: a text")
        if unknown := [name for name in self.sets if name not in SETS]:
            raise EvaluationError(f"sets = {', '.join(map(repr, unknown))}; accepted: {', '.join(SETS)}")
        if self.interface not in INTERFACES:
            raise EvaluationError(f"interface = {self.interface!r}; accepted: {', '.join(INTERFACES)}")
        if not self.items or len(set(self.items)) < len(self.items):
            raise EvaluationError(
                f"{len(self.items)} items, {len(set(self.items))} of them distinct; accepted: distinct"
            )
        _check("shots", self.shots, int, 0, 1000, "a whole number from 0 to 1000")
        _check("samples", self.samples, int, 1, 10**6, "a whole number from 1 to 1000000")

    @classmethod
    def of(
        cls, items: Sequence[Item], prompts: Mapping[str, Messages], *, interface: str, shots: int, samples: int,
        model: str, base_url: str = "", recorded_sha256: str = "", settings: Settings | None = None,
        prompt_version: str,
    ) -> Self:  # fmt: skip
        """The plan that asks `prompts` about `items`. Raises EvaluationError where an item has no prompt."""
        lacking = [item.id for item in items if not prompts.get(item.id)]
        if lacking:
            raise EvaluationError(f"{len(lacking)} items have no prompt, the first is {lacking[0]!r}")
        return cls(
            tuple(dict.fromkeys(item.set for item in items)), tuple(item.id for item in items),
            sha256([item.content() for item in items]),
            interface, shots, samples, model, base_url, recorded_sha256, settings or Settings(), prompt_version,
            sha256([list(map(dict, prompts[item.id])) for item in items]),
        )  # fmt: skip

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The plan of a run's folder. Raises EvaluationError where there is none or it is damaged."""
        path = folder / FILE
        try:
            row = read_json(path.read_bytes(), str(path))
        except FileNotFoundError:
            raise EvaluationError(f"{folder} is no run: it has no {FILE}") from None
        if set(row) != {field.name for field in fields(cls)}:
            raise EvaluationError(f"{path}: its fields are not those of a plan of this version: {', '.join(row)}")
        try:
            parts = {"sets": tuple(row["sets"]), "items": tuple(row["items"]), "settings": Settings(**row["settings"])}
            return cls(**{**row, **parts})
        except (EvaluationError, EndpointError) as error:
            raise EvaluationError(f"{path}: {error}") from None
        except TypeError as error:
            raise EvaluationError(f"{path}: sets, items or settings are not those of a plan: {error}") from None

    @property
    def keys(self) -> list[Key]:
        """All (item, sample) that the plan asks: what every score's denominator counts."""
        return [(item, sample) for item in self.items for sample in range(self.samples)]


def start(folder: Path, plan: Plan) -> None:
    """Write the plan into a new run's folder, or check that the run there has the same one.

    Raises EvaluationError that names the first field that differs, OSError where the folder cannot be made.
    """
    make_folder(folder)
    path = folder / FILE
    try:
        with locked(folder / f".{FILE}.lock"):
            if not path.exists():
                if (folder / ANSWERS).exists():
                    raise EvaluationError(f"{folder} holds {ANSWERS} without the {FILE} that it belongs to")
                write_atomic(path, json.dumps(asdict(plan), indent=1, allow_nan=False).encode() + b"\n")
                return
    except BlockingIOError:
        raise EvaluationError(f"{folder} is being started by another process") from None
    known, asked = _flat(Plan.read(folder)), _flat(plan)
    for name, value in asked.items():
        if known[name] != value:
            how = _items_differ if name == "items" else _differ
            raise EvaluationError(f"{path} has {how(name, known[name], value)}; go on with that, or take a new folder")


def _differ(name: str, known: Any, asked: Any) -> str:
    shown = [", ".join(value) if name == "sets" else f"{value!r:.200}" for value in (known, asked)]
    what = " (texts, labels or data of the items are others now)" if name == "items_sha256" else ""
    return f"{name} = {shown[0]}, not {shown[1]}{what}"


def _items_differ(_: str, known: Sequence[str], asked: Sequence[str]) -> str:
    pairs = enumerate(itertools.zip_longest(known, asked, fillvalue="none"), start=1)
    number, (before, now) = next((n, pair) for n, pair in pairs if pair[0] != pair[1])
    return f"{len(known)} items, not {len(asked)}; the first that differs is number {number}: {before}, not {now}"


def sha256(value: Any) -> str:
    """Of the JSON of `value`: ASCII, sorted keys, no spaces."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _flat(plan: Plan) -> dict[str, Any]:
    row = dict(vars(plan))
    settings = vars(row.pop("settings"))
    return {**row, **{f"settings.{name}": value for name, value in settings.items()}}


def _check(name: str, value: Any, kind: Any, low: float, high: float, accepted: str) -> None:
    if not isinstance(value, kind) or isinstance(value, bool) or not math.isfinite(value) or not low <= value <= high:
        raise EvaluationError(f"{name} = {value!r:.80}; accepted: {accepted}")
