"""A check on published scores: each is a count over the size of its set, or cannot be."""

from collections.abc import Iterator
from dataclasses import dataclass

from trex.published.tables import load


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
