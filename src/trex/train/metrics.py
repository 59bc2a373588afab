"""What a run reports of each step, kept as JSON lines."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Self

from trex.files import write_atomic
from trex.train.recipes import TrainError

LOSSES = ("loss", "mtp", "indexer", "balance")


@dataclass(frozen=True)
class Step:
    """One optimizer step, or, as step 0, the state before the first.

    Losses are means over the tokens that they are defined on, before the step's update and without their weights;
    those of the indexers and of the balance are summed over layers.
    """

    step: int
    tokens: int  # targets trained on so far
    loss: float | None = None  # of the language model, nats per target
    mtp: float | None = None  # of the MTP block, nats per target
    indexer: float | None = None  # KL divergence, nats per token that sees an entry
    balance: float | None = None  # sequence balance loss; 1 for each layer in perfect balance
    grad_norm: float | None = None  # before clipping
    lr: float | None = None
    tokens_per_s: float | None = None  # targets per second of this step
    imbalance: tuple[float, ...] | None = None  # by layer, the MTP block last: most loaded expert over the mean
    held_out: float | None = None  # nats per target, after the step's update, where it was measured

    @classmethod
    def from_json(cls, line: str | bytes) -> Self:
        """Read a line of the log. Raises ValueError or TypeError for what is none."""
        body = json.loads(line)
        if body.get("imbalance") is not None:
            body["imbalance"] = tuple(body["imbalance"])
        return cls(**body)


@dataclass(frozen=True)
class History:
    """All steps of a run, step 0 first."""

    steps: tuple[Step, ...]

    def losses(self) -> dict[str, list[float]]:
        """Columns `step`, `tokens`, the losses that were measured, `grad_norm` and `lr` of the optimizer steps."""
        rows = [s for s in self.steps if s.loss is not None]
        measured = [name for name in LOSSES if all(getattr(s, name) is not None for s in rows)]
        return {name: [getattr(s, name) for s in rows] for name in ("step", "tokens", *measured, "grad_norm", "lr")}

    def imbalance(self) -> list[tuple[float, ...]]:
        """Load imbalance of each layer, the MTP block last, over the optimizer steps."""
        return list(zip(*(s.imbalance for s in self.steps if s.imbalance is not None), strict=True))

    def held_out(self) -> dict[str, list[float]]:
        """Columns `step`, `tokens`, `held_out` where the held-out loss was measured."""
        rows = [s for s in self.steps if s.held_out is not None]
        return {name: [getattr(s, name) for s in rows] for name in ("step", "tokens", "held_out")}


class Log:
    """Steps in a JSONL file: earlier ones read back, later ones appended as they happen."""

    def __init__(self, path: Path | None, upto: int | None) -> None:
        """path: None keeps the steps in memory only. upto: last step to keep of an existing file; None begins anew.

        Raises TrainError where the file lacks a step up to `upto`.
        """
        self.steps = _read(path, upto) if path is not None and upto is not None else []
        self._stream: IO[bytes] | None = None
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, b"".join(map(_line, self.steps)))
            self._stream = path.open("ab")

    def append(self, step: Step) -> None:
        """Add a step; its line is with the operating system before this returns, so a killed process loses none."""
        self.steps.append(step)
        if self._stream is not None:
            self._stream.write(_line(step))
            self._stream.flush()

    def sync(self) -> None:
        """Force the file to the disk."""
        if self._stream is not None:
            self._stream.flush()
            os.fsync(self._stream.fileno())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._stream is not None:
            self._stream.close()


def _line(step: Step) -> bytes:
    return json.dumps(asdict(step), allow_nan=False).encode() + b"\n"


def _read(path: Path, upto: int) -> list[Step]:
    """Steps 0 to `upto`; what follows, such as a half-written line, is of no interest."""
    steps: list[Step] = []
    try:
        with path.open("rb") as stream:
            for line in stream:
                if len(steps) > upto:
                    break
                steps.append(Step.from_json(line))
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise TrainError(f"{path} cannot be read up to step {upto}: {error}") from None
    if [s.step for s in steps] != list(range(upto + 1)):
        raise TrainError(f"{path} does not hold steps 0 to {upto}, which the checkpoint has behind it")
    return steps
