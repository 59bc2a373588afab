"""Reference losses against hand-counted frequencies."""

import math

import pytest

from trex.data.tokens import pack
from trex.train.baselines import bigram_loss, unigram_loss

A, B, C = 2, 3, 4


def test_rows_cut_and_padded_give_the_same_counts() -> None:
    """Every target counts once, however long the rows: with one added, A 4/10, B and C 2/10, both others 1/10."""
    documents, held = [[0, A, A, B, C], [0, A]], pack([[0, A, A, C]], 10)
    expected = -(2 * math.log(4 / 10) + math.log(2 / 10)) / 3
    for seq_len in (10, 3, 2):
        assert unigram_loss(pack(documents, seq_len), held, 5) == pytest.approx(expected, rel=1e-12)


def test_held_out_losses_by_hand() -> None:
    train, held = pack([[0, A, B, A, B, A, C]], 10), pack([[0, A, B, C]], 10)
    # unigram, one added to each of 5 counts: A 4/11, B 3/11, C 2/11
    p = {A: 4 / 11, B: 3 / 11, C: 2 / 11}
    assert unigram_loss(train, held, 5) == pytest.approx(-sum(map(math.log, p.values())) / 3, rel=1e-12)
    # after 0: A once; after A: B twice, C once; after B: A twice, never C
    q = [(1 + p[A]) / 2, (2 + p[B]) / 4, (0 + p[C]) / 3]
    assert bigram_loss(train, held, 5) == pytest.approx(-sum(map(math.log, q)) / 3, rel=1e-12)
