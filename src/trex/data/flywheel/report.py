"""What a run has made: the funnel of its gates, counts per bucket and what is missing, as JSON, lines and a card."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from trex.data.flywheel.bucket import Bucket, Wanted
from trex.data.flywheel.judging import GATES
from trex.data.flywheel.making import Made

KEYS = ("task", "style", "mode", "difficulty", "structure", "domain")
SHOWN = 10


class Summary:
    """Counts of a run."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._attempts = 0
        self._rounds: Counter[int] = Counter()
        self._gates: Counter[str] = Counter()
        self._reasons: Counter[str] = Counter()
        self._changes: Counter[str] = Counter()
        self._generations: Counter[int] = Counter()
        self._buckets: list[Bucket] = []
        self._surplus = 0
        self._lineages: set[str] = set()

    def count(self, number: int, found: Made) -> None:
        """One attempt of a round."""
        self._attempts += 1
        self._rounds[number] += 1
        if found.gate:
            self._gates[found.gate] += 1
            self._reasons[f"{found.gate}: {found.reason[:80]}"] += 1
            return
        row = found.row
        origin = row.representation.origin
        kinds = sorted({change.kind for change in origin.changes}) if origin else []
        self._changes[" and ".join(kinds) or ("none" if origin else "the author's own")] += 1
        self._generations[row.generation] += 1
        self._lineages.add(row.lineage)

    def filled(self, buckets: Sequence[Bucket], surplus: int) -> None:
        """The buckets of the slots that are filled, and how many dialogues are left over."""
        self._buckets, self._surplus = list(buckets), surplus

    @property
    def missing(self) -> int:
        """Slots that are open."""
        return self._wanted.count - len(self._buckets)

    def short(self) -> str:
        """The refusals in a few words, for a progress bar."""
        return " ".join(f"{gate}:{count}" for gate, count in self._gates.most_common(4))

    def funnel(self) -> dict[str, dict[str, int]]:
        """Per gate, in order: attempts that reached it and attempts that it refused."""
        left, found = self._attempts, {}
        for gate in GATES:
            found[gate] = {"reached": left, "refused": self._gates[gate]}
            left -= self._gates[gate]
        return found

    def row(self) -> dict[str, Any]:
        """All of it, as JSON holds it."""
        missing = Counter(self._wanted.quotas())
        missing.subtract(Counter(self._buckets))
        return {
            "wanted": self._wanted.count,
            "dialogues": len(self._buckets),
            "surplus": self._surplus,
            "attempts": self._attempts,
            "rounds": {str(number): count for number, count in sorted(self._rounds.items())},
            "lineages": len(self._lineages),
            "generations": {str(number): count for number, count in sorted(self._generations.items())},
            "changes": dict(self._changes.most_common()),
            "gates": self.funnel(),
            "reasons": dict(self._reasons.most_common(SHOWN)),
            "by": {key: _counts(self._buckets, key) for key in KEYS},
            "missing": [{**vars(bucket), "count": count} for bucket, count in missing.items() if count > 0],
        }


def text(row: Mapping[str, Any]) -> str:
    """The summary in lines."""
    lines = [
        f"{row['dialogues']:,} of {row['wanted']:,} dialogues in {row['attempts']:,} attempts, "
        f"{row['surplus']:,} left over; {row['lineages']:,} lineages",
        "gate              reached   refused",
    ]
    lines += [
        f"  {gate:14s} {part['reached']:8,} {part['refused']:9,}"
        for gate, part in row["gates"].items()
        if part["refused"]
    ]
    lines += [f"  {count:6,}  {reason}" for reason, count in row["reasons"].items()]
    for key in KEYS[:-2]:
        lines.append(f"{key:12s} " + ", ".join(f"{value} {count:,}" for value, count in row["by"][key].items()))
    lines.append("changes      " + ", ".join(f"{kind} {count:,}" for kind, count in row["changes"].items()))
    if row["missing"]:
        lines.append(f"missing      {sum(part['count'] for part in row['missing']):,} in {len(row['missing'])} buckets")
    return "\n".join(lines)


def card(settings: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """The page of a folder."""
    gates = "\n".join(f"| {gate} | {part['reached']:,} | {part['refused']:,} |" for gate, part in row["gates"].items())
    kinds = "\n".join(
        f"| {key} | {', '.join(f'{value} ({count:,})' for value, count in row['by'][key].items())} |" for key in KEYS
    )
    return f"""# Dialogues on operations research

{row["dialogues"]:,} dialogues of the author `{settings["author"]}`, seed {settings["wanted"]["seed"]}, from
{row["lineages"]:,} lineages. dialogues.jsonl has one per line with its problem, program, representation, parent and the
evidence of every gate; candidates.jsonl has every attempt, also those that a gate refused, with the reason.
`trex data dialogues` exports them.

| gate | reached | refused |
|---|---:|---:|
{gates}

| kind | dialogues |
|---|---|
{kinds}

The four task categories are ours: the T-Rex report names four and lists none.
"""


def _counts(buckets: Sequence[Bucket], key: str) -> dict[str, int]:
    counted = Counter(str(getattr(bucket, key)) for bucket in buckets)
    return dict(sorted(counted.items()))
