"""What follows from a weight's shape and name: the dimension that data parallelism shards, whose gradients are parts."""

from trex.model.layout import Layout


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
