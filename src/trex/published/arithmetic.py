"""Two checks on published numbers: a score is a count over a set size; a number of calls is layers × micro-batches."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trex.published.tables import PublishedError, Row, load


@dataclass(frozen=True)
class Score:
    """A published score in percent, with the counts k for which 100 k / n rounds to it: none if impossible."""

    model: str
    benchmark: str
    metric: str
    value: float
    n: int
    counts: tuple[int, ...]
    below: float  # the nearest fractions of n, in percent
    above: float

    @property
    def slip(self) -> bool:
        """Whether an impossible score is a fraction truncated, or rounded the wrong way, at the second decimal."""
        return not self.counts and min(self.value - self.below, self.above - self.value) < 0.01


def counts(score: float, n: int) -> tuple[int, ...]:
    """All k in 0…n for which 100 k / n rounds to `score` at two decimals, a half either way."""
    hundredths = round(score * 100)
    # |100 k / n − score| ≤ 0.005, in integers
    return tuple(k for k in range(n + 1) if abs(20_000 * k - 2 * hundredths * n) <= n)


def scores() -> Iterator[Score]:
    """Every published score of a benchmark whose set is released, judged against the size of that set."""
    for row in load("or_scores"):
        for benchmark in load("benchmark_sets"):
            if benchmark.id in row.missing:
                continue
            value, n = row[benchmark.id].value, int(benchmark["rows"].value)
            k = next(k for k in range(n + 1) if 100 * k / n > value - 1e-9)
            metric = row.attributes["metric"]
            yield Score(
                row.name, benchmark.name, str(metric), value, n, counts(value, n), 100 * (k - 1) / n, 100 * k / n
            )


def stage_layers(layout: Row, ratios: Sequence[int], mtp_ratios: Sequence[int] = (0,)) -> list[list[int]]:
    """Compression ratios of the attention layers on each pipeline stage of a published layout.

    ratios: one per layer, in order; they fill the layer slots that are not no-op. Virtual stage v of stage p holds the
    slots (v · pipeline + p) · slots_per_stage onwards; the MTP blocks follow on the last stage.
    Raises PublishedError where the layers do not fill the slots.
    """
    noop = layout.attributes.get("noop_slots", ())
    stages, per_stage = int(layout["pipeline"].value), int(layout["slots_per_stage"].value)
    used = [slot for slot in range(int(layout["layer_slots"].value)) if slot not in noop]
    if len(used) != len(ratios):
        raise PublishedError(f"layout {layout.id!r} has {len(used)} layer slots in use for {len(ratios)} layers")
    placed: list[list[int]] = [[] for _ in range(stages)]
    for slot, ratio in zip(used, ratios, strict=True):
        placed[slot // per_stage % stages].append(ratio)
    placed[-1].extend(mtp_ratios)
    return placed
