"""Muon against torch's and against singular values, AdamW against torch's, and the division of a model between them."""

import copy
import math
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import Shard, distribute_tensor

from trex.checkpoint.training import TrainingState, load, save
from trex.model.config import HEAVY, SPARSE, WINDOW, ModelConfig
from trex.model.transformer import Transformer
from trex.train.muon import HYBRID, HybridMuon, groups, orthogonalise
from trex.train.recipes import TrainConfig, TrainError

RECIPE = TrainConfig(
    steps=20, global_batch=2, micro_batch=2, seq_len=40, peak_lr=3e-3, min_lr=3e-4, warmup_steps=2, betas=(0.9, 0.95),
    eps=1e-20, weight_decay=0.1,
)  # fmt: skip
SHAPES = [(7, 7), (5, 12), (12, 5), (1, 6), (6, 1)]
FIRST = HYBRID[0]


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def polynomial(s: Tensor, coefficients: Any = HYBRID) -> Tensor:
    for a, b, c in coefficients:
        s = a * s + b * s**3 + c * s**5
    return s


def steps(optimizer: torch.optim.Optimizer, parameters: list[Tensor], count: int, first: int = 0) -> None:
    """Steps with gradients that are the same for the same `first`, and another learning rate each."""
    for step in range(first, first + count):
        for group in optimizer.param_groups:
            group["lr"] = 0.02 / (1 + step)
        for number, parameter in enumerate(parameters):
            parameter.grad = draw(*parameter.shape, seed=100 * step + number).to(parameter.dtype)
        optimizer.step()
        optimizer.zero_grad()


def leaves(*shapes: tuple[int, ...]) -> list[Tensor]:
    return [draw(*shape, seed=7 + number).requires_grad_() for number, shape in enumerate(shapes)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("coefficients", [HYBRID, (FIRST,) * 5])
def test_singular_values_go_through_the_polynomial(shape: tuple[int, int], coefficients: Any) -> None:
    matrix = draw(*shape)
    u, s, vh = torch.linalg.svd(matrix, full_matrices=False)
    expected = u @ torch.diag(polynomial(s / s.square().sum().sqrt(), coefficients)) @ vh
    assert torch.allclose(orthogonalise(matrix, coefficients), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("shape", [(64, 64), (40, 96), (96, 40)])
def test_singular_values_come_out_close_to_one(shape: tuple[int, int]) -> None:
    """Within what the coefficients make of any singular value of 1e-3 to 1 of the norm, found on a fine grid."""
    low, high = polynomial(torch.linspace(1e-3, 1, 100_001, dtype=torch.float64)).aminmax()
    assert low > 1 - 1e-12 and high < 1.0006  # p(1 + e) = 1 + e²/2 + … in the last steps: from above
    u, _, vh = torch.linalg.svd(draw(*shape), full_matrices=False)
    spread = torch.logspace(-2, 0, min(shape), dtype=torch.float64)
    found = torch.linalg.svdvals(orthogonalise(u @ torch.diag(spread) @ vh))
    assert low - 1e-9 <= found.min() and found.max() <= high + 1e-9


def test_batched_is_one_by_one_and_zeros_stay() -> None:
    for shape in SHAPES:
        stack = draw(4, *shape)
        stack[2] = 0
        found = orthogonalise(stack)
        assert found.isfinite().all() and not found[2].any()
        assert torch.allclose(found, torch.stack([orthogonalise(one) for one in stack]), rtol=0, atol=1e-12)


@pytest.mark.parametrize("exponent", [-76, 100])
def test_the_size_of_a_gradient_does_not_matter(exponent: int) -> None:
    """Powers of two are exact; the squares of such gradients (7e-24 is met in mHC) are not float32 numbers."""
    matrix = draw(5, 8).float()
    assert torch.equal(orthogonalise(matrix * 2.0**exponent), orthogonalise(matrix))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_precision_is_of_the_products_only(dtype: torch.dtype) -> None:
    matrix = draw(16, 24)
    assert orthogonalise(matrix.to(dtype)).dtype == dtype
    narrow = orthogonalise(matrix.float(), precision=torch.bfloat16)
    assert narrow.dtype == torch.float32 and torch.equal(narrow, narrow.bfloat16().float())
    assert not torch.equal(narrow, orthogonalise(matrix.float()))
    assert (narrow.double() - orthogonalise(matrix)).norm() < 0.05 * math.sqrt(16)


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="torch before 2.9 has no Muon")
@pytest.mark.parametrize("shape", SHAPES)
def test_updates_are_those_of_torchs_muon(shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Five steps of one polynomial, factor .2; torch's iteration, in bfloat16 otherwise, is kept in float64."""
    monkeypatch.setattr(Tensor, "bfloat16", Tensor.clone)
    ours, theirs = leaves(shape), leaves(shape)
    group = {"params": ours, "kind": "muon", "coefficients": (FIRST,) * 5, "scale": 0.2, "momentum": 0.9}
    steps(HybridMuon([group], weight_decay=0.3), ours, 4)
    other = torch.optim.Muon(
        theirs, momentum=0.9, weight_decay=0.3, ns_coefficients=FIRST, ns_steps=5, adjust_lr_fn="match_rms_adamw"
    )
    steps(other, theirs, 4)
    assert torch.allclose(ours[0], theirs[0], rtol=0, atol=1e-12)


def test_two_updates_by_hand() -> None:
    """M = .95·M + G, W = (1 - .1·lr)·W - .18·√max·lr·NS(.95·M + G), on each matrix of a stack and of stacked rows."""
    (stack, rows), before = leaves((3, 4, 6), (10, 3)), leaves((3, 4, 6), (10, 3))
    optimizer = HybridMuon(
        [{"params": [stack], "kind": "muon"}, {"params": rows, "kind": "muon", "heights": (1, 4)}], lr=0.02
    )
    first, second = ([draw(3, 4, 6, seed=s), draw(10, 3, seed=s + 1)] for s in (20, 30))
    for gradients in (first, second):
        stack.grad, rows.grad = gradients
        optimizer.step()
    for found, start, g1, g2 in zip((stack, rows), before, first, second, strict=True):
        cuts = [(k,) for k in range(3)] if found.dim() == 3 else [slice(*c) for c in ((0, 1), (1, 5), (5, 6), (6, 10))]
        for cut in cuts:
            w = start[cut]
            for ahead in (1.95 * g1[cut], 0.95 * (0.95 * g1[cut] + g2[cut]) + g2[cut]):
                u, s, vh = torch.linalg.svd(ahead, full_matrices=False)
                ns = u @ torch.diag(polynomial(s / s.norm())) @ vh
                w = (1 - 0.1 * 0.02) * w - 0.18 * math.sqrt(max(w.shape)) * 0.02 * ns
            assert torch.allclose(found[cut], w, rtol=0, atol=1e-10)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_adamw_is_torchs_bit_for_bit(dtype: torch.dtype) -> None:
    shapes = [(5,), (3, 4), (2, 3, 4), (1,)]
    ours, theirs = ([p.detach().to(dtype).requires_grad_() for p in leaves(*shapes)] for _ in range(2))
    one = HybridMuon([{"params": ours, "kind": "adamw", "betas": (0.8, 0.9), "eps": 1e-9}], weight_decay=0.3)
    other = torch.optim.AdamW(theirs, betas=(0.8, 0.9), eps=1e-9, weight_decay=0.3)
    for optimizer, parameters in ((one, ours), (other, theirs)):
        steps(optimizer, parameters, 5)
        steps(optimizer, parameters[:2], 2, first=5)  # the others have no gradient
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
    for a, b in zip(ours, theirs, strict=True):
        assert one.state[a].keys() == other.state[b].keys()
        assert all(torch.equal(one.state[a][key], other.state[b][key]) for key in one.state[a])


def mixed(parameters: list[Tensor], **more: Any) -> HybridMuon:
    matrices = {"params": parameters[:2], "kind": "muon", "heights": ()}
    return HybridMuon([matrices, {"params": parameters[2:], "kind": "adamw"}], **more)


@pytest.mark.parametrize("precision", [None, torch.bfloat16])
def test_a_state_dict_resumes_exactly(precision: torch.dtype | None, tmp_path: Path) -> None:
    shapes = [(6, 4), (2, 3, 5), (4,), (3, 3)]
    whole, part = leaves(*shapes), leaves(*shapes)
    undisturbed, first = mixed(whole, precision=precision), mixed(part, precision=precision)
    steps(undisturbed, whole, 6)
    steps(first, part, 3)
    torch.save(first.state_dict(), tmp_path / "state")
    second = mixed(part, lr=0.5)
    second.load_state_dict(torch.load(tmp_path / "state", weights_only=True))
    assert second.param_groups[0]["precision"] == (precision and "bfloat16")
    assert [sorted(second.state[p]) for p in part] == [["momentum_buffer"]] * 2 + [
        ["exp_avg", "exp_avg_sq", "step"]
    ] * 2
    steps(second, part, 3, first=3)
    assert all(torch.equal(a, b) for a, b in zip(whole, part, strict=True))
    copied = copy.deepcopy(undisturbed)
    copied.add_param_group({"params": leaves((2, 2)), "kind": "muon"})
    assert copied.param_groups[2]["precision"] == undisturbed.param_groups[0]["precision"]
    assert copied.param_groups[0]["coefficients"] == HYBRID


MODEL = ModelConfig.tiny(num_layers=3, compress_ratios=(WINDOW, SPARSE, HEAVY), hash_layers=1, vocab_size=128)


def expected_part(name: str) -> int:
    """Number of the group by the report's words, over full names; the order is that of `groups`."""
    if name in ("embed.weight", "head.weight") or name.endswith(".ape"):
        return 0
    if "norm" in name or name.endswith(("_base", "_scale", "attn_sink")):
        return 1
    if name.endswith(("hc_attn_fn", "hc_ffn_fn")):
        return 6
    if name.endswith("attn.wo_a.weight"):
        return 3
    if ".compressor." in name:
        return 5 if ".indexer." in name else 4
    return 2


def test_every_parameter_has_its_group() -> None:
    model = Transformer(MODEL)
    found = groups(model.named_parameters(), RECIPE, MODEL)
    names = {parameter: name for name, parameter in model.named_parameters()}
    for number, group in enumerate(found):
        for parameter in group["params"]:
            assert expected_part(names[parameter]) == number, names[parameter]
    assert sorted(names[p] for group in found for p in group["params"]) == sorted(names.values())
    assert [group["kind"] for group in found] == ["adamw"] * 2 + ["muon"] * 5
    assert [group["weight_decay"] for group in found] == [0.1, 0.0] + [0.1] * 5
    assert all(group["betas"] == (0.9, 0.95) and group["eps"] == 1e-20 for group in found[:2])
    # one matrix for each of two groups of heads; compressors of overlapping blocks have two, others one; mHC three
    counts = {names[p]: p.shape[0] / sum(g["heights"]) for g in found[3:] for p in g["params"]}
    assert counts["layers.1.attn.wo_a.weight"] == counts["layers.1.attn.compressor.wkv.weight"] == 2
    assert counts["layers.1.attn.indexer.compressor.wgate.weight"] == 2
    assert counts["layers.2.attn.compressor.wkv.weight"] == counts["layers.0.hc_ffn_fn"] == 1
    assert found[6]["heights"] == (4, 4, 16)


def learn(model: Transformer, optimizer: HybridMuon, count: int) -> list[float]:
    """Losses of steps on rows that follow a rule."""
    tokens = (torch.arange(41) * 7 + torch.tensor([[0], [3]])) % 38
    losses = []
    for _ in range(count):
        out = model(tokens[:, :-1], None, tokens[:, 1:])
        loss = sum((value / out.counts[name] for name, value in out.losses.items()), torch.tensor(0.0))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(out.losses["lm"].item() / int(out.counts["lm"]))
    return losses


def test_a_model_learns_and_resumes_from_a_checkpoint(tmp_path: Path) -> None:
    model = Transformer(MODEL)
    optimizer = HybridMuon(groups(model.named_parameters(), RECIPE, MODEL), lr=RECIPE.peak_lr)
    losses = learn(model, optimizer, 15)
    path = save(tmp_path / "step-00000015", TrainingState(model, optimizer, {"trainer": {"step": 15}}))
    losses += learn(model, optimizer, 5)
    assert losses[0] == pytest.approx(math.log(MODEL.vocab_size), abs=0.1)
    assert losses[-1] < losses[0] - 2
    again = Transformer(MODEL, seed=1)
    resumed = HybridMuon(groups(again.named_parameters(), RECIPE, MODEL), lr=1.0)
    load(path, TrainingState(again, resumed))
    assert learn(again, resumed, 5) == losses[15:]
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))
    for a, b in zip(model.parameters(), again.parameters(), strict=True):
        assert optimizer.state[a].keys() == resumed.state[b].keys()
        assert all(torch.equal(value, resumed.state[b][key]) for key, value in optimizer.state[a].items())


def test_a_closure_is_called_with_gradients_on() -> None:
    (weight,) = leaves((3, 4))
    optimizer = HybridMuon([{"params": weight, "kind": "muon"}])

    def loss() -> Tensor:
        value = weight.square().sum()
        value.backward()
        return value

    before = weight.detach().clone()
    assert optimizer.step(loss) == before.square().sum() and not torch.equal(weight, before)


@pytest.mark.parametrize(
    ("settings", "shape", "message"),
    [
        ({}, (3, 4), "kind None"), ({"kind": "sgd"}, (3, 4), "kind 'sgd'"),
        ({"kind": "muon"}, (3,), "among Muon's"), ({"kind": "muon"}, (1, 2, 3, 4), "among Muon's"),
        ({"kind": "muon", "betas": (0.9, 0.9)}, (3, 4), "betas in a group"),
        ({"kind": "adamw", "momentum": 0.9}, (3, 4), "momentum in a group"),
        ({"kind": "muon", "momentum": 1.0}, (3, 4), "momentum = 1.0"), ({"kind": "muon", "lr": -1}, (3, 4), "lr = -1"),
        ({"kind": "muon", "weight_decay": math.nan}, (3, 4), "weight_decay = nan"),
        ({"kind": "muon", "scale": 0}, (3, 4), "scale = 0"), ({"kind": "muon", "coefficients": ()}, (3, 4), "coeff"),
        ({"kind": "muon", "coefficients": ((1, 2),)}, (3, 4), "coefficients"),
        ({"kind": "muon", "heights": (2,)}, (3, 4), "matrices of"),
        ({"kind": "muon", "heights": (0,)}, (3, 4), "heights"),
        ({"kind": "muon", "heights": (3,)}, (2, 3, 4), "matrices of"),
        ({"kind": "muon", "precision": "int8"}, (3, 4), "precision = 'int8'"),
        ({"kind": "adamw", "betas": (0.9, 1.0)}, (3, 4), "betas"), ({"kind": "adamw", "eps": 0}, (3, 4), "eps = 0"),
    ],
)  # fmt: skip
def test_what_it_cannot_take_is_refused(settings: dict[str, Any], shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(TrainError, match=message) as error:
        HybridMuon([{"params": leaves(shape), **settings}])
    assert "accepted" in str(error.value)


def test_other_refusals() -> None:
    with pytest.raises(TrainError, match="precision"):
        HybridMuon([{"params": leaves((3, 4)), "kind": "muon"}], precision=torch.int8)
    with pytest.raises(TrainError, match="kind None"):
        HybridMuon(leaves((3, 4)))
    with pytest.raises(TrainError, match=r"matrices \[3\]"):
        orthogonalise(draw(3))


def test_shards_are_refused() -> None:
    dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    try:
        mesh = dist.init_device_mesh("cpu", (1,))
        shard = torch.nn.Parameter(distribute_tensor(draw(4, 3), mesh, [Shard(0)]))
        with pytest.raises(TrainError, match="accepted: whole matrices"):
            HybridMuon([{"params": shard, "kind": "muon"}])
    finally:
        dist.destroy_process_group()
