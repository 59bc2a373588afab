"""A run's summary, its failed answers, and a comparison of two runs, in lines for a reader."""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

MACRO, POOLED = "mean of sets", "all items"
WIDTH = 118
BASES = {"values": "by value", "models": "by models"}
NOW = {  # what a version of the labels decides, in words
    "dropped": "left out now",
    "reference": "the reference model is wrong, the value counts",
    "open": "not settled, the recorded one counts",
}


def text(found: Mapping[str, Any]) -> str:
    """A run's summary, as `trex.eval.summary.summarise` gives it."""
    ks = [name for name in next(iter(found["sets"].values()))["scores"]["recorded"] if name.startswith("pass@")]
    lines = [
        f"{found['model']}, {found['interface']}, {found['shots']} examples, {found['samples']} samples per item, "
        f"labels of version {found['label_version']}",
        f"asked {found['asked']}, answered {found['answered']}, executed {found['executed']}, judged {found['judged']}",
        *_open(found),
        f"isolation: {', '.join(f'{name} {count}' for name, count in found['isolation'].items()) or 'nothing ran'}",
        "",
        f"{'set':<14}{'counted by':<14}{'items':>6}{'':2}" + "".join(f"{k + ' [95 %]':<24}" for k in ks).rstrip(),
    ]
    intervals = []
    for name, part in found["sets"].items():
        for number, (score, values) in enumerate(part["scores"].items()):
            shown = "".join(f"{_percent(values[k]) if k in values else '-':<24}" for k in ks)
            lines.append(f"{name if not number else '':<14}{score:<14}{values['items']:>6}  {shown}".rstrip())
            intervals += [values[k]["method"] for k in ks if k in values]
    if "wilson" in intervals:
        lines.append("* all items score the same, so that resampling tells nothing: Wilson's interval over clusters")
    parts = {name: part for name, part in found["sets"].items() if name not in (MACRO, POOLED)}
    lines += _block("an oracle's choice among the first k, recorded labels:", {
        name: [f"{k} {100 * share:.2f}" for k, share in part["any_of_k"].items()] for name, part in parts.items()
    })  # fmt: skip
    lines += _block("models beside the reference:", {
        name: [f"{kind} {count}" for kind, count in sorted(part["structures"].items())] for name, part in parts.items()
    })  # fmt: skip
    for name, part in found["sets"].items():
        if part.get("failures") and name != POOLED:
            lines += ["", f"failures, {name}:"]
            lines += [f"  {count:>5}  {failure}" for failure, count in part["failures"].items()]
    return "\n".join([*lines, *_labels(found["labels"])])


def failures_text(failed: Sequence[Mapping[str, Any]]) -> str:
    """Failed answers, as `trex.eval.summary.failed_answers` gives them."""
    lines = []
    for row in failed:
        basis = f" ({BASES[row['basis']]})" if row["basis"] in BASES else ""
        lines.append(f"{row['item']}, sample {row['sample']}: {row['failure']}{basis}")
        lines += _wrapped(row["evidence"] or "no evidence", "    ")
    return "\n".join(lines) or "no answer that is judged is wrong"


def comparison_text(found: Mapping[str, Any], a: str = "a", b: str = "b") -> str:
    """A comparison of two runs, as `trex.eval.summary.compare_folders` gives it."""
    lines = [f"{b} less {a}, item by item:"]
    for name, part in found.items():
        points, low, high = (value and 100 * value for value in (part["estimate"], part["low"], part["high"]))
        interval = "no interval, all items differ by the same" if low is None else f"[{low:+.1f}, {high:+.1f}]"
        lines.append(
            f"{name:<14}{part['items']:>6} items, pass@{part['k']} {points:+.1f} points {interval}, "
            f"p = {part['p_value']:.3g}"
        )
    return "\n".join(lines)


def _open(found: Mapping[str, Any]) -> Iterable[str]:
    """What a run lacks still."""
    if found["unanswered"]:
        yield f"{found['unanswered']} samples have no answer and count as wrong; the same trex eval run asks again"
    if found["unjudged"]:
        yield (
            f"NOT FULLY JUDGED: {found['unjudged']} answers have no verdict and count as wrong; go on with "
            "trex eval execute, then judge"
        )
    if found["judging_ended"]:
        yield f"judging {found['judging_ended']} answers ended its process; they count as wrong, judge tries them again"


def _block(title: str, parts: Mapping[str, Sequence[str]]) -> list[str]:
    lines = [f"  {name:<14}{', '.join(found)}" for name, found in parts.items() if found]
    return ["", title, *lines] if lines else []


def _labels(disputed: Sequence[Mapping[str, Any]]) -> list[str]:
    """Disputed labels: those that are others now with the reason, those that stand in one list."""
    lines: list[str] = []
    stands = [row["item"] for row in disputed if row["decision"] == "confirmed"]
    if others := [row for row in disputed if row["decision"] != "confirmed"]:
        lines += ["", "labels that are disputed:"]
        for row in others:
            now = NOW.get(row["decision"], f"{row['current']} now")
            lines += _wrapped(f"{row['item']}: {row['recorded']} as recorded, {now}. {row['reason']}", "  ")
    if stands:
        lines += ["", *_wrapped(f"disputed, but right as recorded: {', '.join(stands)}", "")]
    return lines


def _wrapped(line: str, indent: str) -> list[str]:
    return textwrap.wrap(line, WIDTH, initial_indent=indent, subsequent_indent=f"{indent}  ", break_long_words=False)


def _percent(value: Mapping[str, Any]) -> str:
    mark = "*" if value["method"] == "wilson" else ""
    return f"{100 * value['estimate']:.2f} [{100 * value['low']:.1f}, {100 * value['high']:.1f}]{mark}"
