"""Counts against the released checkpoints' totals, transformers' modules and torch's own FLOP counter."""

from dataclasses import replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from trex.model import count
from trex.model.config import SPARSE, WINDOW, ConfigError, ModelConfig

MODELS = [ModelConfig.tiny(), ModelConfig.flash(), ModelConfig.pro()]
# weights of transformers' blocks by the part they belong to, longest match first
HF_PARTS = {
    "self_attn.compressor.indexer.": "indexer",
    "self_attn.compressor.": "compressor",
    "self_attn.q_a_proj": "query",
    "self_attn.q_b_proj": "query",
    "self_attn.kv_proj": "key_value",
    "self_attn.o_a_proj": "output",
    "self_attn.o_b_proj": "output",
    "self_attn.sinks": "sinks",
    "self_attn.q_a_norm": "norms",
    "self_attn.kv_norm": "norms",
    "input_layernorm": "norms",
    "post_attention_layernorm": "norms",
    "attn_hc.": "hyper_connections",
    "ffn_hc.": "hyper_connections",
    "mlp.gate.": "router",
    "mlp.experts.": "routed_experts",
    "mlp.shared_experts.": "shared_experts",
}


def hf_config(c: ModelConfig):
    transformers = pytest.importorskip("transformers", minversion="5.10.4")
    yarn = {"type": "yarn", "factor": c.yarn_factor, "original_max_position_embeddings": c.yarn_original}
    return transformers.DeepseekV4Config(
        vocab_size=c.vocab_size, hidden_size=c.hidden_size, moe_intermediate_size=c.expert_size,
        num_hidden_layers=c.num_layers, num_attention_heads=c.num_heads, head_dim=c.head_dim,
        qk_rope_head_dim=c.rope_dim, q_lora_rank=c.q_lora_rank, o_groups=c.o_groups, o_lora_rank=c.o_lora_rank,
        compress_ratios=list(c.compress_ratios), num_hash_layers=c.hash_layers, n_routed_experts=c.num_experts,
        num_experts_per_tok=c.experts_per_token, sliding_window=c.window, index_n_heads=c.index_heads,
        index_head_dim=c.index_dim, index_topk=c.index_topk, hc_mult=c.hc_mult, rope_scaling=yarn,
        attn_implementation="eager", experts_implementation="eager",
    )  # fmt: skip


def hf_model(config: ModelConfig, device: str):
    transformers = pytest.importorskip("transformers", minversion="5.10.4")
    with torch.device(device):
        return transformers.DeepseekV4ForCausalLM(hf_config(config))


def hf_sizes(model) -> dict[str, int]:
    """Parameters, and the selection biases, which transformers keeps as buffers."""
    biases = [(n, b) for n, b in model.named_buffers() if n.endswith("e_score_correction_bias")]
    return {name: tensor.numel() for name, tensor in [*model.named_parameters(), *biases]}


def test_totals_of_the_released_models():
    """Without MTP transformers' count and with MTP the checkpoint's own; DeepSeek-V4 report: 13 B and 49 B active."""
    flash, pro = count.parameters(ModelConfig.flash()), count.parameters(ModelConfig.pro())
    assert (flash.total, flash.mtp, flash.total_with_mtp) == (284_332_240_471, 6_610_048_891, 290_942_289_362)
    assert (pro.total, pro.mtp, pro.total_with_mtp) == (1_572_997_201_763, 25_840_145_979, 1_598_837_347_742)
    assert [round(p.active / 1e9, 2) for p in (flash, pro)] == [13.27, 48.85]


@pytest.mark.parametrize("config", MODELS, ids=lambda c: c.name)
def test_parameters_equal_those_of_transformers_layer_by_layer_and_part_by_part(config):
    sizes = hf_sizes(hf_model(config, "meta"))
    for layer in range(config.num_layers):
        prefix, parts = f"model.layers.{layer}.", {}
        for name, size in sizes.items():
            if name.startswith(prefix):
                rest = name.removeprefix(prefix)
                part = next(part for start, part in HF_PARTS.items() if rest.startswith(start))
                parts[part] = parts.get(part, 0) + size
        assert dict(count.layer_parameters(config, layer)) == parts
    assert count.parameters(config).total == sum(sizes.values())


@pytest.mark.parametrize("config", MODELS, ids=lambda c: c.name)
def test_mtp_and_active_follow_from_transformers(config):
    """An MTP block is a window-attention block that is not hash-routed, two d x d projections, three norms and a
    collapse; a token leaves out the embedding table and E - k experts of every layer."""
    d, n = config.hidden_size, config.hc_mult
    block = replace(config, num_layers=1, compress_ratios=(WINDOW,), hash_layers=0)
    sizes = hf_sizes(hf_model(block, "meta"))
    layer = sum(size for name, size in sizes.items() if name.startswith("model.layers.0."))
    found = count.parameters(config)
    assert found.mtp == layer + 2 * d * d + 3 * d + (n * n * d + n + 1)
    idle = config.num_layers * (config.num_experts - config.experts_per_token) * 3 * d * config.expert_size
    assert found.active == found.total - config.vocab_size * d - idle


def test_mtp_depth_and_shared_experts_are_followed():
    one, two = ModelConfig.tiny(), ModelConfig.tiny(mtp_layers=2)
    assert count.parameters(two).mtp == 2 * count.parameters(one).mtp
    assert count.flops(two, 64, mtp=True).mtp == pytest.approx(2 * count.flops(one, 64, mtp=True).mtp, rel=1e-12)
    assert "shared_experts" not in count.parameters(ModelConfig.tiny(num_shared_experts=0)).parts
    none = ModelConfig.tiny(mtp_layers=0)
    assert count.parameters(none).mtp == count.flops(none, 64, mtp=True).mtp == 0


@pytest.mark.parametrize(
    ("config", "seq_len", "forward", "indexer", "core"),
    [
        (ModelConfig.flash(), 4096, 28.5, 0.18, 1.8),
        (ModelConfig.flash(), 65_536, 32.2, 2.8, 2.8),
        (ModelConfig.flash(), 131_072, 35.7, 5.7, 3.5),
        (ModelConfig.flash(), 1_048_576, 84.9, 45, 12.9),
        (ModelConfig.pro(), 4096, 104.2, 0.25, 6.2),
        (ModelConfig.pro(), 65_536, 113.7, 4.1, 11.9),
        (ModelConfig.pro(), 131_072, 120.0, 8.1, 14.1),
        (ModelConfig.pro(), 1_048_576, 206.0, 65, 43.4),
    ],
)
def test_flops_equal_the_recorded_table(config, seq_len, forward, indexer, core):
    """GFLOP per token, to the digits recorded."""
    found = count.flops(config, seq_len)
    attention = found.parts["window_attention"] + found.parts["compressed_attention"]
    for value, recorded in ((found.forward, forward), (found.parts["indexer_scores"], indexer), (attention, core)):
        digits = len(str(recorded).partition(".")[2])
        assert round(value / 1e9, digits) == recorded
    assert found.training == 3 * found.forward


def test_linear_head_and_mtp_equal_the_recorded_table():
    flash, pro = (count.flops(c, 4096, mtp=True) for c in (ModelConfig.flash(), ModelConfig.pro()))
    assert [round(f.linear / 1e9, 1) for f in (flash, pro)] == [25.5, 95.8]
    assert [round(f.parts["head"] / 1e9, 2) for f in (flash, pro)] == [1.06, 1.85]
    assert [round(f.mtp / 1e9, 2) for f in (flash, pro)] == [1.81, 3.93]


def counted_by_torch(config: ModelConfig, seq_len: int) -> int:
    """Matrix-product FLOPs of one forward pass of transformers' model over one document."""
    model = hf_model(config, "cpu").eval()
    for name, table in model.named_buffers():
        if name.endswith("tid2eid"):  # zeros: one expert six times over; any distinct experts do
            table.copy_(torch.arange(table.shape[1]).expand_as(table))
    tokens = torch.arange(seq_len)[None] % config.vocab_size
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(input_ids=tokens, use_cache=False)
    return counter.get_total_flops()


def executed_densely(config: ModelConfig, ratios: tuple[int, ...], seq_len: int) -> int:
    """What transformers' eager attention multiplies: all keys for all queries, masked afterwards. It scores all
    entries, weighs the heads elementwise, and mixes streams in one matrix product per sub-layer, the rest elementwise:
    torch counts products only."""
    s, n = seq_len, config.hc_mult
    total = 2 * len(ratios) * s * 2 * n * n * config.hidden_size
    for ratio in ratios:
        entries = s // ratio if ratio else 0
        total += 4 * config.num_heads * config.head_dim * s * (s + entries)
        if ratio == SPARSE:
            total += 2 * config.index_heads * config.index_dim * s * entries
    return total


@pytest.mark.parametrize("seq_len", [64, 300])
def test_linear_flops_equal_torchs_counter_exactly(seq_len):
    """Every product with a weight, head included, for every layer kind; attention as executed, densely."""
    config = ModelConfig.tiny()
    ours = count.flops(config, seq_len)
    linear = (ours.linear + ours.parts["head"]) * seq_len
    assert counted_by_torch(config, seq_len) == linear + executed_densely(config, config.compress_ratios, seq_len)


def test_mtp_flops_equal_torchs_counter_for_its_block():
    """Block, collapse and head as transformers runs them for one such layer, and the projections by hand: W_e on one
    vector, W_h on every stream."""
    config, seq_len = ModelConfig.tiny(), 48
    d = config.hidden_size
    block = replace(config, num_layers=1, compress_ratios=(WINDOW,), hash_layers=0)
    torchs = counted_by_torch(block, seq_len) - executed_densely(block, (WINDOW,), seq_len)
    projections = 2 * d * d * (1 + config.hc_mult)
    parts = count.flops(config, seq_len, mtp=True).mtp_parts
    ours = sum(value for name, value in parts.items() if name not in count.OPERATIONS)
    assert ours * seq_len == torchs + projections * seq_len
    assert parts["window_attention"] == 4 * config.num_heads * config.head_dim * count.window_visible(seq_len, 16)


def test_sparse_operations_equal_an_enumeration_of_what_each_token_sees():
    """Attention, scores and mixing token by token, from the visibility rules of the report."""
    config, seq_len = ModelConfig.tiny(), 301
    d, n, heads = config.hidden_size, config.hc_mult, config.num_heads * config.head_dim
    window = compressed = scores = 0
    for ratio in config.compress_ratios:
        for t in range(seq_len):
            window += 4 * heads * len(range(max(0, t - config.window + 1), t + 1))
            visible = [j for j in range(seq_len // ratio) if (j + 1) * ratio <= t + 1] if ratio else []
            if ratio == SPARSE:
                scores += len(visible) * config.index_heads * (2 * config.index_dim + 2)
                visible = visible[: config.index_topk]
            compressed += 4 * heads * len(visible)
    parts = count.flops(config, seq_len).parts
    assert parts["window_attention"] * seq_len == pytest.approx(window, rel=1e-12)
    assert parts["compressed_attention"] * seq_len == pytest.approx(compressed, rel=1e-12)
    assert parts["indexer_scores"] * seq_len == pytest.approx(scores, rel=1e-12)
    per_sub_layer = 2 * n * d + 2 * n * n * d + 2 * n * d
    assert parts["stream_mixing"] == 2 * config.num_layers * per_sub_layer + 2 * n * d


@pytest.mark.parametrize("seq_len", [1, 2, 3, 4, 5, 15, 16, 17, 127, 128, 129, 300, 1025])
def test_mean_visible_counts_equal_brute_force(seq_len):
    tokens = range(seq_len)
    for window in (1, 16, 128, 4096):
        assert count.window_visible(seq_len, window) == sum(min(t + 1, window) for t in tokens) / seq_len
    for ratio in (4, 128):
        for limit in (None, 1, 8, 512):
            most = seq_len if limit is None else limit
            expected = sum(min((t + 1) // ratio, most) for t in tokens) / seq_len
            assert count.compressed_visible(seq_len, ratio, limit) == expected


def test_flops_are_the_sum_over_layers():
    """Every layer's own cost, as the planner uses it, plus head and collapse."""
    config = ModelConfig.flash()
    layers = [count.layer_flops(config, layer, 4096) for layer in range(config.num_layers)]
    head = 2 * config.hidden_size * (config.vocab_size + config.hc_mult**2 + config.hc_mult)
    assert sum(sum(layer.values()) for layer in layers) + head == pytest.approx(count.flops(config, 4096).forward)


def test_results_cannot_be_changed():
    with pytest.raises(TypeError):
        count.parameters(ModelConfig.tiny()).parts["head"] = 0  # type: ignore[index]


@pytest.mark.parametrize("seq_len", [0, -4, 2.5, True, "4096"])
def test_a_length_that_cannot_be_is_refused(seq_len):
    with pytest.raises(ConfigError, match=r"seq_len = .*; accepted: integers from 1"):
        count.flops(ModelConfig.tiny(), seq_len)
