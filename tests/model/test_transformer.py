"""The model's interface, its weights' names, shapes and first values, and how far each layer kind sees."""

import math
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch
from tests.model.oracle import random_weights
from torch import Tensor

from trex.model import count
from trex.model.config import HEAVY, SPARSE, WINDOW, ConfigError, ModelConfig
from trex.model.initial import balanced_table, initialise
from trex.model.rotary import frequencies
from trex.model.transformer import Output, Transformer
from trex.model.weights import Weight, embedding_weights, head_weights, layer_weights, mtp_weights

# parameters of the released checkpoints, without and with MTP
PUBLIC = {"flash": (284_332_240_471, 290_942_289_362), "pro": (1_572_997_201_763, 1_598_837_347_742)}


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def tokens(batch: int, length: int, seed: int = 7, vocab: int = 512) -> Tensor:
    return torch.randint(0, vocab, (batch, length), generator=generator(seed))


def on_meta(config: ModelConfig) -> Transformer:
    with torch.device("meta"):
        return Transformer(config)


def lively(config: ModelConfig, seed: int = 3) -> Transformer:
    """A float64 model whose every weight is random and large enough to matter."""
    model = Transformer(config).double()
    model.load_state_dict(random_weights(config, seed))
    return model.eval()


def single_layer(ratio: int, **over: object) -> ModelConfig:
    return ModelConfig.tiny(num_layers=1, compress_ratios=(ratio,), hash_layers=0, **over)


@torch.no_grad()
def influenced(model: Transformer, length: int, position: int, of: str = "logits") -> set[int]:
    """Positions whose logits change when the token at `position` changes; a change is clear or it is rounding."""
    before = tokens(1, length)
    after = before.clone()
    after[0, position] = (after[0, position] + 1) % 512
    change = (getattr(model(before), of) - getattr(model(after), of)).abs().amax(-1)[0]
    assert not ((change > 1e-12) & (change < 1e-9)).any()
    return set((change > 1e-9).nonzero().flatten().tolist())


# what comes out


def test_output_has_logits_or_losses() -> None:
    model, row = Transformer(ModelConfig.tiny()), tokens(2, 300)
    output = model(row)
    assert isinstance(output, Output)
    assert output.logits.shape == output.mtp_logits.shape == (2, 300, 512)
    assert output.logits.dtype == output.mtp_logits.dtype == torch.float32
    assert set(output.losses) == set(output.counts) == {"indexer", "balance"}
    assert output.loads.shape == (7, 8) and not output.loads.is_floating_point()
    assert output.loads.sum(dim=1).tolist() == [2 * 300 * 2] * 7  # two experts for every token, in every layer
    trained = model(row, targets=row)
    assert trained.logits is None and trained.mtp_logits is None
    assert set(trained.losses) == set(trained.counts) == {"lm", "mtp", "indexer", "balance"}
    assert all(value.shape == () for value in (*trained.losses.values(), *trained.counts.values()))


def test_without_mtp() -> None:
    row = tokens(1, 20)
    with_block, without = Transformer(ModelConfig.tiny()), Transformer(ModelConfig.tiny(mtp_layers=0))
    without.load_state_dict({k: v for k, v in with_block.state_dict().items() if not k.startswith("mtp.")})
    skipped, absent = with_block(row, targets=row, mtp=False), without(row, targets=row)
    for output in (skipped, absent):
        assert set(output.losses) == {"lm", "indexer", "balance"} and output.loads.shape == (6, 8)
    assert torch.equal(skipped.losses["lm"], absent.losses["lm"])
    assert without(row).mtp_logits is None and with_block(row, mtp=False).mtp_logits is None
    with pytest.raises(ConfigError, match="mtp_layers = 2; the model is written for 0 or 1"):
        Transformer(ModelConfig.tiny(mtp_layers=2))


@pytest.mark.parametrize("length", [1, 3, 4, 127, 128, 129])
@torch.no_grad()
def test_short_rows_are_the_beginnings_of_long_ones(length: int) -> None:
    """Rows too short for a block, an overlap or a window, against 131 tokens."""
    model, row = lively(ModelConfig.tiny()), tokens(2, 131)
    short, long = model(row[:, :length]), model(row)
    assert short.logits.shape == short.mtp_logits.shape == (2, length, 512)
    assert (short.logits - long.logits[:, :length]).abs().max() < 1e-10
    assert short.mtp_logits.isfinite().all()  # the last one has no next token to read


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (dict(tokens=tokens(1, 8)[0]), r"tokens are \(8,\) torch.int64; accepted: \[B, S\] int32 or int64"),
        (dict(tokens=tokens(1, 8)[:, :0]), r"tokens are \(1, 0\)"),
        (dict(tokens=tokens(1, 8).float()), "torch.float32; accepted"),
        (dict(tokens=tokens(1, 8) > 3), "torch.bool; accepted"),
        (dict(tokens=torch.full((1, 8), 512)), "token id 512; tiny accepts 0 to 511"),
        (dict(tokens=torch.full((1, 8), -100)), "token id -100; tiny accepts 0 to 511"),
        (dict(tokens=tokens(1, 8).to(torch.int16)), "torch.int16; accepted"),
        (dict(doc_ids=torch.zeros(8, dtype=torch.int64)), r"doc_ids are \(8,\) .*; accepted: int32 or int64 \(1, 8\)"),
        (dict(doc_ids=torch.zeros(1, 8)), "doc_ids are .* torch.float32"),
        (dict(targets=torch.zeros(1, 7, dtype=torch.int64)), r"targets are \(1, 7\)"),
        (dict(targets=torch.zeros(1, 8, dtype=torch.int32)), r"targets are .* torch.int32; accepted: int64 \(1, 8\)"),
        (dict(targets=torch.full((1, 8), 512)), "target 512; tiny accepts 0 to 511, or -100 for none"),
        (dict(targets=torch.full((1, 8), -1)), "target -1; tiny accepts"),
        (dict(indexer="dense"), "indexer 'dense'; accepted: frozen, sparse, warm-up"),
    ],
)
def test_what_the_model_does_not_take_is_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Transformer(ModelConfig.tiny())(**{"tokens": tokens(1, 8), **given})


# weights


def listed(config: ModelConfig) -> Iterator[Weight]:
    yield from (*embedding_weights(config), *head_weights(config), *mtp_weights(config))
    for layer in range(config.num_layers):
        yield from layer_weights(config, layer)


def expected_shapes(config: ModelConfig) -> tuple[dict[str, tuple[int, ...]], dict[str, tuple[int, ...]]]:
    """Parameters and buffers that the list of weights asks for; a matrix of all routed experts is one parameter."""
    parameters, buffers = {}, {}
    for weight in listed(config):
        name, shape = weight.name, weight.shape
        if ".experts.*." in name:
            name, shape = name.replace(".*.", ".").removesuffix(".weight"), (config.num_experts, *shape)
        (parameters if weight.trained else buffers)[name] = shape
    for layer in range(config.hash_layers):
        buffers[f"layers.{layer}.ffn.gate.tid2eid"] = (config.vocab_size, config.experts_per_token)
    return parameters, buffers


CONFIGS = [
    ModelConfig.flash(), ModelConfig.pro(), ModelConfig.tiny(),
    ModelConfig.tiny(mtp_layers=0, hash_layers=0), ModelConfig.tiny(num_shared_experts=0),
    ModelConfig.tiny(num_shared_experts=2, hc_mult=3, hash_layers=6),
]  # fmt: skip


@pytest.mark.parametrize("config", CONFIGS)
def test_names_and_shapes_are_those_of_the_list_of_weights(config: ModelConfig) -> None:
    model = on_meta(config)
    parameters, buffers = expected_shapes(config)
    assert {name: tuple(p.shape) for name, p in model.named_parameters()} == parameters
    assert {name: tuple(b.shape) for name, b in model.named_buffers()} == buffers
    assert set(model.state_dict()) == parameters.keys() | buffers.keys()
    assert all(p.requires_grad for p in model.parameters())
    integers = {name for name, tensor in model.state_dict().items() if not tensor.is_floating_point()}
    assert integers == {name for name in buffers if name.endswith("tid2eid")}


@pytest.mark.parametrize("name", ["flash", "pro", "tiny"])
def test_parameter_count(name: str) -> None:
    """Selection biases count, as in the checkpoints, although no gradient trains them; tables do not."""
    config = getattr(ModelConfig, name)()
    model = on_meta(config)
    sizes = {n: p.numel() for n, p in model.named_parameters()}
    sizes |= {n: b.numel() for n, b in model.named_buffers() if n.endswith("gate.bias")}
    with_mtp = sum(sizes.values())
    without = sum(size for n, size in sizes.items() if not n.startswith("mtp."))
    counted = count.parameters(config)
    assert (without, with_mtp) == (counted.total, counted.total_with_mtp)
    assert (without, with_mtp) == PUBLIC.get(name, (without, with_mtp))
    for layer in range(config.num_layers):
        in_layer = sum(size for n, size in sizes.items() if n.startswith(f"layers.{layer}."))
        assert in_layer == sum(count.layer_parameters(config, layer).values())


def test_initial_weights() -> None:
    """Matrices N(0, .02), norms 1, mHC gates .01; sinks, position biases, mHC bases and selection biases 0."""
    values = Transformer(ModelConfig.tiny(), seed=5).state_dict()
    drawn = set()
    for name, value in values.items():
        if name.endswith(("attn_sink", ".ape", "_base", "gate.bias")):
            assert (value == 0).all(), name
        elif name.endswith("_scale"):
            assert (value == 0.01).all(), name
        elif name.endswith("norm.weight"):
            assert (value == 1).all(), name
        elif not name.endswith("tid2eid"):
            drawn.add(name)
            n = value.numel()  # five standard errors of mean and deviation
            assert abs(value.mean()) < 5 * 0.02 / n**0.5 and abs(value.std() - 0.02) < 5 * 0.02 / (2 * n) ** 0.5, name
            assert 2.5 * 0.02 < value.abs().max() < 6 * 0.02, name
    matrices = {weight.name for weight in listed(ModelConfig.tiny()) if weight.products or weight.part == "embedding"}
    assert drawn == {name.replace(".*.", ".").removesuffix(".weight") if ".*." in name else name for name in matrices}


def test_seed_decides_the_weights_and_nothing_else_does() -> None:
    torch.manual_seed(1)
    state = torch.get_rng_state()
    first = Transformer(ModelConfig.tiny(), seed=5).state_dict()
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(2)
    again, other = (Transformer(ModelConfig.tiny(), seed=seed).state_dict() for seed in (5, 6))
    assert all(torch.equal(first[name], again[name]) for name in first)
    fixed = {name for name in first if torch.equal(first[name], other[name])}
    constant = {name for name in first if first[name].unique().numel() == 1}
    assert fixed == constant  # ones, zeros and gates; all that is drawn differs, the tables too
    weights = [value.flatten()[:64] for name, value in first.items() if name not in constant and value.numel() >= 64]
    assert len({tuple(value.tolist()) for value in weights}) == len(weights)  # no two begin with the same draws


@pytest.mark.parametrize(
    ("vocab", "experts", "chosen"), [(512, 8, 2), (1000, 256, 6), (77, 5, 3), (10, 4, 4), (3, 7, 1)]
)
def test_hash_routing_is_balanced(vocab: int, experts: int, chosen: int) -> None:
    table = balanced_table(vocab, experts, chosen, generator())
    assert table.shape == (vocab, chosen) and table.dtype == torch.int64
    loads = table.flatten().bincount(minlength=experts)
    assert len(loads) == experts and loads.max() - loads.min() <= 1
    assert all(len(set(row)) == chosen for row in table.tolist())


def test_the_models_tables_are_balanced_and_differ() -> None:
    tables = [b for name, b in Transformer(ModelConfig.tiny()).named_buffers() if name.endswith("tid2eid")]
    assert len(tables) == 3 and not torch.equal(tables[0], tables[1])
    for table in tables:
        assert table.flatten().bincount(minlength=8).tolist() == [512 * 2 // 8] * 8


def test_a_parameter_without_a_rule_is_refused() -> None:
    """It would otherwise start at whatever the memory holds."""
    unknown = torch.nn.ParameterDict({"shift": torch.nn.Parameter(torch.ones(3))})
    with pytest.raises(ConfigError, match=r"no rule for the initial value of shift \(3,\)"):
        initialise(unknown, generator(), 4)


# positions


@pytest.mark.parametrize("name", ["flash", "tiny"])
def test_rotary_frequencies_are_the_reports(name: str) -> None:
    """Window layers: plain theta 10,000; compressed layers: 160,000 with YaRN's ramp. Both in Python's floats."""
    config = getattr(ModelConfig, name)()
    pairs = range(config.rope_dim // 2)
    plain = [10_000.0 ** (-2 * k / config.rope_dim) for k in pairs]
    assert frequencies(config, WINDOW).tolist() == pytest.approx(plain, rel=1e-14)
    base = [160_000.0 ** (-2 * k / config.rope_dim) for k in pairs]

    def pair(turns: float) -> float:
        return config.rope_dim * math.log(65_536 / (2 * math.pi * turns)) / (2 * math.log(160_000))

    low, high = max(math.floor(pair(32)), 0), min(math.ceil(pair(1)), config.rope_dim - 1)
    assert name != "flash" or (low, high) == (15, 25)
    ramp = [min(max((k - low) / (high - low), 0), 1) for k in pairs]
    stretched = [f / 16 * r + f * (1 - r) for f, r in zip(base, ramp, strict=True)]
    for ratio in (SPARSE, HEAVY):
        assert frequencies(config, ratio).tolist() == pytest.approx(stretched, rel=1e-14)


def test_window_layer_sees_its_window_only() -> None:
    assert influenced(lively(single_layer(WINDOW)), 200, 5) == set(range(5, 5 + 16))


def test_heavily_compressed_layer_sees_whole_blocks() -> None:
    """Window of 16, and block 0 (tokens 0 to 127) from its last token on."""
    assert influenced(lively(single_layer(HEAVY)), 260, 5) == {*range(5, 5 + 16), *range(127, 260)}


def test_a_block_of_which_the_end_is_missing_is_seen_by_none() -> None:
    """Token 130 is in block 1, of tokens 128 to 255, which a row of 255 does not complete."""
    assert influenced(lively(single_layer(HEAVY)), 255, 130) == set(range(130, 130 + 16))
    assert influenced(lively(single_layer(HEAVY)), 257, 130) == {*range(130, 130 + 16), 255, 256}


@pytest.mark.parametrize(("position", "entries_from"), [(41, 43), (40, 43), (39, 39), (0, 3)])
def test_sparse_layer_sees_overlapping_blocks(position: int, entries_from: int) -> None:
    """With all entries selected: a token is in the block that ends at `entries_from`, and the next one overlaps it."""
    everything = lively(single_layer(SPARSE, index_topk=1000, window=1))
    assert influenced(everything, 120, position) == {position, *range(entries_from, 120)}


def test_the_overlap_alone_reaches_a_query() -> None:
    """A block's own half set to zero, token 41 is no longer read by entry 10, but by entry 11, which ends at 47."""
    model = lively(single_layer(SPARSE, index_topk=1000, window=1))
    compressor = model.layers[0].attn.compressor
    with torch.no_grad():
        compressor.wkv.weight[32:], compressor.wgate.weight[32:] = 0, 0  # the second half, of the block itself
    assert influenced(model, 120, 41) == {41, *range(47, 120)}


def test_sparse_layer_sees_what_is_selected() -> None:
    """Token 1 is in entries 0 and 1. Until token 10 these are all there is; after that, two of more are selected."""
    few = influenced(lively(single_layer(SPARSE, index_topk=2, window=1)), 120, 1)
    assert {1, *range(3, 11)} <= few < {1, *range(3, 120)}


def test_mtp_reads_the_next_token_and_its_own_window() -> None:
    """The block at t reads the trunk's streams at t, which saw 16 tokens, and token t + 1, through a window of 16."""
    model = lively(single_layer(WINDOW))
    assert influenced(model, 200, 50) == set(range(50, 66))
    assert influenced(model, 200, 50, of="mtp_logits") == set(range(49, 65 + 16))


def test_future_never_reaches_the_past() -> None:
    model = lively(ModelConfig.tiny())
    for position in (40, 128, 200, 299):
        assert min(influenced(model, 300, position)) == position
        assert min(influenced(model, 300, position, of="mtp_logits")) == position - 1


def test_import_is_light_and_silent_and_needs_no_network() -> None:
    """A socket that connects raises; any warning is an error; neither import nor forward pass loads transformers."""
    program = """
import socket, sys
def refuse(*args, **kwargs): raise AssertionError("network")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
from trex.model.transformer import Transformer
from trex.model.config import ModelConfig
import torch
Transformer(ModelConfig.tiny())(torch.zeros(1, 8, dtype=torch.int64))
heavy = {"transformers", "plotly", "pandas", "trex.train", "trex.report"} & set(sys.modules)
assert not heavy, heavy
"""
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ}, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
