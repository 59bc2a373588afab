"""A document is the same alone and in a pack: logits, losses, loads and gradients, in float64.

Alone, the model is compared with others in test_parity.py and test_naive.py.
"""

from dataclasses import replace

import pytest
import torch
from tests.model.comparing import draw, gradients, lively, random_tokens, unequal
from tests.model.packs import IGNORE, Pack, Result, pack, packed, random_rows, separate

from trex.model.config import ModelConfig

BOUND = ModelConfig.tiny(swiglu_limit=0.5)  # window 16, 8 entries selected
FREE = ModelConfig.tiny(swiglu_limit=0.5, index_topk=1000, window=200)
SMALL = ModelConfig.tiny(num_layers=3, compress_ratios=(4, 128, 4), hash_layers=1, index_topk=3, swiglu_limit=0.5)
LENGTHS = [1, 3, 4, 127, 128, 129, 300]  # around the blocks of 4 and 128
SHORT = [[1, 3, 2, -1], [3, 3, 1]]


def assert_same(found: Result, expected: Result) -> None:
    for mine, right in zip(found.logits + found.mtp_logits, expected.logits + expected.mtp_logits, strict=True):
        assert mine.shape == right.shape
        assert mine.numel() == 0 or (mine - right).abs().max() <= 1e-10
    assert found.losses.keys() == expected.losses.keys() == {"lm", "mtp", "indexer", "balance"}
    for name, loss in expected.losses.items():
        assert abs(found.losses[name] - loss) <= 1e-10 * max(1.0, float(loss)), name
    assert found.counts == expected.counts
    assert torch.equal(found.loads, expected.loads)
    assert unequal(found.gradients, expected.gradients, 1e-10) == {}


def assert_counts(found: Result, given: Pack) -> None:
    """Losses run over: given targets; those of the next token; tokens that see a block of 4; all that is no padding."""
    targets = [given.targets[row, here].tolist() for row, here in given.documents]
    assert found.counts == {
        "lm": sum(target != IGNORE for document in targets for target in document),
        "mtp": sum(target != IGNORE for document in targets for target in document[1:]),
        "indexer": sum(max(0, len(document) - 3) for document in targets),
        "balance": sum(map(len, targets)),
    }


@pytest.mark.parametrize(
    ("config", "mode"),
    [(BOUND, "sparse"), (FREE, "sparse"), pytest.param(BOUND, "warm-up", marks=pytest.mark.slow)],
    ids=["selected", "all", "warm-up"],
)
def test_packed_is_separate(config: ModelConfig, mode: str) -> None:
    model, given = lively(config, 1), pack([LENGTHS], seed=2)
    found = packed(model, given, mode)
    assert_same(found, separate(model, given, mode))
    assert_counts(found, given)
    assert found.gradients.keys() == dict(model.named_parameters()).keys()
    assert all(gradient.any() for gradient in found.gradients.values())


@pytest.mark.parametrize("mode", ["sparse", "warm-up"])
@pytest.mark.parametrize(
    "rows",
    [
        [[5, 130, 7, 1], [128, 3, 12]],  # rows with other documents and other numbers of blocks
        [[-5, 131, -2, -3, 9], [6, -1, 4, -139], [-150]],  # padding in front, between, at the end, and alone
        [[4, 4], [8], [1, 7]],
    ],
    ids=["rows", "padding", "blocks"],
)
def test_rows_with_other_packs(rows: list[list[int]], mode: str) -> None:
    model, given = lively(SMALL, 1), pack(rows, seed=3)
    found = packed(model, given, mode)
    assert_same(found, separate(model, given, mode))
    assert_counts(found, given)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 40))])
def test_random_packs(seed: int) -> None:
    model, given = lively(SMALL, seed), pack(random_rows(seed), seed)
    mode = ("sparse", "warm-up")[seed // 2 % 2]
    found = packed(model, given, mode)
    assert_same(found, separate(model, given, mode))
    assert_counts(found, given)


def test_what_stands_in_padding_is_nothing() -> None:
    model, given = lively(SMALL, 1), pack([[-5, 131, -2, -3, 9], [6, -1, 4, -139]], seed=3)
    padding = given.doc_ids < 0
    other = replace(
        given,
        tokens=torch.where(padding, random_tokens(SMALL, 2, 150, 77), given.tokens),
        doc_ids=torch.where(padding, -3, given.doc_ids),
    )
    assert not torch.equal(other.tokens, given.tokens)
    assert_same(packed(model, other), packed(model, given))


def test_ids_only_tell_neighbours_apart() -> None:
    """Ids that come again, ids that do not, large ids: bit for bit the same."""
    model, given = lively(SMALL, 1), pack([[5, 130, 7, 1], [128, 3, 12]], seed=3)
    boundaries = torch.ones_like(given.doc_ids)
    boundaries[:, 1:] = given.doc_ids[:, 1:] != given.doc_ids[:, :-1]
    numbered = boundaries.cumsum(1)
    assert not torch.equal(numbered, given.doc_ids)
    first = packed(model, given)
    for doc_ids in (numbered, numbered * 2**40):
        again = packed(model, replace(given, doc_ids=doc_ids))
        assert all(torch.equal(a, b) for a, b in zip(first.logits, again.logits, strict=True))
        assert first.losses == again.losses
        assert unequal(again.gradients, first.gradients, 0) == {}


def test_one_id_is_no_id() -> None:
    """Rows of one document each, said with ids and without: bit for bit the same losses and gradients."""
    model, given = lively(SMALL, 1), pack([[150], [150]], seed=5)
    said, unsaid = (model(given.tokens, doc_ids, given.targets) for doc_ids in (torch.full((2, 150), 8), None))
    assert said.losses == unsaid.losses and said.counts == unsaid.counts
    found, expected = (gradients(torch.stack(list(out.losses.values())).sum(), model) for out in (said, unsaid))
    assert unequal(found, expected, 0) == {}


@pytest.mark.parametrize("mode", ["sparse", "warm-up"])
def test_documents_shorter_than_a_block(mode: str) -> None:
    """Every parameter has a gradient; it is zero for exactly the compressors and indexers, which saw no block."""
    model, given = lively(SMALL, 1), pack(SHORT, seed=4)
    found = packed(model, given, mode)
    assert_same(found, separate(model, given, mode))
    assert found.gradients.keys() == dict(model.named_parameters()).keys()
    zero = {name for name, gradient in found.gradients.items() if not gradient.any()}
    assert zero == {name for name in found.gradients if ".compressor." in name or ".indexer." in name} != set()
    assert found.losses["indexer"] == 0 and found.counts["indexer"] == 0


def test_documents_shorter_than_a_heavy_block() -> None:
    """The same for documents of 4 to 127 tokens: HCA's compressors alone have nothing to learn."""
    model, given = lively(SMALL, 1), pack([[127, 4, 23]], seed=4)
    found = packed(model, given)
    assert_same(found, separate(model, given))
    heavy = tuple(f"layers.{i}.attn.compressor." for i, ratio in enumerate(SMALL.compress_ratios) if ratio == 128)
    zero = {name for name, gradient in found.gradients.items() if not gradient.any()}
    assert zero == {name for name in found.gradients if name.startswith(heavy)} != set()


def test_documents_of_one_token() -> None:
    """Nothing to predict: only the balance loss is left, and it reaches what lies before the last routers."""
    model, given = lively(SMALL, 1), pack([[1] * 4, [1] * 3 + [-1]], seed=4)
    given = replace(given, targets=torch.full_like(given.targets, IGNORE))
    found = packed(model, given)
    assert_same(found, separate(model, given))
    assert {name: count for name, count in found.counts.items() if count} == {"balance": 7}
    assert {name for name, loss in found.losses.items() if loss} == {"balance"}
    after = ("head.", "norm.", "hc_head", "mtp.0.hc_head", "mtp.0.norm", "mtp.0.ffn.experts", "mtp.0.ffn.shared")
    without = ("mtp.0.e_proj", "mtp.0.enorm")  # no next token to read
    zero = {name for name, gradient in found.gradients.items() if not gradient.any()}
    assert zero == {
        name for name in found.gradients
        if name.startswith(after + without) or ".compressor." in name or ".indexer." in name
    }  # fmt: skip
    assert found.gradients.keys() == dict(model.named_parameters()).keys()


@pytest.mark.parametrize(("doc_ids", "mode"), [(False, "sparse"), (True, "sparse"), (True, "warm-up")])
@torch.no_grad()
def test_the_future_changes_nothing_before_it(doc_ids: bool, mode: str) -> None:
    """Row r differs from row 0 from place r's on: logits before it are the same, MTP's up to one place less."""
    model = lively(BOUND, 2)
    given = pack([[1, 40, 3, 128, 5, 123]], seed=6) if doc_ids else pack([[300]], seed=6)
    places = [1, 2, 4, 41, 44, 127, 128, 171, 172, 177, 255, 256, 299]
    rows = given.tokens.repeat(len(places) + 1, 1)
    for row, place in enumerate(places, start=1):
        rows[row, place:] = torch.randint(0, 512, (300 - place,), generator=draw(place))
        rows[row, place] = (rows[0, place] + 1) % 512
    out = model(rows, given.doc_ids.expand_as(rows) if doc_ids else None, indexer=mode)
    for logits, ahead in ((out.logits, 0), (out.mtp_logits, 1)):
        assert logits is not None
        change = (logits - logits[0]).abs().amax(-1)
        for row, place in enumerate(places, start=1):
            first = place - ahead
            begins = given.doc_ids[0, place] != given.doc_ids[0, place - 1]
            assert change[row, :first].max() <= 1e-12 if first else True
            assert change[row, first] > 1e-3 or (ahead and begins)
            assert change[row, place] > 1e-3


def test_frozen_indexers_learn_nothing_and_change_nothing() -> None:
    model, given = lively(SMALL, 1), pack([[5, 130, 7, 1], [128, 3, 12]], seed=3)
    sparse, frozen = (model(given.tokens, given.doc_ids, given.targets, indexer=mode) for mode in ("sparse", "frozen"))
    assert frozen.losses.keys() == sparse.losses.keys() - {"indexer"}
    assert all(torch.equal(loss, sparse.losses[name]) for name, loss in frozen.losses.items())
    with_gradient = gradients(torch.stack(list(frozen.losses.values())).sum(), model).keys()
    assert dict(model.named_parameters()).keys() - with_gradient == {
        name for name, _ in model.named_parameters() if ".indexer." in name
    }
