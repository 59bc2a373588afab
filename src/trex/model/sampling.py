"""From logits to the next token: the likeliest, or a draw among the likeliest."""

from dataclasses import dataclass
from math import isfinite

from torch import Tensor

from trex.kernels.precision import wide
from trex.model.config import ConfigError


@dataclass(frozen=True)
class Sampling:
    """How the next token is chosen. Raises ConfigError for what cannot be."""

    temperature: float = 0.0  # 0: the likeliest
    top_k: int | None = None  # draw among the k likeliest
    top_p: float | None = None  # and among the fewest likeliest that hold this share of what top_k leaves

    def __post_init__(self) -> None:
        if not (_is_number(self.temperature) and self.temperature >= 0 and isfinite(self.temperature)):
            raise ConfigError(f"temperature = {self.temperature!r}; accepted: finite numbers from 0")
        k, p = self.top_k, self.top_p
        if k is not None and (not isinstance(k, int) or isinstance(k, bool) or k < 1):
            raise ConfigError(f"top_k = {k!r}; accepted: integers from 1, or None")
        if p is not None and not (_is_number(p) and 0 < p <= 1):
            raise ConfigError(f"top_p = {p!r}; accepted: numbers above 0 and up to 1, or None")

    def choose(self, logits: Tensor, uniform: Tensor) -> Tensor:
        """The next token of each row, [B] int64. logits: [B, V]. uniform: [B], a draw from [0, 1) for each row."""
        if self.temperature == 0:
            return logits.argmax(dim=-1)  # of equals the first
        ids, p = self.distribution(logits)
        cumulative, last = p.cumsum(dim=-1), p.gt(0).sum(dim=-1, keepdim=True) - 1
        target = uniform.to(p.dtype).unsqueeze(-1) * cumulative[:, -1:]
        place = (cumulative <= target).sum(dim=-1, keepdim=True)
        # rounding may carry the target to the very end; and logits that are not finite have no last
        return ids.gather(-1, place.minimum(last).clamp_min(0)).squeeze(-1)

    def distribution(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """The ids that may be drawn, likeliest first, and their probabilities, zero outside of top_p: [B, k] each.

        Of equal logits the lower id comes first. logits: [B, V]; temperature above 0. The probabilities are at least
        float32 and sum to one.
        """
        logits, ids = wide(logits).sort(dim=-1, descending=True, stable=True)
        logits, ids = logits[:, : self.top_k], ids[:, : self.top_k]
        p = ((logits - logits[:, :1]) / self.temperature).softmax(dim=-1)
        if self.top_p is not None:
            before = p.cumsum(dim=-1) - p
            p = p.masked_fill(before >= self.top_p, 0)
        return ids, p / p.sum(dim=-1, keepdim=True)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
