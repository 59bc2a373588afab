"""What a run's verdicts amount to: pass@k with intervals, both labels, both tolerances, and failures.

Denominators are fixed by the plan: a sample that has no answer, no program or no verdict counts as wrong.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from trex.eval import rows
from trex.eval.execute import EXECUTIONS
from trex.eval.intervals import RESAMPLES, Interval, compare_runs, mean_interval
from trex.eval.items import Item
from trex.eval.judge import counted
from trex.eval.judging import SETTINGS, VERDICTS
from trex.eval.labels import labels, latest
from trex.eval.plan import ANSWERS, Plan
from trex.eval.rows import EvaluationError, Key, Row
from trex.eval.runs import kept_items
from trex.eval.scores import any_of_k, pass_at_k_scores

# name of a score: the verdict's field that it counts, and whether items that current labels drop are left out
SCORES = {"current": ("correct", True), "recorded": ("recorded", False), "as published": ("as_published", False)}
UNANSWERED, UNJUDGED = "no answer", "not judged"
MACRO, POOLED = "mean of sets", "all items"


def summarise(folder: Path, ks: Sequence[int] = (), resamples: int = RESAMPLES, seed: int = 0) -> dict[str, Any]:
    """Everything that a run's report says, as what JSON can hold.

    ks: of pass@k beside 1; the number of samples by default. Raises EvaluationError where the folder is no run or a k
    is above the number of samples.
    """
    plan, items = Plan.read(folder), kept_items(folder)
    chosen = sorted({1, *(ks or (plan.samples,))})
    if wrong := [k for k in chosen if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= plan.samples]:
        raise EvaluationError(f"k = {wrong[0]!r}; accepted: 1 to {plan.samples}, the samples of each item")
    version = _label_version(folder)
    verdicts, answers = _latest(folder / VERDICTS), _latest(folder / ANSWERS)
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
        "executed": len(_latest(folder / EXECUTIONS)), "judged": len(verdicts),
        "isolation": dict(Counter(str(row["isolation"]) for row in verdicts.values() if row["isolation"])),
        "label_version": version, "labels": _disputed(items, version), "sets": found,
    }  # fmt: skip


def compare_folders(a: Path, b: Path, resamples: int = RESAMPLES, seed: int = 0) -> dict[str, Any]:
    """pass@1 of run b less that of run a on the same items, with interval and p-value, per set and over all.

    Raises EvaluationError where the runs did not ask the same items.
    """
    plans = [Plan.read(folder) for folder in (a, b)]
    if plans[0].items_sha256 != plans[1].items_sha256:
        raise EvaluationError(f"{a} and {b} asked different items; accepted: two runs of the same items")
    items, version = kept_items(a), _label_version(a)
    if version != _label_version(b):
        raise EvaluationError(f"{a} and {b} were judged by different labels; judge one of them again")
    clusters = {item.id: item.cluster or item.id for item in items}
    found = {}
    for name in (*plans[0].sets, *([POOLED] if len(plans[0].sets) > 1 else [])):
        chosen = [item for item in items if name in (item.set, POOLED) and counted(item, version)]
        if chosen:
            first, second = (
                _per_item(chosen, plan, _latest(folder / VERDICTS), "correct", 1)
                for folder, plan in zip((a, b), plans, strict=True)
            )
            result = compare_runs(first, second, clusters, resamples=resamples, seed=seed)
            found[name] = {**_interval(result.difference), "p_value": result.p_value, "exact": result.exact}
    return found


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
            scores[name][f"pass@{k}"] = _share(mean_interval(values, clusters, resamples=resamples, seed=seed))
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
            weighted = {
                item: score * total / (len(parts) * len(part))
                for part in parts
                for item, score in _per_item(part, plan, verdicts, field, k).items()
            }
            scores[name][f"pass@{k}"] = _share(mean_interval(weighted, clusters, resamples=resamples, seed=seed))
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
    return {"estimate": found.estimate, "low": found.low, "high": found.high, "clusters": found.clusters}


def _share(found: Interval) -> dict[str, Any]:
    """An interval of a share: weighted resamples may leave 0 to 1 by a little."""
    return {**_interval(found), "low": max(0.0, found.low), "high": min(1.0, found.high)}


def _label_version(folder: Path) -> int:
    """The version that the verdicts were given by; the newest where there are none."""
    path = folder / SETTINGS
    return int(rows.read_json(path.read_bytes(), str(path))["label_version"]) if path.exists() else latest()


def _latest(path: Path) -> dict[Key, Row]:
    return rows.latest(rows.read(path))


def text(found: Mapping[str, Any]) -> str:
    """A run's summary in lines for a reader."""
    ks = [name for name in next(iter(found["sets"].values()))["scores"]["recorded"] if name.startswith("pass@")]
    lines = [
        f"{found['model']}, {found['interface']}, {found['shots']} examples, {found['samples']} samples per item, "
        f"labels of version {found['label_version']}",
        f"asked {found['asked']}, answered {found['answered']}, executed {found['executed']}, judged {found['judged']}",
        f"isolation: {', '.join(f'{name} {count}' for name, count in found['isolation'].items()) or 'nothing ran'}",
        "",
        f"{'set':<14}{'counted by':<14}{'items':>6}{'':2}" + "".join(f"{k + ' [95 %]':<24}" for k in ks),
    ]
    for name, part in found["sets"].items():
        for number, (score, values) in enumerate(part["scores"].items()):
            shown = "".join(f"{_percent(values[k]) if k in values else '-':<24}" for k in ks)
            lines.append(f"{name if not number else '':<14}{score:<14}{values['items']:>6}  {shown}".rstrip())
    for name, part in found["sets"].items():
        if part.get("failures") and name != POOLED:
            lines += ["", f"failures, {name}:"]
            lines += [f"  {count:>5}  {failure}" for failure, count in part["failures"].items()]
    if found["labels"]:
        lines += ["", "disputed labels (recorded -> current):"]
        lines += [f"  {d['item']}: {d['recorded']} -> {d['current']} ({d['decision']})" for d in found["labels"]]
    return "\n".join(lines)


def comparison_text(found: Mapping[str, Any]) -> str:
    """A comparison in lines for a reader."""
    return "\n".join(
        f"{name:<14}pass@1 {100 * part['estimate']:+.1f} points [{100 * part['low']:+.1f}, {100 * part['high']:+.1f}], "
        f"p = {part['p_value']:.3g}"
        for name, part in found.items()
    )


def _percent(value: Mapping[str, float]) -> str:
    return f"{100 * value['estimate']:.2f} [{100 * value['low']:.1f}, {100 * value['high']:.1f}]"
