"""Counts against the released checkpoints' totals, transformers' modules and torch's own FLOP counter."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch.utils.checkpoint import set_checkpoint_early_stop
from torch.utils.flop_counter import FlopCounterMode

from trex.kernels import ops
from trex.kernels.attention import reference as attention
from trex.kernels.dispatch import OPERATORS
from trex.model import count
from trex.model.config import HEAVY, SPARSE, WINDOW, ConfigError, ModelConfig
from trex.model.documents import Documents
from trex.model.transformer import Transformer
from trex.model.weights import Weight, head_weights, layer_weights, mtp_weights

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


def hf_on_meta(config: ModelConfig):
    from transformers import DeepseekV4ForCausalLM

    with torch.device("meta"):
        return DeepseekV4ForCausalLM(config.to_hf())


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
    sizes = hf_sizes(hf_on_meta(config))
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
    sizes = hf_sizes(hf_on_meta(block))
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


# Against torch's counter, which sees the matrix products that are executed. So
# - products with weights are compared module by module, and with their gradients in sum;
# - attention and scores run over more keys than a query sees, and are masked: what runs is compared with the chunks of
#   the reference, `count.flops` with queries one at a time, which leave nothing to mask;
# - mixing the streams is compared but for post·y, which is no matrix product.


@pytest.fixture
def definition() -> Iterator[None]:
    """Every operator as its reference.py does it: other backends execute other products."""
    with ops.use("reference"):
        yield


def counted(config: ModelConfig, seq_len: int) -> dict[str, int]:
    """FLOPs of a forward pass over one document by torch's counter, by module; "" is the whole model."""
    tokens = torch.arange(seq_len)[None] % config.vocab_size
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        Transformer(config)(tokens, indexer="frozen")
    counts = {name: sum(each.values()) for name, each in counter.get_flop_counts().items()}
    assert counts.pop("Global") == counts["Transformer"]
    return {name.removeprefix("Transformer").removeprefix("."): flops for name, flops in counts.items()}


def own(counts: dict[str, int], module: str, children: Iterable[str]) -> int:
    """What a module multiplies outside of the children named."""
    return counts[module] - sum(counts.get(f"{module}.{child}".removeprefix("."), 0) for child in children)


def blocks(config: ModelConfig) -> list[tuple[str, int]]:
    """Name and ratio of every block, that of MTP the last."""
    return [
        *((f"layers.{i}", r) for i, r in enumerate(config.compress_ratios)),
        *[("mtp.0", WINDOW)] * config.mtp_layers,
    ]


def attended(config: ModelConfig, ratio: int, seq_len: int) -> int:
    """FLOPs of attention as the reference executes it: 128 queries at a time, the keys that any of them sees."""
    keys = 0
    for begin in range(0, seq_len, 128):
        end = min(begin + 128, seq_len)
        near = end - max(0, begin - config.window + 1)
        keys += (end - begin) * (near + (end // ratio if ratio else 0))
    return 4 * config.num_heads * config.head_dim * keys


def scored(config: ModelConfig, seq_len: int, entries: int) -> int:
    """FLOPs of index scores as the reference executes them: `entries` for every query."""
    return seq_len * entries * config.index_heads * (2 * config.index_dim + 2)


def selects(config: ModelConfig, seq_len: int) -> bool:
    return seq_len // SPARSE > config.index_topk


def mixing(config: ModelConfig) -> int:
    """FLOPs of mixing the streams around a sub-layer, as far as torch's counter sees them: collapse and K·x."""
    n, d = config.hc_mult, config.hidden_size
    return 2 * n * d + 2 * n * n * d


def by_module(weights: Iterable[Weight]) -> dict[str, int]:
    """FLOPs per token of products with weights, by module; those of mHC are the block's own."""
    sums: dict[str, int] = {}
    for weight in weights:
        if weight.part != "hyper_connections" and weight.products:
            module = weight.name.partition(".*")[0].removesuffix(".weight")
            sums[module] = sums.get(module, 0) + weight.flops
    return sums


IN_ATTENTION = ("wq_a", "wq_b", "wkv", "wo_a", "wo_b", "compressor", "indexer")
VARIANTS = [
    ModelConfig.tiny(),
    ModelConfig.tiny(index_topk=1000, hc_mult=3, window=40, mtp_layers=0, experts_per_token=3),
    ModelConfig.tiny(num_shared_experts=2, o_groups=4, hash_layers=0),
]


@pytest.mark.parametrize("seq_len", [64, 300])
@pytest.mark.parametrize("config", VARIANTS)
def test_forward_flops_equal_torchs_counter(config, seq_len, definition):
    """Every product with a weight, module by module; what is left of each block, and of the model, in closed form."""
    found, n, d = counted(config, seq_len), config.hc_mult, config.hidden_size
    layers = [weight for layer in range(config.num_layers) for weight in layer_weights(config, layer)]
    expected = by_module([*layers, *head_weights(config), *mtp_weights(config)])
    expected["head"] *= 1 + config.mtp_layers  # MTP goes through it again
    assert {name: found[name] for name in expected} == {name: seq_len * each for name, each in expected.items()}
    products = 2 * (2 + n) * n * n * d + mixing(config)  # coefficients of mHC; every block has two sub-layers
    for name, ratio in blocks(config):
        assert own(found, name, ("attn", "ffn")) == seq_len * 2 * products
        scores = scored(config, seq_len, seq_len // SPARSE) if ratio == SPARSE and selects(config, seq_len) else 0
        assert own(found, f"{name}.attn", IN_ATTENTION) == attended(config, ratio, seq_len) + scores
    called = (*(name for name, _ in blocks(config)), "mtp.0.e_proj", "mtp.0.h_proj", "head")
    collapses = (1 + config.mtp_layers) * (2 * n * n * d + 2 * n * d)
    assert own(found, "", called) == seq_len * collapses
    post_y = 2 * n * d
    mixed = 2 * config.num_layers * (mixing(config) + post_y) + 2 * n * d
    assert count.flops(config, seq_len).parts["stream_mixing"] == mixed


@pytest.mark.parametrize("indexer", ["frozen", "sparse", "warm-up"])
@pytest.mark.parametrize("config", VARIANTS)
def test_backward_is_twice_forward_for_products_with_weights(config, indexer, definition):
    """In sum over the model, exactly. What the indexer reads is detached, so its projections have gradients of weights
    alone. Attention and the indexer's loss are computed again in the backward pass, so they count four times."""
    seq_len, n, d = 300, config.hc_mult, config.hidden_size
    with FlopCounterMode(display=False) as counter, set_checkpoint_early_stop(False):
        output = Transformer(config)(torch.arange(seq_len)[None], indexer=indexer)
        logits = [output.logits, *[output.mtp_logits] * config.mtp_layers]
        (sum(each.sum() for each in logits) + sum(output.losses.values())).backward()
    parts = count.flops(config, seq_len, mtp=True)
    linear = {name: each for name, each in parts.parts.items() if name not in count.OPERATIONS}
    total = 3 * sum(each for name, each in linear.items() if name != "indexer")
    total += 3 * sum(each for name, each in parts.mtp_parts.items() if name not in count.OPERATIONS)
    total += (1 if indexer == "frozen" else 2) * linear["indexer"]
    total += 3 * (2 * len(blocks(config)) * mixing(config) + (1 + config.mtp_layers) * 2 * n * d)
    total *= seq_len
    for _, ratio in blocks(config):
        total += 4 * attended(config, ratio, seq_len)
        if ratio == SPARSE:
            every, sparse = seq_len // SPARSE, selects(config, seq_len) and indexer != "warm-up"
            total += scored(config, seq_len, every) if sparse else 0
            total += 4 * scored(config, seq_len, config.index_topk if sparse else every) if indexer != "frozen" else 0
    assert counter.get_total_flops() == total


@pytest.mark.parametrize("ratio", [WINDOW, SPARSE, HEAVY])
@pytest.mark.parametrize("seq_len", [5, 140])
def test_attention_flops_equal_torchs_counter_one_query_at_a_time(ratio, seq_len, definition, monkeypatch):
    """With all entries selected the keys of a single query are those that it sees, and nothing is masked."""
    one_by_one = partial(attention.shared_kv_attention, chunk=1)
    monkeypatch.setitem(OPERATORS, "shared_kv_attention", {"reference": one_by_one})
    config = ModelConfig.tiny(
        num_layers=1, compress_ratios=(ratio,), hash_layers=0, mtp_layers=0, index_topk=1000, num_heads=2
    )
    parts = count.flops(config, seq_len).parts
    ours = parts["window_attention"] + parts.get("compressed_attention", 0)
    found = own(counted(config, seq_len), "layers.0.attn", IN_ATTENTION)
    assert found == pytest.approx(seq_len * ours, rel=1e-12)


@pytest.mark.parametrize("seq_len", [5, 127, 300])
@torch.no_grad()
def test_scores_and_selected_entries_equal_those_of_the_operators(seq_len, definition):
    """Scores of the visible entries, a query at a time, by torch's counter; attention to the entries of a selection."""
    config, draw = ModelConfig.tiny(num_layers=1, compress_ratios=(SPARSE,), hash_layers=0), torch.Generator()
    entries = Documents.single(torch.zeros(1, seq_len), [SPARSE]).blocks[SPARSE]
    q = torch.randn(1, seq_len, config.index_heads, config.index_dim, generator=draw)
    k = torch.randn(1, len(entries), config.index_dim, generator=draw)
    w = torch.randn(1, seq_len, config.index_heads, generator=draw)
    parts = count.flops(config, seq_len).parts
    with FlopCounterMode(display=False) as counter:
        for t, visible in enumerate(entries.visible[0].tolist()):
            ops.index_scores(q[:, t : t + 1], k[:, :visible], w[:, t : t + 1])
    assert counter.get_total_flops() == pytest.approx(seq_len * parts["indexer_scores"], rel=1e-12)
    selected = ops.select_entries(q, k, w, entries.offset, entries.visible, config.index_topk)
    per_entry = 4 * config.num_heads * config.head_dim
    found = int((selected >= 0).sum()) * per_entry
    assert found == pytest.approx(seq_len * parts.get("compressed_attention", 0), rel=1e-12)


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
