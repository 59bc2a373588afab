"""One collective: the bytes that a rank sends. One step: what is trained, as far as the sizes sent follow from it.

    operation        payload                              what one rank sends of it, n ranks
    all-gather       its own part, as it gives it         n - 1 times
    reduce-scatter   its whole input                      (n - 1) / n
    all-reduce       its tensor                           2·(n - 1) / n, a reduce-scatter and an all-gather
    all-to-all       its rows for the other ranks         once
    send             the tensor                           once
    receive          the tensor                           nothing

Each is the least that any algorithm can send on average over ranks, and what a ring sends. Source: NVIDIA's nccl-tests,
PERFORMANCE.md ("bus bandwidth"), whose all-gather and reduce-scatter count the whole tensor, n times the part.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from trex.model.attention import INDEXER_MODES
from trex.model.config import SPARSE, ModelConfig
from trex.model.layout import Layout, LayoutError

OPERATIONS = ("all-gather", "reduce-scatter", "all-reduce", "all-to-all", "send", "receive")


def sent(operation: str, payload: int | Fraction, ranks: int) -> Fraction:
    """Bytes that one rank sends, mean over the ranks; see the module. Raises ValueError for another operation."""
    if operation not in OPERATIONS:
        raise ValueError(f"operation {operation!r}; accepted: {', '.join(OPERATIONS)}")
    part = Fraction(ranks - 1, ranks)
    factor = {"all-gather": Fraction(ranks - 1), "reduce-scatter": part, "all-reduce": 2 * part, "receive": Fraction(0)}
    return factor.get(operation, Fraction(1)) * payload


@dataclass(frozen=True)
class Count:
    """Calls of an operation, and the bytes of their payloads together; a Fraction where it is an expectation."""

    calls: int = 0
    payload: int | Fraction = 0

    def __add__(self, other: "Count") -> "Count":
        return Count(self.calls + other.calls, self.payload + other.payload)


@dataclass(frozen=True)
class Transfer:
    """What one rank gives to an operation over an axis, for one part of the step."""

    part: str  # file of `trex.parallel` and what it is for, as in "tensor: attention"
    operation: str  # one of OPERATIONS
    axis: str  # tp, pp, dp, experts, expert_dp, shard, expert_shard, replica, ends or world, as in `parallel.Meshes`
    calls: int
    payload: int | Fraction  # bytes of all calls


@dataclass(frozen=True)
class Rows:
    """Rows of routed experts that a rank has for other ranks, and gets from them, in one layer and micro-batch."""

    sent: int | Fraction
    received: int | Fraction

    @classmethod
    def routed(cls, counts: Sequence[Sequence[int]], rank: int, layout: Layout) -> "Rows":
        """Of rank `rank` of the ep x etp ranks. counts: for each of them, its tokens' choices of each expert."""
        each, sent, received = len(counts[0]) // layout.ep, 0, 0
        for source, chosen in enumerate(counts):
            for expert, number in enumerate(chosen):
                first = expert // each * layout.etp
                for holder in range(first, first + layout.etp):
                    if holder != source:
                        sent += number if source == rank else 0
                        received += number if holder == rank else 0
        return cls(sent, received)

    @classmethod
    def balanced(cls, choices: int, layout: Layout) -> "Rows":
        """All experts chosen equally often. choices: of a rank's tokens, each so many times as it has experts."""
        rows = Fraction(choices * (layout.ep * layout.etp - 1), layout.ep)
        return cls(rows, rows)


@dataclass(frozen=True)
class Pack:
    """What of a micro-batch's documents decides sizes."""

    documents: int  # runs of equal document ids in all rows, padding among them
    entries: int  # complete blocks of 4 tokens in the row that has most
    most: int  # of them, those that one token sees


@dataclass(frozen=True)
class Work:
    """What a replica trains in one step, as far as sizes follow from it.

    Numbers that are no integers have one size: a model in float32 or float64, without autocast. routing: for each
    block, as in "layers.3" or "mtp.0", and micro-batch; without it, all experts are chosen equally often. packs: of
    each micro-batch; without it, every row is one document. Raises LayoutError, naming the value and what is accepted.
    """

    seq_len: int  # tokens
    rows: int  # of a micro-batch
    micro_batches: int
    size: int = 4  # bytes of a number
    mtp: bool = True  # whether the MTP loss is trained
    indexer: str = "sparse"  # see `Attention`; unless frozen its loss is computed
    recompute: bool = False
    packs: tuple[Pack, ...] | None = None
    routing: Mapping[tuple[str, int], Rows] | None = field(default=None, hash=False)
    indexer_loss: bool = True  # whether the indexer's loss has a weight

    def __post_init__(self) -> None:
        for name in ("seq_len", "rows", "micro_batches", "size"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise LayoutError(f"{name} = {value!r}; accepted: integers from 1")
        if self.indexer not in INDEXER_MODES:
            raise LayoutError(f"indexer = {self.indexer!r}; accepted: {', '.join(INDEXER_MODES)}")
        if self.packs is not None and len(self.packs) != self.micro_batches:
            raise LayoutError(f"packs of {len(self.packs)} micro-batches; accepted: {self.micro_batches}")

    @property
    def trains_indexer(self) -> bool:
        """Whether the indexers have gradients."""
        return self.indexer != "frozen" and self.indexer_loss

    def pack(self, micro_batch: int) -> Pack:
        """Of a micro-batch."""
        blocks = self.seq_len // SPARSE
        return Pack(self.rows, blocks, blocks) if self.packs is None else self.packs[micro_batch]

    def routed(self, config: ModelConfig, layout: Layout, block: str, micro_batch: int) -> Rows:
        """Of a block in a micro-batch."""
        if self.routing is not None:
            if (block, micro_batch) not in self.routing:
                raise LayoutError(f"routing has nothing of {block} in micro-batch {micro_batch}; accepted: all or None")
            return self.routing[block, micro_batch]
        return Rows.balanced(self.rows * self.seq_len // layout.tp * config.experts_per_token, layout)
