"""The interface of the model, and that transformers behind it builds the model that the config describes."""

import math
import os
import subprocess
import sys

import pytest
import torch
from torch import Tensor

from trex.model import count
from trex.model.config import HEAVY, SPARSE, WINDOW, ConfigError, ModelConfig
from trex.model.hf import to_hf
from trex.model.initial import balanced_table, initialise
from trex.model.transformer import Output, Transformer, greedy

PUBLIC = {"flash": 284_332_240_471, "pro": 1_572_997_201_763}  # published checkpoints' parameters without MTP


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def tokens(batch: int, length: int, seed: int = 7, vocab: int = 512) -> Tensor:
    return torch.randint(0, vocab, (batch, length), generator=generator(seed))


def lively(config: ModelConfig, seed: int = 3) -> Transformer:
    """A model whose every parameter is random and large enough to matter, so that no path hides behind a zero."""
    model, draw = Transformer(config), generator(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=draw)
            parameter.copy_(noise / parameter.shape[-1] ** 0.5 if parameter.dim() >= 2 else 1 + 0.2 * noise)
    return model.eval()


def single_layer(ratio: int, **over: object) -> ModelConfig:
    return ModelConfig.tiny(num_layers=1, compress_ratios=(ratio,), hash_layers=0, **over)


@torch.no_grad()
def influenced(model: Transformer, length: int, position: int) -> set[int]:
    """Positions whose logits change when the token at `position` changes."""
    before = tokens(1, length)
    after = before.clone()
    after[0, position] = (after[0, position] + 1) % 512
    change = (model(before).logits - model(after).logits).abs().amax(-1)[0]
    return set(change.nonzero().flatten().tolist())


def test_output_has_the_shape_that_stays() -> None:
    output = Transformer(ModelConfig.tiny())(tokens(2, 300))
    assert isinstance(output, Output) and output.logits.shape == (2, 300, 512)
    assert output.mtp_logits is None and output.losses == {}


@pytest.mark.parametrize("length", [1, 3, 4, 127, 128, 129])
def test_short_rows_work(length: int) -> None:
    assert Transformer(ModelConfig.tiny())(tokens(1, length)).logits.isfinite().all()


@pytest.mark.parametrize("name", ["flash", "pro", "tiny"])
def test_to_hf_avoids_the_traps(name: str) -> None:
    config = getattr(ModelConfig, name)()
    hf = to_hf(config)
    kinds = {0: "sliding_attention", 4: "compressed_sparse_attention", 128: "heavily_compressed_attention"}
    assert hf.layer_types == [kinds[ratio] for ratio in config.compress_ratios]
    assert hf.mlp_layer_types == ["hash_moe"] * 3 + ["moe"] * (config.num_layers - 3)
    assert hf.qk_rope_head_dim == config.rope_dim
    assert hf._attn_implementation == "eager" and hf.use_cache is False
    assert hf.rope_parameters["main"]["rope_type"] == "default"
    assert hf.rope_parameters["compress"]["attention_factor"] == 1.0  # no YaRN scaling of the softmax anywhere


@pytest.mark.parametrize("name", ["flash", "tiny"])
def test_rotary_frequencies_are_the_reports(name: str) -> None:
    """Window layers: plain theta 10,000; compressed layers: 160,000 with YaRN's ramp. Both recomputed here."""
    config = getattr(ModelConfig, name)()
    from transformers.models.deepseek_v4.modeling_deepseek_v4 import DeepseekV4RotaryEmbedding

    rotary = DeepseekV4RotaryEmbedding(to_hf(config))
    k = torch.arange(config.rope_dim // 2, dtype=torch.float64)
    plain = 10_000.0 ** (-2 * k / config.rope_dim)
    assert torch.allclose(rotary.main_inv_freq.double(), plain, rtol=1e-6)
    base = 160_000.0 ** (-2 * k / config.rope_dim)

    def dimension(turns: float) -> float:
        return config.rope_dim * math.log(65_536 / (2 * math.pi * turns)) / (2 * math.log(160_000))

    low, high = max(math.floor(dimension(32)), 0), min(math.ceil(dimension(1)), config.rope_dim - 1)
    if name == "flash":
        assert (low, high) == (15, 25)
    ramp = ((k - low) / (high - low)).clamp(0, 1)
    assert torch.allclose(rotary.compress_inv_freq.double(), base / 16 * ramp + base * (1 - ramp), rtol=1e-6)


@pytest.mark.parametrize("name", ["flash", "pro", "tiny"])
def test_parameter_count(name: str) -> None:
    """Equal to trex.model.count and to the published figures; transformers keeps selection biases as buffers."""
    config = getattr(ModelConfig, name)()
    with torch.device("meta"):
        model = Transformer(config)
    biases = sum(b.numel() for n, b in model.named_buffers() if n.endswith("e_score_correction_bias"))
    total = sum(p.numel() for p in model.parameters()) + biases
    assert total == count.parameters(config).total
    assert total == PUBLIC.get(name, total)


@pytest.mark.parametrize("over", [{"num_shared_experts": 2}, {"head_dim": 98, "rope_dim": 2}])
def test_what_transformers_would_build_differently_is_refused(over: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=next(reversed(over))):
        to_hf(ModelConfig.tiny(**over))


def test_future_never_reaches_the_past() -> None:
    model = lively(ModelConfig.tiny())
    for position in (40, 128, 200, 299):
        assert min(influenced(model, 300, position)) == position


def test_window_layer_sees_its_window_only() -> None:
    assert influenced(lively(single_layer(WINDOW)), 200, 5) == set(range(5, 5 + 16))


def test_heavily_compressed_layer_sees_whole_blocks() -> None:
    """Window of 16, and block 0 (tokens 0 to 127) from its last token on."""
    assert influenced(lively(single_layer(HEAVY)), 260, 5) == {*range(5, 5 + 16), *range(127, 260)}


def test_sparse_layer_sees_overlapping_blocks() -> None:
    """Token 41 is in block 10, which ends at 43, and in the overlap of block 11; with all selected both are seen."""
    everything = lively(single_layer(SPARSE, index_topk=1000, window=1))
    assert influenced(everything, 120, 41) == {41, *range(43, 120)}
    few = lively(single_layer(SPARSE, index_topk=2, window=1))
    assert influenced(few, 120, 41) < {41, *range(43, 120)}


def test_padding_on_the_right_changes_nothing() -> None:
    model = lively(ModelConfig.tiny()).double()
    short = tokens(1, 150)
    padded = torch.cat([short, torch.ones(1, 150, dtype=torch.int64)], dim=1)
    change = (model(padded).logits[:, :150] - model(short).logits).abs().max()
    assert change < 1e-4  # transformers computes norms and softmax in float32 even for a float64 model


def test_every_trainable_parameter_gets_a_gradient() -> None:
    """All but the indexer's, which transformers never trains: top-k passes no gradient."""
    model = Transformer(ModelConfig.tiny())
    row = tokens(2, 300)
    logits = model(row).logits
    torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), row[:, 1:].flatten()).backward()
    without = {name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0}
    assert without == {name for name, _ in model.named_parameters() if ".indexer." in name} != set()
    kinds = {type(layer.self_attn.compressor).__name__ + type(layer.mlp.gate).__name__ for layer in model.model.layers}
    assert len(kinds) == 6  # window, CSA and HCA, each with hash and with top-k routing


def test_initial_weights() -> None:
    model = Transformer(ModelConfig.tiny(), seed=5)
    values = model.state_dict()
    assert abs(values["lm_head.weight"].std() - 0.02) < 0.001
    assert (values["model.layers.1.attn_hc.scale"] == 0.01).all() and (values["model.hc_head.hc_scale"] == 0.01).all()
    for zero in ("layers.0.self_attn.sinks", "layers.1.self_attn.compressor.position_bias", "layers.0.attn_hc.base"):
        assert (values[f"model.{zero}"] == 0).all()
    assert (values["model.layers.0.input_layernorm.weight"] == 1).all()


def test_seed_decides_the_weights_and_nothing_else_does() -> None:
    torch.manual_seed(1)
    state = torch.get_rng_state()
    first = Transformer(ModelConfig.tiny(), seed=5).state_dict()
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(2)
    again, other = (
        Transformer(ModelConfig.tiny(), seed=5).state_dict(),
        Transformer(ModelConfig.tiny(), seed=6).state_dict(),
    )
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["lm_head.weight"], other["lm_head.weight"])
    assert not torch.equal(first["model.layers.0.mlp.gate.tid2eid"], other["model.layers.0.mlp.gate.tid2eid"])


@pytest.mark.parametrize(
    ("vocab", "experts", "chosen"), [(512, 8, 2), (1000, 256, 6), (77, 5, 3), (10, 4, 4), (3, 7, 1)]
)
def test_hash_routing_is_balanced(vocab: int, experts: int, chosen: int) -> None:
    table = balanced_table(vocab, experts, chosen, generator())
    assert table.shape == (vocab, chosen) and table.dtype == torch.int64
    loads = table.flatten().bincount(minlength=experts)
    assert len(loads) == experts and loads.max() - loads.min() <= 1
    assert all(len(set(row)) == chosen for row in table.tolist())


def test_a_parameter_without_a_rule_is_refused() -> None:
    """A parameter that a later transformers might add; it would otherwise start at whatever the memory holds."""
    unknown = torch.nn.ParameterDict({"shift": torch.nn.Parameter(torch.ones(3))})
    with pytest.raises(ConfigError, match=r"no rule for the initial value of shift \(3,\)"):
        initialise(unknown, generator(), 4)


def test_documents_in_one_row_are_refused() -> None:
    with pytest.raises(ConfigError, match="doc_ids"):
        Transformer(ModelConfig.tiny())(tokens(1, 8), doc_ids=torch.zeros(1, 8, dtype=torch.int64))


@pytest.mark.parametrize(
    "bad", [tokens(1, 8)[0], tokens(1, 8).float(), tokens(1, 8)[:, :0], tokens(1, 8) + 512, tokens(1, 8) - 513]
)
def test_tokens_that_are_none_are_refused(bad: Tensor) -> None:
    with pytest.raises(ConfigError, match="accept"):
        Transformer(ModelConfig.tiny())(bad)


def test_greedy_takes_the_likeliest_token_and_stops() -> None:
    model = lively(ModelConfig.tiny())
    start = tokens(1, 20)
    longer = greedy(model, start, 5)
    assert torch.equal(longer[:, :20], start) and longer.shape == (1, 25)
    logits = model(longer).logits  # one pass over the result must choose the same tokens
    assert torch.equal(logits[0, 19:24].argmax(-1), longer[0, 20:])
    stop = int(longer[0, 21])
    stopped = greedy(model, start, 5, stop=stop)
    assert int(stopped[0, -1]) == stop and torch.equal(stopped, longer[:, : stopped.shape[1]])


def test_import_is_light_and_silent_and_needs_no_network() -> None:
    """A socket that connects raises; any warning is an error; importing the interface does not import transformers."""
    program = """
import socket, sys
def refuse(*args, **kwargs): raise AssertionError("network")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
from trex.model.transformer import Transformer
from trex.model.config import ModelConfig
assert "transformers" not in sys.modules
import torch
Transformer(ModelConfig.tiny())(torch.zeros(1, 8, dtype=torch.int64))
"""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
