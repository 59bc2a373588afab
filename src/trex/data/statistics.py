"""What a folder of documents holds: funnel of the gates, counts, sizes, and how varied its texts are."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from trex.data import families
from trex.data.documents import Document, read_jsonl
from trex.data.engine import DOCUMENTS, REFUSALS, refusal_rows
from trex.data.gates import GATES, OF_COLLECTION
from trex.data.near_duplicates import grams, words
from trex.data.problem import DataError

SIZES = (1, 2, 3, 4)  # words of a run
SAMPLE = 1000  # texts over which runs of words are counted, spread evenly


@dataclass(frozen=True)
class Statistics:
    """Counts over a folder."""

    documents: int
    characters: int  # of whole texts
    funnel: dict[str, tuple[int, int]]  # gate -> instances that reached it, instances that it refused
    by: dict[str, dict[str, int]]  # family, area, domain, mode, difficulty, unique, shown -> value -> documents
    variables: dict[int, float]  # difficulty -> median of variables
    reasons: dict[str, int]  # the most frequent reasons of refusals, with their gate
    distinct: dict[int, float]  # words of a run -> share of different runs among all, over SAMPLE problem texts
    longest_solution: int  # variables that are not zero


def statistics(folder: Path) -> Statistics:
    """Read a folder once. Raises DataError where it holds no documents."""
    path = folder / DOCUMENTS
    if not path.is_file():
        raise DataError(f"{path} does not exist; accepted: a folder that `trex data generate` made")
    by: dict[str, Counter[str]] = {
        key: Counter() for key in ("family", "area", "domain", "mode", "difficulty", "unique", "shown")
    }
    variables: dict[int, list[int]] = {}
    characters = count = longest = 0
    passed = Counter[str]()
    for document in read_jsonl(path):
        count += 1
        characters += len(document.text)
        longest = max(longest, len(document.values))
        try:
            passed.update([*document.provenance["gates"], *OF_COLLECTION])
            for key, value in _kinds(document).items():
                by[key][value] += 1
            variables.setdefault(document.provenance["difficulty"], []).append(document.provenance["variables"])
        except (KeyError, TypeError) as error:
            raise DataError(f"{path}, row {count}: its provenance is not what a document has: {error!r:.80}") from None
    refused, reasons = Counter[str](), Counter[str]()
    for row in refusals(folder):
        refused[row["gate"]] += 1
        reasons[f"{row['gate']}: {row['reason'][:60]}"] += 1
    every = max(1, count // SAMPLE)
    texts = (document.problem for number, document in enumerate(read_jsonl(path)) if number % every == 0)
    return Statistics(
        count, characters, funnel(passed, refused), {key: dict(sorted(found.items())) for key, found in by.items()},
        {level: float(median(found)) for level, found in sorted(variables.items())}, dict(reasons.most_common(10)),
        distinct(texts), longest,
    )  # fmt: skip


def funnel(passed: Mapping[str, int], refused: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """Per gate, in their order: how many instances reached it and how many it refused.

    passed: documents for which a gate was asked. Of an instance that a later gate refused it is not known whether this
    one had been: it counts as having passed.
    """
    later, found = 0, {}
    for gate in reversed(GATES):
        later += refused.get(gate, 0)
        found[gate] = (passed.get(gate, 0) + later, refused.get(gate, 0))
    return dict(reversed(found.items()))


def distinct(texts: Iterable[str]) -> dict[int, float]:
    """Share of different runs of n words among all such runs (distinct-n: Li et al., 2016)."""
    seen: dict[int, set[int]] = {size: set() for size in SIZES}
    total: Counter[int] = Counter()
    for text in texts:
        tokens = words(text)
        for size in SIZES:
            seen[size] |= grams(tokens, size)
            total[size] += max(1, len(tokens) - size + 1)
    return {size: len(seen[size]) / total[size] if total[size] else 0.0 for size in SIZES}


def refusals(folder: Path) -> Iterator[dict[str, Any]]:
    """The refused instances of a folder: document, attempt, origin, gate, reason, data. Raises as `refusal_rows`."""
    yield from (row for _, row in refusal_rows(folder / REFUSALS))


def text(found: Statistics) -> str:
    """The statistics as lines to print."""
    lines = [f"documents   {found.documents:,}, {found.characters:,} characters"]
    lines += ["gate                 reached   refused"]
    lines += [f"  {gate:18s} {reached:8,} {refused:9,}" for gate, (reached, refused) in found.funnel.items()]
    if found.reasons:
        lines += ["refused for", *(f"  {count:6,}  {reason}" for reason, count in found.reasons.items())]
    for key in ("mode", "difficulty", "unique", "shown", "area"):
        lines.append(f"{key:11s} " + ", ".join(f"{value} {count:,}" for value, count in found.by[key].items()))
    lines.append(f"families    {len(found.by['family'])}; domains {len(found.by['domain'])}")
    lines.append("variables   " + ", ".join(f"difficulty {k}: median {v:g}" for k, v in found.variables.items()))
    lines.append("distinct    " + ", ".join(f"{size}-grams {share:.3f}" for size, share in found.distinct.items()))
    return "\n".join(lines)


def _kinds(document: Document) -> dict[str, str]:
    return {
        "family": document.family, "area": families.get(document.family).area, "domain": document.domain,
        "mode": document.mode, "difficulty": str(document.provenance["difficulty"]), "unique": document.unique,
        "shown": document.shown,
    }  # fmt: skip
