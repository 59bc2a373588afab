"""The ways to call the model: with targets or without, recomputing or not, in bfloat16, and with what it refuses."""

import re
from typing import Any

import pytest
import torch
from tests.model.comparing import gradients, lively, random_tokens, unequal
from tests.model.packs import IGNORE, pack
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from trex.model.config import ConfigError, ModelConfig
from trex.model.transformer import Output, Transformer

TINY = ModelConfig.tiny(swiglu_limit=0.5)
SMALL = ModelConfig.tiny(num_layers=3, compress_ratios=(4, 128, 4), hash_layers=1, index_topk=3, swiglu_limit=0.5)


def total(out: Output) -> Tensor:
    return torch.stack(list(out.losses.values())).sum()


class Widest(TorchDispatchMode):
    """The most numbers that any tensor with the vocabulary as last dimension holds."""

    def __init__(self, vocab: int) -> None:
        super().__init__()
        self.vocab, self.most = vocab, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor) and leaf.shape[-1:] == (self.vocab,):
                self.most = max(self.most, leaf.numel())
        return result


def test_losses_are_cross_entropies_of_the_logits() -> None:
    """In float64, value and gradients; 1,400 tokens, more than are projected at once. No tensor holds all logits."""
    config = ModelConfig.tiny(num_layers=1, compress_ratios=(0,), hash_layers=0, vocab_size=500, swiglu_limit=0.5)
    model, given = lively(config, 1), pack([[300, 1, 399], [700]], seed=1, vocab=500)
    plain = model(given.tokens, given.doc_ids)
    assert plain.logits is not None and plain.mtp_logits is not None and not {"lm", "mtp"} & plain.losses.keys()
    with Widest(500) as seen:
        out = model(given.tokens, given.doc_ids, given.targets)
        loss = out.losses["lm"] + 0.3 * out.losses["mtp"]
        found = gradients(loss, model)
    assert out.logits is None and out.mtp_logits is None
    assert seen.most <= 1024 * 500

    ahead = torch.full_like(given.targets, IGNORE)  # the MTP block predicts the next token's target
    for row, here in given.documents:
        ahead[row, here.start : here.stop - 1] = given.targets[row, here.start + 1 : here.stop]
    lm, mtp = (
        cross_entropy(logits.flatten(0, 1), goal.flatten(), ignore_index=IGNORE, reduction="sum")
        for logits, goal in ((plain.logits, given.targets), (plain.mtp_logits, ahead))
    )
    assert out.losses["lm"].item() == pytest.approx(lm.item(), rel=1e-12)
    assert out.losses["mtp"].item() == pytest.approx(mtp.item(), rel=1e-12)
    assert (
        int(out.counts["lm"]) == (given.targets != IGNORE).sum() and int(out.counts["mtp"]) == (ahead != IGNORE).sum()
    )
    assert unequal(found, gradients(lm + 0.3 * mtp, model), 1e-12) == {}


@pytest.mark.parametrize("mode", ["sparse", "warm-up", "frozen"])
def test_recomputing_changes_no_bit(mode: str) -> None:
    model, given = lively(SMALL, 1, torch.float32), pack([[5, 130, 7, -8], [128, 3, 19]], seed=3)
    kept, again = (
        model(given.tokens, given.doc_ids, given.targets, indexer=mode, recompute=recompute)
        for recompute in (False, True)
    )
    assert kept.losses == again.losses and kept.counts == again.counts
    expected, found = gradients(total(kept), model), gradients(total(again), model)
    assert found.keys() == expected.keys()
    assert all(torch.equal(gradient, expected[name]) for name, gradient in found.items())
    assert ("layers.0.attn.indexer.wq_b.weight" in found) == (mode != "frozen")


def test_recomputing_keeps_only_the_streams() -> None:
    """What the graph holds on to between forward and backward is a fraction."""
    model, tokens = lively(TINY, 1, torch.float32), random_tokens(TINY, 2, 300, 1)

    def held(recompute: bool) -> int:
        stores = {}

        def keep(x: Tensor) -> Tensor:
            stores[x.untyped_storage().data_ptr()] = x
            return x

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
            out = model(tokens, targets=tokens, recompute=recompute)
        assert out.losses["lm"].requires_grad
        own = {p.untyped_storage().data_ptr() for p in model.parameters()}
        return sum(x.untyped_storage().nbytes() for place, x in stores.items() if place not in own)

    streams = 2 * 300 * TINY.hc_mult * TINY.hidden_size * 4  # bytes between two layers
    assert held(False) > 40 * streams
    assert held(True) < 20 * streams


def rms(x: Tensor) -> Tensor:
    return x.float().square().mean().sqrt()


@pytest.mark.parametrize("how", ["autocast", "weights"])
def test_bfloat16(how: str) -> None:
    """Finite, and by bfloat16's rounding (2^-9 a product) from float32 with the same weights: logits within 4 % rms,
    losses within .2 %, the gradient within 6 degrees. All entries are selected: no choice may flip."""
    config = ModelConfig.tiny(swiglu_limit=0.5, index_topk=1000)
    exact, tokens = lively(config, 1, torch.float32), random_tokens(config, 2, 300, 1)
    model = lively(config, 1, torch.float32)
    if how == "weights":
        model = model.to(torch.bfloat16)
        exact.load_state_dict(model.state_dict())
    with torch.autocast("cpu", torch.bfloat16, enabled=how == "autocast"):
        logits, out = model(tokens), model(tokens, targets=tokens.roll(-1, 1))
    right_logits, right = exact(tokens), exact(tokens, targets=tokens.roll(-1, 1))
    for name in ("logits", "mtp_logits"):
        found, expected = getattr(logits, name), getattr(right_logits, name)
        assert found.dtype == torch.bfloat16 and found.isfinite().all()
        assert 0 < rms(found - expected) < 0.04 * rms(expected)
    for name, loss in out.losses.items():
        assert loss.dtype == torch.float32 and loss.item() == pytest.approx(right.losses[name].item(), rel=2e-3)
    mine, theirs = gradients(total(out), model), gradients(total(right), exact)
    assert mine.keys() == theirs.keys()
    assert {gradient.dtype for gradient in mine.values()} == {next(model.parameters()).dtype}
    a, b = (torch.cat([gradient.float().flatten() for gradient in each.values()]) for each in (mine, theirs))
    assert a.isfinite().all() and torch.cosine_similarity(a, b, dim=0) > 0.9945


@torch.no_grad()
def test_what_is_not_asked_for_is_not_there() -> None:
    model, tokens = lively(SMALL, 1), random_tokens(SMALL, 1, 20, 1)
    both, trunk = model(tokens), model(tokens, mtp=False)
    assert both.logits is not None and trunk.logits is not None and both.loads is not None and trunk.loads is not None
    assert torch.equal(both.logits, trunk.logits) and trunk.mtp_logits is None
    assert torch.equal(both.loads[:-1], trunk.loads) and both.loads.shape == (4, 8)
    assert model(tokens, targets=tokens, mtp=False).losses.keys() == {"lm", "indexer", "balance"}
    none = Transformer(ModelConfig.tiny(num_layers=1, compress_ratios=(0,), hash_layers=1, mtp_layers=0))
    assert none(tokens, targets=tokens).losses.keys() == {"lm"}


GOOD = random_tokens(TINY, 2, 8, 1)
BAD = [
    (dict(tokens=GOOD[0]), "tokens are (8,) torch.int64; accepted: [B, S] int"),
    (dict(tokens=GOOD[:, :0]), "tokens are (2, 0) torch.int64; accepted"),
    (dict(tokens=GOOD[:0]), "tokens are (0, 8) torch.int64; accepted"),
    (dict(tokens=GOOD.float()), "tokens are (2, 8) torch.float32; accepted"),
    (dict(tokens=GOOD > 3), "tokens are (2, 8) torch.bool; accepted"),
    (dict(tokens=(GOOD % 100).to(torch.uint8)), "tokens are (2, 8) torch.uint8; accepted"),
    (dict(tokens=GOOD.to(torch.int16)), "tokens are (2, 8) torch.int16; accepted"),
    (dict(tokens=GOOD.index_fill(1, torch.tensor(7), 512)), "token id 512; tiny accepts 0 to 511"),
    (dict(tokens=GOOD.index_fill(1, torch.tensor(7), -1)), "token id -1; tiny accepts 0 to 511"),
    (dict(tokens=GOOD.index_fill(1, torch.tensor(7), -100)), "token id -100; tiny accepts 0 to 511"),
    (dict(doc_ids=torch.zeros(8, dtype=torch.int64)), "doc_ids are (8,) torch.int64; accepted: int"),
    (dict(doc_ids=torch.zeros(1, 8, dtype=torch.int64)), "doc_ids are (1, 8) torch.int64; accepted"),
    (dict(doc_ids=torch.zeros(2, 8)), "doc_ids are (2, 8) torch.float32; accepted"),
    (dict(doc_ids=torch.zeros(2, 8, dtype=torch.bool)), "doc_ids are (2, 8) torch.bool; accepted"),
    (dict(targets=GOOD[:, 1:]), "targets are (2, 7) torch.int64; accepted"),
    (dict(targets=GOOD.float()), "targets are (2, 8) torch.float32; accepted"),
    (dict(targets=GOOD.to(torch.int32)), "targets are (2, 8) torch.int32; accepted"),
    (dict(targets=GOOD > 3), "targets are (2, 8) torch.bool; accepted"),
    (dict(targets=GOOD.index_fill(1, torch.tensor(7), 512)), "target 512; tiny accepts 0 to 511, or -100 for none"),
    (dict(targets=GOOD.index_fill(1, torch.tensor(7), -1)), "target -1; tiny accepts 0 to 511, or -100 for none"),
    (dict(indexer="dense"), "indexer 'dense'; accepted: frozen, sparse, warm-up"),
]


@pytest.mark.parametrize(("bad", "message"), BAD, ids=[message.split(";")[0] for _, message in BAD])
def test_what_is_refused(bad: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        Transformer(TINY)(**{"tokens": GOOD, **bad})


def test_integers_of_32_bits_are_accepted() -> None:
    model = lively(SMALL, 1)
    doc_ids = torch.tensor([[0, 0, 0, 0, 0, 1, 1, -1]]).expand(2, 8)
    wide, narrow = model(GOOD, doc_ids, GOOD), model(GOOD.int(), doc_ids.int(), GOOD)
    assert wide.losses == narrow.losses


def test_two_mtp_blocks_are_refused() -> None:
    with pytest.raises(ConfigError, match=re.escape("mtp_layers = 2; the model is written for 0 or 1")):
        Transformer(ModelConfig.tiny(mtp_layers=2))
