"""The losses of training: their values and gradients, and which parameters each of them reaches.

Values and all gradients are held against `naive`, a second implementation in loops; the model's own gradients against
finite differences. Which parameters a loss may reach is derived here from the architecture.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from tests.model.naive import Naive
from tests.model.oracle import random_weights
from torch import Tensor

from trex.model.attention import Attention
from trex.model.config import ConfigError, ModelConfig
from trex.model.documents import Blocks
from trex.model.indexer import Index, Indexer
from trex.model.rotary import Turns
from trex.model.transformer import Output, Transformer

# hash-routed CSA, HCA, CSA, and the MTP block's window attention; top-k, window and clamps bind
CONFIG = ModelConfig.tiny(
    num_layers=3, compress_ratios=(4, 128, 4), hash_layers=1, hidden_size=16, num_heads=4, q_lora_rank=12,
    num_experts=5, expert_size=10, vocab_size=48, head_dim=8, rope_dim=4, o_lora_rank=6, index_heads=4, index_dim=8,
    index_topk=3, window=6, swiglu_limit=0.5, sinkhorn_iters=4,
)  # fmt: skip
IGNORE = -100
# two rows of tokens: documents by length, padding as negative lengths; HCA has one block, of the first document
ROWS = ((132, 3), (2, 30, -4, 1, 9, -89))
SHORT = ((21, 2, 9), (1, 3, -4, 24))
MODES = ("sparse", "warm-up")
LOSSES = ("lm", "mtp", "indexer", "balance")


def build(config: ModelConfig = CONFIG, seed: int = 1) -> Transformer:
    """A float64 model in which every weight matters."""
    model = Transformer(config).double()
    state = random_weights(config, seed)
    state = {name: tensor.double() if tensor.is_floating_point() else tensor for name, tensor in state.items()}
    model.load_state_dict({name: tensor for name, tensor in state.items() if config.mtp_layers or name[:3] != "mtp"})
    return model


def pack(rows: Sequence[tuple[int, ...]] = ROWS, seed: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens, document ids and targets [B, S]; one target in five is left out, as is each document's last."""
    draw = torch.Generator().manual_seed(seed)
    ids = [[i if n > 0 else -1 for i, n in enumerate(row) for _ in range(abs(n))] for row in rows]
    doc_ids = torch.tensor(ids)
    tokens = torch.randint(0, CONFIG.vocab_size, doc_ids.shape, generator=draw)
    targets = tokens.roll(-1, dims=1)
    targets[torch.rand(targets.shape, generator=draw) < 0.2] = IGNORE
    for row, targets_row in zip(rows, targets, strict=True):
        end = 0
        for n in row:
            end += abs(n)
            targets_row[end - 1 if n > 0 else slice(end + n, end)] = IGNORE
    return tokens, doc_ids, targets


def documents(tokens: Tensor, doc_ids: Tensor, targets: Tensor) -> list[tuple[list[int], list[int]]]:
    """Tokens and targets of each document by itself."""
    found = []
    for row, ids, goals in zip(tokens.tolist(), doc_ids.tolist(), targets.tolist(), strict=True):
        for i in sorted(set(ids) - {-1}):
            places = [t for t, other in enumerate(ids) if other == i]
            found.append(([row[t] for t in places], [goals[t] for t in places]))
    return found


def cross_entropy(logits: Tensor, goals: list[int]) -> Tensor:
    """Sum of -log softmax at each goal that is none of IGNORE."""
    total = logits.new_zeros(())
    for row, goal in zip(logits, goals, strict=True):
        if goal != IGNORE:
            total = total + row.exp().sum().log() - row[goal]
    return total


def naive_losses(
    model: Transformer, packs: tuple[Tensor, Tensor, Tensor], mode: str
) -> tuple[dict[str, Tensor], Tensor]:
    """The four losses document by document, and the tokens of each expert."""
    naive = Naive(model.config, model.state_dict(keep_vars=True), warm_up=mode == "warm-up")
    total = dict.fromkeys(LOSSES, torch.zeros((), dtype=torch.float64))
    loads = torch.zeros(model.config.num_layers + 1, model.config.num_experts, dtype=torch.int64)
    for ids, goals in documents(*packs):
        run = naive.run(ids)
        found = {
            "lm": cross_entropy(run.logits, goals),
            # at t the MTP block predicts token t + 2, the target of t + 1; the document's last two tokens have none
            "mtp": cross_entropy(run.mtp_logits, goals[1:]),
            "indexer": run.indexer,
            "balance": run.balance,
        }
        total = {name: total[name] + found[name] for name in LOSSES}
        loads += torch.tensor(run.loads)
    return total, loads


def gradients(loss: Tensor, model: Transformer) -> dict[str, Tensor]:
    """By name; zeros where the loss does not reach a parameter."""
    names, tensors = zip(*model.named_parameters(), strict=True)
    found = torch.autograd.grad(loss, tensors, retain_graph=True, allow_unused=True)
    return {n: torch.zeros_like(t) if g is None else g for n, t, g in zip(names, tensors, found, strict=True)}


def reached(loss: Tensor, model: Transformer) -> set[str]:
    """Parameters with a gradient that is not zero."""
    return {name for name, gradient in gradients(loss, model).items() if gradient.count_nonzero()}


def forward(model: Transformer, mode: str = "sparse", **options: bool) -> Output:
    tokens, doc_ids, targets = pack()
    return model(tokens, doc_ids, targets, indexer=mode, **options)


# values, and gradients against the second implementation


@pytest.mark.parametrize(("mode", "rows"), [("sparse", ROWS), ("warm-up", SHORT)])
def test_losses_and_all_their_gradients_against_the_second_implementation(
    mode: str, rows: tuple[tuple[int, ...], ...]
) -> None:
    model, packs = build(), pack(rows)
    tokens, doc_ids, targets = packs
    output = model(tokens, doc_ids, targets, indexer=mode)
    expected, loads = naive_losses(model, packs, mode)
    assert set(output.losses) == set(LOSSES)
    for name in LOSSES:
        assert abs(output.losses[name] - expected[name]) <= 1e-11 * abs(expected[name]), name
    # the indexer's loss by itself; the three that share parameters together, to save passes through the loops
    for weights in ({"indexer": 1.0}, {"lm": 0.3, "mtp": 1.0, "balance": 2.0}):
        ours, theirs = (
            gradients(torch.stack([weight * losses[name] for name, weight in weights.items()]).sum(), model)
            for losses in (output.losses, expected)
        )
        scale = max(g.norm() for g in theirs.values()) * 1e-3
        for parameter, gradient in theirs.items():
            difference = (ours[parameter] - gradient).norm()
            assert difference <= 1e-10 * max(gradient.norm(), scale), (parameter, *weights)
    assert torch.equal(output.loads, loads)


def test_recomputation_changes_no_loss_and_no_gradient() -> None:
    model = build()
    plain, again = forward(model), forward(model, recompute=True)
    for name in LOSSES:
        assert torch.equal(plain.losses[name], again.losses[name])
        expected = gradients(plain.losses[name], model)
        model.zero_grad()
        again.losses[name].backward(retain_graph=True)  # torch.autograd.grad does not enter a checkpoint twice
        for parameter, tensor in model.named_parameters():
            found = torch.zeros_like(tensor) if tensor.grad is None else tensor.grad
            assert torch.allclose(found, expected[parameter], rtol=1e-12, atol=1e-13), (name, parameter)


@torch.no_grad()
def test_a_row_that_is_one_document_needs_no_ids() -> None:
    model = build()
    tokens, _, targets = pack(((40,), (40,)))
    whole, packed = model(tokens, targets=targets), model(tokens, torch.zeros_like(tokens), targets)
    for name in LOSSES:
        assert torch.allclose(whole.losses[name], packed.losses[name], rtol=1e-12), name
        assert whole.counts[name] == packed.counts[name], name


@torch.no_grad()
def test_what_stands_in_padding_is_no_matter() -> None:
    model, (tokens, doc_ids, targets) = build(), pack()
    other = torch.where(doc_ids < 0, (tokens + 1) % CONFIG.vocab_size, tokens)
    first, second = model(tokens, doc_ids, targets), model(other, doc_ids, targets)
    assert all(torch.equal(first.losses[name], second.losses[name]) for name in LOSSES)
    assert torch.equal(first.loads, second.loads)


@torch.no_grad()
@pytest.mark.parametrize("mode", MODES)
def test_an_indexer_that_knows_nothing(mode: str) -> None:
    """With weights of 0 all scores are equal, so the loss is log n minus the teacher's entropy: between 0 and log n."""
    model = build()
    for layer in (0, 2):
        model.layers[layer].attn.indexer.weights_proj.weight.zero_()
    loss = forward(model, mode).losses["indexer"]
    bound = 0.0
    for ids, _ in documents(*pack()):
        for t in range(len(ids)):
            visible = (t + 1) // 4
            bound += 2 * math.log(max(1, visible if mode == "warm-up" else min(visible, CONFIG.index_topk)))
    assert 0 < loss < bound


def test_one_selected_entry_leaves_nothing_to_learn() -> None:
    model = build(ModelConfig.tiny(**{**vars(CONFIG), "index_topk": 1}))
    loss = forward(model).losses["indexer"]
    assert loss.abs() < 1e-12 and max(g.abs().max() for g in gradients(loss, model).values()) < 1e-12


@torch.no_grad()
def test_balance_is_one_per_token_where_experts_score_alike() -> None:
    """P_e = 1/E makes Σ f_e·P_e = 1 wherever tokens go, in the two scored layers and the MTP block."""
    model, (_, doc_ids, _) = build(), pack()
    for block in (*model.layers, *model.mtp):
        block.ffn.gate.weight.zero_()
    real = int((doc_ids >= 0).sum())
    assert forward(model).losses["balance"].item() == pytest.approx(3 * real, rel=1e-13)
    assert forward(model, mtp=False).losses["balance"].item() == pytest.approx(2 * real, rel=1e-13)


# gradients against finite differences


class Recorder:
    """What the indexers select, call by call."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[Tensor] = []
        original = Indexer.select

        def select(self_: Indexer, *args: Any) -> Tensor | None:
            selected = original(self_, *args)
            assert selected is not None  # top-k binds
            self.seen.append(selected)
            return selected

        monkeypatch.setattr(Indexer, "select", select)

    def take(self) -> list[Tensor]:
        taken, self.seen = self.seen, []
        return taken


@torch.no_grad()
def differences(run: Callable[[], Output], tensor: Tensor, entry: int, h: float) -> tuple[dict[str, float], list]:
    """Central differences of all losses in one entry of a parameter, and the experts' loads on either side."""
    flat, sides, loads = tensor.view(-1), [], []
    before = flat[entry].item()
    for value in (before + h, before - h):
        flat[entry] = value
        output = run()
        sides.append(output.losses)
        loads.append(output.loads)
    flat[entry] = before
    return {name: ((sides[0][name] - sides[1][name]) / (2 * h)).item() for name in sides[0]}, loads


def sample(gradient: Tensor, entries: int, draw: torch.Generator) -> list[int]:
    """Entries at random among those whose gradient is at least a hundredth of the largest."""
    size = gradient.flatten().abs()
    assert size.max() > 0
    candidates = (size >= size.max() / 100).nonzero().flatten()
    return candidates[torch.randperm(len(candidates), generator=draw)[:entries]].tolist()


def check_differences(
    model: Transformer, names: dict[str, tuple[str, ...]], mode: str, entries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """names: of the losses to check for each parameter."""
    recorder, draw, h = Recorder(monkeypatch), torch.Generator().manual_seed(5), 1e-6
    tokens, doc_ids, targets = pack(((132, 3, 7),))

    def run() -> Output:
        return model(tokens, doc_ids, targets, indexer=mode)

    output, selected = run(), recorder.take()
    assert len(selected) == (2 if mode == "sparse" else 0)
    exact = {name: gradients(output.losses[name], model) for name in LOSSES}
    parameters = dict(model.named_parameters())
    for parameter, losses in names.items():
        for entry in sample(exact[losses[0]][parameter], entries, draw):
            found, loads = differences(run, parameters[parameter].data, entry, h)
            assert all(torch.equal(output.loads, load) for load in loads), f"{parameter}: an expert is chosen anew"
            if losses == ("indexer",):
                again = recorder.take()
                assert all(torch.equal(a, b) for a, b in zip(selected * 2, again, strict=True)), parameter
            recorder.take()
            for name in losses:
                gradient = exact[name][parameter]
                error = abs(found[name] - gradient.view(-1)[entry].item())
                assert error <= 1e-6 * gradient.abs().max() + 1e-7, (name, parameter, entry)


@pytest.mark.parametrize("mode", [pytest.param(m, marks=[pytest.mark.slow] if m == "sparse" else []) for m in MODES])
def test_indexer_loss_against_finite_differences(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the indexer is moved, so the teacher's mass stays; that the selection stays is checked."""
    model = build()
    names: dict[str, tuple[str, ...]] = {
        name: ("indexer",) for name, _ in model.named_parameters() if ".indexer." in name
    }
    assert len(names) == 12
    check_differences(model, names, mode, 2, monkeypatch)


@pytest.mark.slow
def test_mtp_and_balance_losses_against_finite_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build()
    names = {name: by_loss(name, True) for name, _ in model.named_parameters()}
    names = {name: losses for name, losses in names.items() if losses}
    check_differences(model, names, "sparse", 1, monkeypatch)


# which parameters each loss may reach


def by_loss(name: str, mtp: bool) -> tuple[str, ...]:
    """Of the MTP and the balance loss, those that a parameter may move."""
    return tuple(loss for loss in ("mtp", "balance") if may_reach(loss, name, mtp))


def may_reach(loss: str, name: str, mtp: bool) -> bool:
    """Whether the architecture of CONFIG lets a loss reach a parameter. mtp: whether the MTP block runs.

    The LM head reads the trunk's streams through a collapse and a norm of its own; the MTP block reads the streams
    themselves and the embedding, and shares the head's matrix. Balance is a matter of scores: of what comes before
    the last gate that has any, not of the experts behind it. Selection gives no gradient, so indexers learn from
    their own loss alone, and what they read is detached.
    """
    if ".indexer." in name:
        return loss == "indexer"
    ahead, collapse = name.startswith("mtp.0."), name.startswith("hc_head_") or name == "norm.weight"
    if loss == "indexer" or (ahead and not mtp):
        return False
    if loss == "lm":
        return not ahead
    if loss == "mtp":
        return mtp and not collapse
    last = "mtp.0." if mtp else "layers.2."
    behind = tuple(f"{last}{part}" for part in ("ffn.experts.", "ffn.shared_experts.", "hc_head_", "norm."))
    return not collapse and name != "head.weight" and not name.startswith(behind)


@pytest.mark.parametrize("mtp", [True, False])
@pytest.mark.parametrize("mode", MODES)
def test_each_loss_reaches_exactly_the_parameters_before_it(mode: str, mtp: bool) -> None:
    model = build()
    output = forward(model, mode, mtp=mtp)
    assert set(output.losses) == set(LOSSES) - (set() if mtp else {"mtp"})
    everything = [name for name, _ in model.named_parameters()]
    for loss, value in output.losses.items():
        assert reached(value, model) == {name for name in everything if may_reach(loss, name, mtp)}, loss


def test_a_leak_from_the_indexer_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same set, found for an indexer whose input is not detached, is another."""

    def attached(self: Indexer, x: Tensor, qr: Tensor, blocks: Blocks, turns: Turns) -> Index:
        q, w = self.queries(x, qr, turns.cos, turns.sin)
        return Index(q, self.compressor(x, blocks, turns), w)

    monkeypatch.setattr(Indexer, "forward", attached)
    model = build()
    found = reached(forward(model).losses["indexer"], model)
    assert {name for name in found if ".indexer." in name} < found and "embed.weight" in found


def test_a_leak_into_the_indexer_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A selection whose scores touch the attention's output lets the LM loss reach the indexer."""
    attend = Attention.forward

    def leaking(self: Attention, x: Tensor, *rest: Any) -> tuple[Tensor, Tensor | None]:
        out, loss = attend(self, x, *rest)
        return (out if loss is None else out + 1e-9 * loss.unsqueeze(-1)), loss

    monkeypatch.setattr(Attention, "forward", leaking)
    model = build()
    assert any(".indexer." in name for name in reached(forward(model).losses["lm"], model))


def test_documents_without_a_block_leave_no_parameter_without_a_gradient() -> None:
    """Of documents shorter than 4 tokens no block is complete: gradients of compressors and indexers are zeros."""
    model = build()
    tokens, doc_ids, targets = pack(((3, 2, 1, 3), (1, 3, 3, -2)))
    output = model(tokens, doc_ids, targets)
    assert output.losses["indexer"] == 0 and output.counts["indexer"] == 0
    torch.stack(list(output.losses.values())).sum().backward()
    still = {name for name, p in model.named_parameters() if not p.grad.count_nonzero()}
    assert still == {name for name in dict(model.named_parameters()) if ".compressor." in name or ".indexer." in name}
    assert all(p.grad.isfinite().all() for p in model.parameters())


# modes of the indexer


def test_a_frozen_indexer_selects_but_does_not_learn() -> None:
    model, (tokens, doc_ids, targets) = build(), pack()
    frozen, sparse = (model(tokens, doc_ids, indexer=mode) for mode in ("frozen", "sparse"))
    assert torch.equal(frozen.logits, sparse.logits) and torch.equal(frozen.mtp_logits, sparse.mtp_logits)
    assert "indexer" not in frozen.losses and "indexer" not in frozen.counts
    output = model(tokens, doc_ids, targets, indexer="frozen")
    torch.stack(list(output.losses.values())).sum().backward()
    without = {name for name, p in model.named_parameters() if p.grad is None}
    assert without == {name for name, _ in model.named_parameters() if ".indexer." in name}


@torch.no_grad()
def test_warm_up_attends_to_all_that_is_visible() -> None:
    model, (tokens, doc_ids, _) = build(), pack()
    wide = build(ModelConfig.tiny(**{**vars(CONFIG), "index_topk": 1000}))
    warm, everything = model(tokens, doc_ids, indexer="warm-up"), wide(tokens, doc_ids)
    assert (warm.logits - everything.logits).abs().max() < 1e-12
    assert (warm.mtp_logits - everything.mtp_logits).abs().max() < 1e-12
    assert torch.allclose(warm.losses["indexer"], everything.losses["indexer"], rtol=1e-12)
    assert (warm.logits - model(tokens, doc_ids).logits).abs().max() > 1e-2


# counts, loads and selection biases


@torch.no_grad()
@pytest.mark.parametrize("with_targets", [True, False])
@pytest.mark.parametrize("mtp", [True, False])
def test_counts(with_targets: bool, mtp: bool) -> None:
    model, (tokens, doc_ids, targets) = build(), pack()
    output = model(tokens, doc_ids, targets if with_targets else None, mtp=mtp)
    found = documents(tokens, doc_ids, targets)
    expected = {
        "indexer": sum(max(0, len(ids) - 3) for ids, _ in found),  # those who see an entry
        "balance": sum(len(ids) for ids, _ in found),
    }
    if with_targets:
        expected["lm"] = sum(goal != IGNORE for _, goals in found for goal in goals)
        if mtp:
            expected["mtp"] = sum(goal != IGNORE for _, goals in found for goal in goals[1:])
    assert {name: int(count) for name, count in output.counts.items()} == expected
    assert set(output.losses) == set(expected) and all(not c.is_floating_point() for c in output.counts.values())
    assert (output.logits is None) == with_targets and (output.mtp_logits is None) == (with_targets or not mtp)


@torch.no_grad()
def test_loads_count_real_tokens() -> None:
    model, (tokens, doc_ids, _) = build(), pack()
    output = model(tokens, doc_ids)
    real = int((doc_ids >= 0).sum())
    assert real < doc_ids.numel() and output.loads.shape == (4, 5) and output.loads.dtype == torch.int64
    assert output.loads.sum(dim=1).tolist() == [2 * real] * 4
    table = model.layers[0].ffn.gate.tid2eid
    by_hand = [0] * 5
    for token in tokens[doc_ids >= 0].tolist():
        for expert in table[token].tolist():
            by_hand[expert] += 1
    assert output.loads[0].tolist() == by_hand
    assert model(tokens, doc_ids, mtp=False).loads.tolist() == output.loads[:3].tolist()


@pytest.mark.parametrize("speed", [None, 0.25])
def test_selection_biases_move_against_the_load(speed: float | None) -> None:
    """More than the mean: down by the speed; less: up; just the mean: stay. Hash layers have a table, not a bias."""
    model = build()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    loads = torch.tensor([[9, 1, 1, 1, 3], [5, 0, 3, 3, 4], [2, 2, 2, 2, 2], [0, 0, 0, 0, 10]])
    model.shift_biases(loads) if speed is None else model.shift_biases(loads, speed)
    moved = {
        "layers.1.ffn.gate.bias": [-1, 1, 0, 0, -1],
        "layers.2.ffn.gate.bias": [0, 0, 0, 0, 0],
        "mtp.0.ffn.gate.bias": [1, 1, 1, 1, -1],
    }
    for name, tensor in model.state_dict().items():
        shift = (speed or 0.001) * torch.tensor(moved.get(name, 0.0), dtype=torch.float64)
        assert torch.allclose(tensor.double(), before[name] + shift, rtol=0, atol=1e-15), name


def test_biases_of_the_trunk_move_without_the_mtp_block() -> None:
    model = build()
    ahead = model.mtp[0].ffn.gate.bias.clone()
    loads = torch.tensor([[9, 1, 1, 1, 3]] * 3)
    before = model.layers[1].ffn.gate.bias.clone()
    model.shift_biases(loads)
    assert torch.allclose(model.layers[1].ffn.gate.bias - before, torch.tensor([-1e-3, 1e-3, 1e-3, 1e-3, 0]).double())
    assert torch.equal(model.mtp[0].ffn.gate.bias, ahead)
    for bad in (loads[:2], loads[0], torch.ones(5, 5), torch.ones(4, 6)):
        with pytest.raises(ConfigError, match="loads"):
            model.shift_biases(bad)


@torch.no_grad()
def test_the_bias_decides_the_choice_and_nothing_else() -> None:
    """Moving all biases alike changes no choice, so no loss; moving one far sends every token to that expert."""
    model = build()
    plain = forward(model)
    for block in (*model.layers[1:], *model.mtp):
        block.ffn.gate.bias += 5
    shifted = forward(model)
    assert all(torch.allclose(plain.losses[name], shifted.losses[name], rtol=1e-12) for name in LOSSES)
    model.layers[2].ffn.gate.bias[3] += 100
    real = int((pack()[1] >= 0).sum())
    assert forward(model).loads[2, 3] == real


def test_no_balance_loss_where_tables_route() -> None:
    config = ModelConfig.tiny(**{**vars(CONFIG), "hash_layers": 3, "mtp_layers": 0})
    model = build(config)
    tokens, doc_ids, targets = pack()
    assert set(model(tokens, doc_ids, targets).losses) == {"lm", "indexer"}
