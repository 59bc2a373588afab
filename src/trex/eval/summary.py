"""What a run's verdicts amount to: pass@k with intervals, both labels, both tolerances, and failures.

Denominators are fixed by the plan: a sample that has no answer, no program or no verdict counts as wrong. Where all
scores agree, resampling has nothing to tell; the interval is then Wilson's of as many trials as there are clusters. It
holds for scores between 0 and 1 too: none spread wider than right and wrong.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import NormalDist
from typing import Any

from trex.eval import rows
from trex.eval.execute import EXECUTIONS
from trex.eval.intervals import RESAMPLES, Interval, compare_runs, mean_interval
from trex.eval.items import Item
from trex.eval.judge import counted
from trex.eval.judging import SETTINGS, VERDICTS, current
from trex.eval.labels import labels, latest
from trex.eval.plan import ANSWERS, Plan
from trex.eval.rows import EvaluationError, Key, Row
from trex.eval.runs import kept_items
from trex.eval.scores import any_of_k, pass_at_k_scores
from trex.eval.summary_text import MACRO, POOLED, comparison_text, failures_text, text

# name of a score: the verdict's field that it counts, and whether items that current labels drop are left out
SCORES = {"current": ("correct", True), "recorded": ("recorded", False), "as published": ("as_published", False)}
UNANSWERED, UNJUDGED = "no answer", "not judged"


def summarise(folder: Path, ks: Sequence[int] = (), resamples: int = RESAMPLES, seed: int = 0) -> dict[str, Any]:
    """Everything that a run's report says, as what JSON can hold.

    ks: of pass@k beside 1; the number of samples by default. Raises EvaluationError where the folder is no run or a k
    is above the number of samples.
    """
    plan, items = Plan.read(folder), kept_items(folder)
    chosen = sorted({1, *(ks or (plan.samples,))})
    _require_ks(chosen, plan)
    version = _label_version(folder)
    executions, answers = _latest(folder / EXECUTIONS), _latest(folder / ANSWERS)
    verdicts = current(_latest(folder / VERDICTS), executions)
    sets = {name: [item for item in items if item.set == name] for name in plan.sets}
    found = {
        name: _scores(chosen_items, plan, verdicts, version, chosen, resamples, seed)
        for name, chosen_items in {**sets, **({POOLED: list(items)} if len(sets) > 1 else {})}.items()
    }
    if len(sets) > 1:
        found[MACRO] = _macro(sets, plan, verdicts, version, chosen, resamples, seed)
    for name, part in {**sets, POOLED: list(items)}.items():
        if name in found:
            found[name]["failures"] = _failures(part, plan, verdicts, answers)
    return {
        "model": plan.model, "interface": plan.interface, "shots": plan.shots, "samples": plan.samples,
        "prompt_version": plan.prompt_version, "prompts_sha256": plan.prompts_sha256,
        "items_sha256": plan.items_sha256, "settings": vars(plan.settings),
        "asked": len(plan.keys), "answered": sum(map(rows.finished, answers.values())),
        "executed": len(executions), "judged": sum(map(rows.finished, verdicts.values())),
        **_open(plan, answers, verdicts),
        "isolation": dict(Counter(str(row["isolation"]) for row in verdicts.values() if row["isolation"])),
        "label_version": version, "labels": _disputed(items, version), "sets": found,
    }  # fmt: skip


def failed_answers(folder: Path, count: int) -> list[dict[str, Any]]:
    """The first `count` answers that are wrong by current labels, in the plan's order: class, evidence and its basis.

    Those that have no verdict, and those of items that the labels drop, are left out.
    """
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise EvaluationError(f"failures = {count!r}; accepted: a whole number from 1")
    plan = Plan.read(folder)
    verdicts = current(_latest(folder / VERDICTS), _latest(folder / EXECUTIONS))
    wrong = (verdicts[k] for k in plan.keys if k in verdicts and verdicts[k]["counted"] and not verdicts[k]["correct"])
    names = ("item", "sample", "failure", "basis", "evidence", "program", "optimum")
    return [{name: row[name] for name in names} for row, _ in zip(wrong, range(count), strict=False)]


def compare_folders(a: Path, b: Path, k: int = 1, resamples: int = RESAMPLES, seed: int = 0) -> dict[str, Any]:
    """pass@k of run b less that of run a on the same items, with interval and p-value, per set and over all.

    Where all items differ by the same, there is no interval: low and high are None. An answer whose request failed, or
    whose judging died, counts as wrong. Raises EvaluationError where the runs did not ask the same items, a sample is
    not answered or not judged, and for a k above the samples of one.
    """
    plans = [Plan.read(folder) for folder in (a, b)]
    if plans[0].items_sha256 != plans[1].items_sha256:
        raise EvaluationError(f"{a} and {b} asked different items; accepted: two runs of the same items")
    verdicts = [_all_verdicts(folder, plan) for folder, plan in zip((a, b), plans, strict=True)]
    items, version = kept_items(a), _label_version(a)
    if version != _label_version(b):
        other = _label_version(b)
        raise EvaluationError(
            f"{a} was judged by labels of version {version}, {b} by version {other}; judge one again: "
            f"trex eval judge {a if version < other else b} --labels {max(version, other)}"
        )
    for plan in plans:
        _require_ks((k,), plan)
    clusters = {item.id: item.cluster or item.id for item in items}
    found = {}
    for name in (*plans[0].sets, *([POOLED] if len(plans[0].sets) > 1 else [])):
        chosen = [item for item in items if name in (item.set, POOLED) and counted(item, version)]
        if chosen:
            first, second = (
                _per_item(chosen, plan, judged, "correct", k) for plan, judged in zip(plans, verdicts, strict=True)
            )
            result = compare_runs(first, second, clusters, resamples=resamples, seed=seed)
            shown = _interval(result.difference)
            if len({second[item] - first[item] for item in first}) == 1:
                shown |= {"low": None, "high": None, "method": "none"}
            found[name] = {"k": k, "items": len(chosen), **shown, "p_value": result.p_value, "exact": result.exact}
    return found


def _all_verdicts(folder: Path, plan: Plan) -> dict[Key, Row]:
    """The verdicts of a run that is at its end. Raises EvaluationError for another."""
    answers = _latest(folder / ANSWERS)
    verdicts = current(_latest(folder / VERDICTS), _latest(folder / EXECUTIONS))
    if unasked := [k for k in plan.keys if k not in answers]:
        raise EvaluationError(f"{folder}: {len(unasked)} of {len(plan.keys)} samples are not asked yet; go on with it")
    if unjudged := _open(plan, answers, verdicts)["unjudged"]:
        raise EvaluationError(
            f"{folder} is not fully judged: {unjudged} answers have no verdict; "
            f"first: trex eval execute {folder}; trex eval judge {folder}"
        )
    return verdicts


def _open(plan: Plan, answers: Mapping[Key, Row], verdicts: Mapping[Key, Row]) -> dict[str, int]:
    """Samples without an answer, answers without a verdict, and answers whose judging died."""
    answered = [k for k in plan.keys if rows.finished(answers.get(k, {}))]
    return {
        "unanswered": len(plan.keys) - len(answered),
        "unjudged": sum(k not in verdicts for k in answered),
        "judging_ended": sum(not rows.finished(row) for row in verdicts.values()),
    }


def _require_ks(ks: Iterable[int], plan: Plan) -> None:
    if wrong := [k for k in ks if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= plan.samples]:
        raise EvaluationError(f"k = {wrong[0]!r}; accepted: 1 to {plan.samples}, the samples of each item")


def _scores(
    items: Sequence[Item], plan: Plan, verdicts: Mapping[Key, Row], version: int, ks: Sequence[int], resamples: int,
    seed: int,
) -> dict[str, Any]:  # fmt: skip
    """pass@k of some items by every way of counting, and how many models are the reference's."""
    clusters = {item.id: item.cluster or item.id for item in items}
    scores: dict[str, Any] = {}
    for name, (field, drops) in SCORES.items():
        chosen = [item for item in items if not drops or counted(item, version)]
        scores[name] = {"items": len(chosen)}
        for k in ks if chosen else ():
            values = _per_item(chosen, plan, verdicts, field, k)
            scores[name][f"pass@{k}"] = _share(mean_interval(values, clusters, resamples=resamples, seed=seed), values)
    outcomes = _outcomes(items, plan, verdicts, "recorded")
    structures = Counter(
        str(verdicts.get((item.id, sample), {}).get("structure") or "no model")
        for item in items
        if item.reference
        for sample in range(plan.samples)
    )
    return {
        "items": len(items),
        "clusters": len(set(clusters.values())),
        "scores": scores,
        "any_of_k": {f"any of {k}": any_of_k(outcomes, [item.id for item in items], k).accuracy for k in ks if k > 1},
        "structures": dict(structures),
    }


def _macro(
    sets: Mapping[str, Sequence[Item]], plan: Plan, verdicts: Mapping[Key, Row], version: int, ks: Sequence[int],
    resamples: int, seed: int,
) -> dict[str, Any]:  # fmt: skip
    """The mean over sets, each with the same weight, and its interval over clusters that reach across sets."""
    scores: dict[str, Any] = {}
    for name, (field, drops) in SCORES.items():
        parts = [[item for item in part if not drops or counted(item, version)] for part in sets.values()]
        parts = [part for part in parts if part]
        total = sum(map(len, parts))
        scores[name] = {"items": total}
        clusters = {item.id: item.cluster or item.id for part in parts for item in part}
        for k in ks if total else ():
            values = [_per_item(part, plan, verdicts, field, k) for part in parts]
            weighted = {
                item: score * total / (len(parts) * len(part)) for part in values for item, score in part.items()
            }
            plain = {item: score for part in values for item, score in part.items()}
            scores[name][f"pass@{k}"] = _share(mean_interval(weighted, clusters, resamples=resamples, seed=seed), plain)
    return {"items": sum(map(len, sets.values())), "scores": scores}


def _outcomes(
    items: Iterable[Item], plan: Plan, verdicts: Mapping[Key, Row], field: str
) -> dict[str, Sequence[bool]]:  # fmt: skip
    return {
        item.id: [bool(verdicts.get((item.id, sample), {}).get(field)) for sample in range(plan.samples)]
        for item in items
    }


def _per_item(
    items: Sequence[Item], plan: Plan, verdicts: Mapping[Key, Row], field: str, k: int
) -> dict[str, float]:  # fmt: skip
    return pass_at_k_scores(_outcomes(items, plan, verdicts, field), [item.id for item in items], k)


def _failures(
    items: Iterable[Item], plan: Plan, verdicts: Mapping[Key, Row], answers: Mapping[Key, Row]
) -> dict[str, int]:  # fmt: skip
    """Samples by class of failure; what has no answer or no verdict is a class of its own."""
    found: Counter[str] = Counter()
    for item in items:
        for sample in range(plan.samples):
            verdict, answer = verdicts.get((item.id, sample)), answers.get((item.id, sample), {})
            if verdict is not None:
                found[str(verdict["failure"])] += not verdict["correct"]
            else:
                found[UNJUDGED if rows.finished(answer) else UNANSWERED] += 1
    return {name: count for name, count in found.most_common() if name and count}


def _disputed(items: Iterable[Item], version: int) -> list[dict[str, Any]]:
    """Items whose labels are disputed, with both values."""
    found = []
    for item in items:
        label = labels(item, version)
        if label.decision:
            values = {"recorded": label.recorded, "current": label.current}
            found.append({"item": item.id, **values, "decision": label.decision, "reason": label.reason})
    return found


def _interval(found: Interval) -> dict[str, Any]:
    names = ("estimate", "low", "high", "clusters", "method")
    return {name: getattr(found, name) for name in names}


def _share(found: Interval, scores: Mapping[str, float]) -> dict[str, Any]:
    """An interval of a share: weighted resamples may leave 0 to 1 by a little; Wilson's where all scores agree."""
    if len(set(scores.values())) == 1:
        share = next(iter(scores.values()))
        low, high = wilson(share, found.clusters, found.level)
        return {**_interval(found), "estimate": share, "low": low, "high": high, "method": "wilson"}
    return {**_interval(found), "low": max(0.0, found.low), "high": min(1.0, found.high)}


def wilson(share: float, trials: int, level: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval of a share of so many independent trials. (Wilson 1927.)"""
    z = NormalDist().inv_cdf((1.0 + level) / 2.0)
    spread = z * math.sqrt(share * (1.0 - share) / trials + z * z / (4.0 * trials * trials))
    middle, scale = share + z * z / (2.0 * trials), 1.0 + z * z / trials
    return max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)


def _label_version(folder: Path) -> int:
    """The version that the verdicts were given by; the newest where there are none."""
    path = folder / SETTINGS
    return int(rows.read_json(path.read_bytes(), str(path))["label_version"]) if path.exists() else latest()


def _latest(path: Path) -> dict[Key, Row]:
    return rows.latest(rows.read(path))


__all__ = ["compare_folders", "comparison_text", "failed_answers", "failures_text", "summarise", "text"]
