"""Losses that need no network: what a model must beat before its loss means anything. All in nats per target."""

from torch import Tensor

from trex.data.tokens import IGNORE, Rows


def unigram_loss(rows: Rows, held_out: Rows, vocab_size: int) -> float:
    """Held-out loss of the frequencies of `rows`, each count raised by one."""
    return float(-_unigram(rows, vocab_size).log()[_pairs(held_out)[1]].mean())


def bigram_loss(rows: Rows, held_out: Rows, vocab_size: int) -> float:
    """Held-out loss of the frequencies after each token, with one more count shared out by the unigram frequencies."""
    unigram = _unigram(rows, vocab_size)
    before, after = _pairs(rows)
    pairs = (before * vocab_size + after).bincount(minlength=vocab_size**2).view(vocab_size, vocab_size).double()
    seen_before, seen_after = _pairs(held_out)
    probability = (pairs[seen_before, seen_after] + unigram[seen_after]) / (pairs.sum(1)[seen_before] + 1)
    return float(-probability.log().mean())


def _unigram(rows: Rows, vocab_size: int) -> Tensor:
    counts = _pairs(rows)[1].bincount(minlength=vocab_size).double() + 1
    return counts / counts.sum()


def _pairs(rows: Rows) -> tuple[Tensor, Tensor]:
    """Every target and the token before it, [targets] each."""
    real = rows.labels != IGNORE
    return rows.tokens[real], rows.labels[real]
