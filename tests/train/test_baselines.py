"""Reference losses against hand-counted frequencies."""

import math

import pytest

from trex.data.tokens import pack
from trex.train.baselines import bigram_loss, unigram_entropy, unigram_loss

A, B, C = 2, 3, 4


def test_unigram_entropy_by_hand() -> None:
    rows = pack([[0, A, A, B, C], [0, A]], seq_len=10)  # targets A A B C A
    expected = -(3 / 5 * math.log(3 / 5) + 2 * (1 / 5) * math.log(1 / 5))
    assert unigram_entropy(rows, 5) == pytest.approx(expected, rel=1e-12)
    assert unigram_entropy(pack([[0, A, A, B, C], [0, A]], seq_len=2), 5) == pytest.approx(expected, rel=1e-12)


def test_uniform_targets_have_entropy_ln_n() -> None:
    assert unigram_entropy(pack([list(range(9))], 20), 9) == pytest.approx(math.log(8), rel=1e-12)


def test_held_out_losses_by_hand() -> None:
    train, held = pack([[0, A, B, A, B, A, C]], 10), pack([[0, A, B, C]], 10)
    # unigram, one added to each of 5 counts: A 4/11, B 3/11, C 2/11
    p = {A: 4 / 11, B: 3 / 11, C: 2 / 11}
    assert unigram_loss(train, held, 5) == pytest.approx(-sum(map(math.log, p.values())) / 3, rel=1e-12)
    # after 0: A once; after A: B twice, C once; after B: A twice, never C
    q = [(1 + p[A]) / 2, (2 + p[B]) / 4, (0 + p[C]) / 3]
    assert bigram_loss(train, held, 5) == pytest.approx(-sum(map(math.log, q)) / 3, rel=1e-12)
