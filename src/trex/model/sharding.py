"""What follows from a weight's shape and name: which dimension is sharded, whose gradient is partial."""

from collections.abc import Sequence

from trex.model.layout import Layout

BUCKET = 2**25  # numbers that are summed in one all-reduce


def shard_dim(shape: tuple[int, ...], ranks: int) -> int | None:
    """The dimension of a weight that is sharded; None where every one would leave a rank with nothing.

    FSDP2 pads the first dimension, so there it need not divide evenly.
    """
    if shape and -(-shape[0] // -(-shape[0] // ranks)) == ranks:
        return 0
    return next((dim for dim, size in enumerate(shape) if dim and size % ranks == 0), None)


def gradient_is_partial(name: str, layout: Layout) -> bool:
    """Whether a weight that every tp rank holds whole gets its gradient in parts, to be summed over them.

    Inside a sub-layer each rank works on its heads or its tokens; with sequence parallelism on its tokens everywhere.
    name: as in `trex.model.weights`, not of a routed expert.
    """
    return layout.tp > 1 and (layout.sequence_parallel or ".attn." in name or ".ffn." in name)


def buckets(sizes: Sequence[int]) -> list[slice]:
    """Which tensors, one after the other, are summed in one all-reduce. sizes: numbers in each."""
    found, begin, filled = [], 0, 0
    for place, size in enumerate(sizes):
        if place > begin and filled + size > BUCKET:
            found.append(slice(begin, place))
            begin, filled = place, 0
        filled += size
    return [*found, slice(begin, len(sizes))] if sizes else []
