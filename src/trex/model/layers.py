"""Small layers: RMSNorm, the grouped projection, SwiGLU with clamps."""

import torch
from torch import Tensor, nn

from trex.kernels import ops


class Linear(nn.Linear):
    """A matrix without bias. weight: [out, in]."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, bias=False)

    def reset_parameters(self) -> None:
        """Left to `trex.model.initial`, which draws all weights from one seed."""


class RMSNorm(nn.Module):
    """RMSNorm with a weight. [..., d] to [..., d]."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the last dimension."""
        return ops.rms_norm(x, self.weight, self.eps)


class GroupedLinear(Linear):
    """The channels in g groups, each with a matrix of its own. [..., g·in] to [..., g·out]; weight: [g·out, in]."""

    def __init__(self, inputs: int, outputs: int, groups: int) -> None:
        super().__init__(inputs // groups, outputs)
        self.groups = groups

    def forward(self, x: Tensor) -> Tensor:
        """Project each group."""
        by_group = x.flatten(0, -2).unflatten(-1, (self.groups, -1)).transpose(0, 1)
        matrices = self.weight.unflatten(0, (self.groups, -1)).transpose(1, 2)
        return torch.matmul(by_group, matrices).transpose(0, 1).flatten(1).unflatten(0, x.shape[:-1])


class SwiGLU(nn.Module):
    """w2·(silu(min(w1·x, limit)) · clamp(w3·x, ±limit)), the shared expert. [..., d] to [..., d]."""

    def __init__(self, size: int, hidden: int, limit: float) -> None:
        super().__init__()
        self.w1 = Linear(size, hidden)
        self.w2 = Linear(hidden, size)
        self.w3 = Linear(size, hidden)
        self.limit = limit

    def forward(self, x: Tensor) -> Tensor:
        """Gate, clamp, project back."""
        return self.w2(self.hidden(x))

    def hidden(self, x: Tensor) -> Tensor:
        """What is projected back, [..., hidden]."""
        return ops.limited_swiglu(self.w1(x), self.w3(x), self.limit)
