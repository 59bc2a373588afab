"""Answers with planted failures, run and judged: which class was planted, and which was found."""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trex.eval import rows
from trex.eval.execute import EXECUTIONS, SETTINGS, Executing
from trex.eval.items import Item
from trex.eval.judging import VERDICTS
from trex.eval.planted import KINDS, planted
from trex.eval.recorded import judge_recorded
from trex.eval.rows import Key

NONE = "right"  # in place of a class


@dataclass(frozen=True)
class Trial:
    """One answer: the kind that was planted, its class, and what was found with and without a reference model."""

    item: str
    kind: str
    planted: str
    by_models: str
    evidence: str
    by_values: str
    evidence_by_values: str


def trials(
    items: Sequence[Item], seed: int, folder: Path, executing: Executing, kinds: Sequence[str] = KINDS
) -> tuple[Trial, ...]:
    """Plant every kind in every item where it applies, and judge the answers with and without reference models.

    Programs are run once; runs are kept below `folder`.
    """
    answers: dict[Key, str] = {}
    planned: dict[Key, tuple[str, str]] = {}
    for item in items:
        for sample, (kind, text, expected) in enumerate(_planted(item, kinds, seed)):
            answers[item.id, sample], planned[item.id, sample] = text, (kind, expected or NONE)
    with_models, without = folder / "with", folder / "without"
    judge_recorded(with_models, items, answers, model="planted", executing=executing)
    without.mkdir(parents=True, exist_ok=True)
    for name in (EXECUTIONS, SETTINGS):
        shutil.copy(with_models / name, without / name)
    judge_recorded(without, [replace(i, reference="") for i in items], answers, model="planted", executing=executing)
    first, second = (rows.latest(rows.read(part / VERDICTS)) for part in (with_models, without))
    return tuple(
        Trial(
            key[0], kind, expected, first[key]["failure"] or NONE, first[key]["evidence"],
            second[key]["failure"] or NONE, second[key]["evidence"],
        )
        for key, (kind, expected) in planned.items()
    )  # fmt: skip


def summary(found: Sequence[Trial]) -> dict[str, Any]:
    """How many answers there are, and how many have the planted class, with and without reference models."""
    wrong = [trial for trial in found if trial.planted != NONE]
    return {
        "answers": len(found),
        "right": len(found) - len(wrong),
        "right_found": sum(trial.by_models == NONE for trial in found if trial.planted == NONE),
        "failures": len(wrong),
        "failures_called_right": sum(trial.by_models == NONE for trial in wrong),
        "class_found_by_models": sum(trial.by_models == trial.planted for trial in wrong),
        "class_found_by_values": sum(trial.by_values == trial.planted for trial in wrong),
    }


def table(found: Sequence[Trial]) -> dict[str, list[Any]]:
    """The trials as columns, for `trex.results.record(series=…)`."""
    names = ("item", "kind", "planted", "by_models", "by_values")
    return {name: [getattr(trial, name) for trial in found] for name in names}


def _planted(item: Item, kinds: Sequence[str], seed: int) -> Iterator[tuple[str, str, str]]:
    for kind in kinds:
        found = planted(item, kind, seed)
        if found is not None:
            yield kind, *found
