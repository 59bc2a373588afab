"""Cross-entropy of a linear head, the definition."""

from torch import Tensor
from torch.nn.functional import cross_entropy, linear
from torch.utils.checkpoint import checkpoint

from trex.kernels.precision import no_autocast, product_dtype, wide

IGNORE = -100  # target of a position that is not counted


def linear_cross_entropy(hidden: Tensor, weight: Tensor, targets: Tensor, chunk: int = 1024) -> Tensor:
    """Σ_t -log softmax(weight · hidden_t)[targets_t], in nats, over the tokens whose target is not -100.

    The logits of `chunk` tokens exist at a time, in the forward pass and, computed again, in the backward pass.
    hidden: [T, d]. weight: [V, d]. targets: [T] int64. Returns a scalar, at least float32, as is the softmax.
    """
    dtype = product_dtype(hidden)

    def piece(h: Tensor, y: Tensor) -> Tensor:
        with no_autocast(h):  # the weight is cast inside, so that its gradient is summed in its own dtype
            logits = linear(h.to(dtype), weight.to(dtype))
            return cross_entropy(wide(logits), y, ignore_index=IGNORE, reduction="sum")

    total = wide(hidden.new_zeros(()))
    for h, y in zip(hidden.split(chunk), targets.split(chunk), strict=True):
        total = total + checkpoint(piece, h, y, use_reentrant=False)
    return total
