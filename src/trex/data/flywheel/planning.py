"""What a run would take, before anything is asked: attempts per bucket, requests, tokens and money.

Tokens are modelled: 4 characters each, for texts of the size of the embedded author's; the most is what a budget would
have to allow for.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import mean
from typing import Any

from trex.data.audit.rows import Row
from trex.data.flywheel import prompts
from trex.data.flywheel.asked_jobs import Author, begun
from trex.data.flywheel.bucket import CLEAN_COT, REPAIR, Bucket, Wanted
from trex.data.flywheel.embedded import Attempt, Parent, write
from trex.data.flywheel.ledger import Priced
from trex.data.flywheel.rounds import Rounds

CHARACTERS = 4.0  # of a token, modelled
REVIEW_TOKENS = 150  # of a reviewer's reply


@dataclass(frozen=True)
class Cost:
    """Requests, tokens and money of a run, as expected where every reply can be used, and at most."""

    requests: int
    input_tokens: int
    output_tokens: int
    money: float
    most_requests: int


@dataclass(frozen=True)
class Forecast:
    """Attempts of the rounds as planned, per bucket, and what they cost."""

    attempts: dict[Bucket, int]
    rounds: int
    cost: Cost

    def row(self) -> dict[str, Any]:
        """As JSON holds it."""
        buckets = [{**asdict(bucket), "attempts": count} for bucket, count in self.attempts.items()]
        total = sum(self.attempts.values())
        return {"attempts": total, "rounds": self.rounds, "cost": asdict(self.cost), "buckets": buckets}


def forecast(
    wanted: Wanted, rounds: Rounds, endpoints: Sequence[Priced] = (), author: Author | None = None,
    seeds: Sequence[Row] = (),
) -> Forecast:  # fmt: skip
    """The plan of a run. Without endpoints it is the embedded author's, which asks nobody.

    seeds: rows that are to be made representations of first, a request each.
    """
    attempts = Counter[Bucket]()
    for bucket, count in wanted.quotas().items():
        attempts[bucket] = math.ceil(count * rounds.oversampling)
    cost = Cost(0, 0, 0, 0.0, 0) if author is None else _cost(attempts, endpoints, author, seeds)
    return Forecast(dict(attempts), rounds.count, cost)


def text(found: Forecast, author: str) -> str:
    """The plan in lines: attempts by mode and difficulty for each task and style; then what they cost."""
    groups: Counter[tuple[str, str]] = Counter()
    cells: Counter[tuple[str, str, str]] = Counter()
    for bucket, count in found.attempts.items():
        groups[bucket.task, bucket.style] += count
        cells[bucket.task, bucket.style, f"{bucket.mode} {bucket.difficulty}"] += count
    columns = sorted({column for _, _, column in cells})
    lines = [f"{'task':<24}{'style':<11}{'all':>8}" + "".join(f"{column:>7}" for column in columns)]
    for (task, style), count in sorted(groups.items()):
        row = "".join(f"{cells[task, style, column]:>7,}" for column in columns)
        lines.append(f"{task:<24}{style:<11}{count:>8,}{row}")
    structures = Counter[str]()
    for bucket, count in found.attempts.items():
        structures[bucket.structure] += count
    lines.append(
        f"{sum(found.attempts.values()):,} attempts in {found.rounds} rounds over {len(found.attempts):,} buckets, "
        f"{len(structures)} structures with {min(structures.values()):,} to {max(structures.values()):,} each; more "
        "follow for what the gates refuse"
    )
    cost = found.cost
    if not cost.requests:
        lines.append(f"author {author}: no requests, no tokens, no cost")
    else:
        lines.append(
            f"author {author}: {cost.requests:,} requests ({cost.most_requests:,} at most), about "
            f"{cost.input_tokens:,} input and {cost.output_tokens:,} output tokens, {cost.money:,.2f} in the unit of "
            f"the prices (modelled: {CHARACTERS:g} characters a token)"
        )
    return "\n".join(lines)


def _cost(attempts: Counter[Bucket], endpoints: Sequence[Priced], author: Author, seeds: Sequence[Row]) -> Cost:
    sizes: dict[int, tuple[float, float]] = {}
    chats = [prompts.seed(row.problem, row.answer or row.label or "", row.files) for row in seeds if not row.fault]
    requests, most = len(chats), len(chats) * (1 + author.repairs)
    read = sum(len(message["content"]) for chat in chats for message in chat) / CHARACTERS
    written = len(chats) * _sizes(2)[1] if chats else 0.0  # a representation of middling size
    for bucket, count in attempts.items():
        clean = bucket.style == CLEAN_COT and author.reviewed
        steps = 4 + (bucket.task == REPAIR) + 2 * clean
        if bucket.difficulty not in sizes:
            sizes[bucket.difficulty] = _sizes(bucket.difficulty)
        into, out = sizes[bucket.difficulty]
        requests += count * steps
        most += count * ((steps - clean) * (1 + author.repairs) + clean)
        read += count * steps * into
        written += count * ((steps - clean) * out + clean * REVIEW_TOKENS)
    prices = [(priced.input_price, priced.output_price) for priced in endpoints]
    money = sum(read * a + written * b for a, b in prices) / len(prices) / 1e6 if prices else 0.0
    return Cost(requests, round(read), round(written), money, most)


def _sizes(difficulty: int) -> tuple[float, float]:
    """Tokens of an average request and of an average reply at a difficulty, from the embedded author's texts."""
    into, out = [], []
    for family in ("knapsack", "transportation", "production_planning", "blending"):
        bucket = Bucket("DP", family, difficulty, "formulate-and-implement", "explained")
        parent = Parent("seed", "seed", bucket, "")
        row = write(Attempt("plan", bucket, 0, parent))
        found, problem = begun(parent)
        chats = (
            prompts.synthesis(found, problem, bucket), prompts.problem(found, "DP"),
            prompts.program(found, problem, "DP"), prompts.second(problem),
        )  # fmt: skip
        into += [sum(len(message["content"]) for message in chat) / CHARACTERS for chat in chats]
        out += [len(part) / CHARACTERS for part in (found.line, row.problem, row.program, row.program)]
    return mean(into), mean(out)
