"""Static memory: nothing is lost over the devices, and the bytes per parameter are those of real tensors."""

from collections import Counter
from dataclasses import replace

import pytest
import torch

from trex.model.config import HEAVY, SPARSE, WINDOW, ModelConfig
from trex.model.count import parameters
from trex.model.layout import FP32_SHARDS, SHARDINGS, Layout, LayoutError, Precision
from trex.model.published_layouts import published_layouts
from trex.planner.memory import GIB, MIB, StaticBytes, ascend_910c_die, static_bytes

PUBLISHED = {found.name: found for found in published_layouts()}
GRID = [
    Layout(),
    Layout(tp=2, sequence_parallel=True),
    Layout(dp=4),
    Layout(dp=4, ep=4),
    Layout(dp=4, ep=2, etp=2),
    Layout(tp=2, dp=2, ep=2),
    Layout(pp=2, cp=2, dp=2, ep=4),
    Layout(tp=2, pp=3, dp=2, etp=2),
    Layout(pp=2, vpp=3, schedule="interleaved", dp=2, ep=2),
    Layout(pp=2, vpp=2, schedule="zb-v", noop_layers=(2, 5), tp=2),
    Layout(pp=3, stage_layers=(1, 4, 1), ep=8, dp=8),
]


def held_by_all(c: ModelConfig, layout: Layout) -> int:
    """Parameters summed over all devices, from the closed form of the report's equations: tensor-parallel weights
    once per replica, the rest once per rank, experts once per expert replica."""
    d, width, rank = c.hidden_size, c.num_heads * c.head_dim, c.o_groups * c.o_lora_rank
    shared = 3 * d * c.expert_size * c.num_shared_experts
    split = c.q_lora_rank * width + width * c.o_lora_rank + rank * d + c.num_heads + shared
    streams = (2 * c.hc_mult + c.hc_mult**2) * (c.hc_mult * d + 1) + 3
    whole = d * c.q_lora_rank + c.q_lora_rank + d * c.head_dim + c.head_dim + c.num_experts * d + 2 * d + 2 * streams
    experts = 3 * d * c.expert_size * c.num_experts
    kinds = Counter(c.compress_ratios) + Counter({WINDOW: c.mtp_layers})
    compressor = {HEAVY: 2 * d * c.head_dim + HEAVY * c.head_dim + c.head_dim, WINDOW: 0}
    compressor[SPARSE] = 4 * d * c.head_dim + 2 * SPARSE * c.head_dim + c.head_dim
    compressor[SPARSE] += 4 * d * c.index_dim + 2 * SPARSE * c.index_dim + c.index_dim
    indexer = c.index_heads * (c.index_dim * c.q_lora_rank + d)
    blocks = kinds.total()
    collapse = c.hc_mult * (c.hc_mult * d + 1) + 1
    whole_all = blocks * whole + sum(number * compressor[ratio] for ratio, number in kinds.items())
    whole_all += (blocks - c.hash_layers) * c.num_experts + d + collapse
    whole_all += c.mtp_layers * (2 * d * d + 3 * d + collapse)
    copies = 2 if layout.pp > 1 and layout.schedule not in ("zb-v", "dualpipe-v") and c.mtp_layers else 1
    split_all = blocks * split + kinds[SPARSE] * indexer + (1 + copies) * c.vocab_size * d
    ranks = layout.tp * layout.cp * layout.dp
    expert_replicas = ranks // (layout.ep * layout.etp)
    return split_all * layout.cp * layout.dp + whole_all * ranks + blocks * experts * expert_replicas


def total(held: StaticBytes, layout: Layout, part: str) -> int:
    """Sum of a field of RankBytes over all devices."""
    return layout.world_size // layout.pp * sum(getattr(rank, part) for rank in held.ranks)


@pytest.mark.parametrize("layout", GRID, ids=str)
def test_unsharded_bytes_over_all_devices_are_replicas_times_the_model(layout):
    config = ModelConfig.tiny()
    found = static_bytes(config, layout)
    everywhere = held_by_all(config, layout)
    untrained = (config.num_layers - config.hash_layers + config.mtp_layers) * config.num_experts
    trained = everywhere - untrained * layout.tp * layout.cp * layout.dp  # selection biases have no gradient
    parts = ("dense_parameters", "expert_parameters", "weights", "gradients", "optimizer")
    dense, experts, *by_state = (total(found, layout, part) for part in parts)
    assert dense + experts == everywhere
    assert by_state == [2 * everywhere, 4 * trained, 12 * trained]


@pytest.mark.parametrize("name", ["T-Rex Pro CPT", "T-Rex Flash CPT", "MindSpeed-LLM Flash 4K"])
def test_unsharded_weights_of_the_released_models(name):
    """The same for real sizes; a single device holds each model exactly once."""
    found = PUBLISHED[name]
    held, alone = (static_bytes(found.config, layout) for layout in (found.layout, Layout()))
    assert total(held, found.layout, "weights") == 2 * held_by_all(found.config, found.layout)
    assert total(alone, Layout(), "weights") == 2 * parameters(found.config).total_with_mtp


@pytest.mark.parametrize("layout", GRID, ids=str)
def test_sharding_divides_by_the_replicas_and_only_what_it_names(layout):
    config = ModelConfig.tiny()
    full = static_bytes(config, layout)
    for sharding in SHARDINGS:
        found = static_bytes(config, replace(layout, sharding=sharding))
        level = SHARDINGS.index(sharding)
        for part, sharded_from, size in (("optimizer", 1, 12), ("gradients", 2, 4), ("weights", 3, 2)):
            for rank, whole in zip(found.ranks, full.ranks, strict=True):
                if level < sharded_from:
                    assert getattr(rank, part) == getattr(whole, part)
                    continue
                biases = whole.weights // 2 - whole.gradients // 4 if part != "weights" else 0
                dense = (whole.dense_parameters - biases) / layout.dense_dp
                exact = size * (dense + whole.expert_parameters / layout.expert_dp)
                assert exact <= getattr(rank, part) < exact + 2 * size  # padding to equal shards, two buffers


def test_bytes_per_parameter_of_the_distributed_optimizer():
    """Megatron-LM's documentation: 18 bytes per parameter without, 6 + 12 / d with the distributed optimizer."""
    config = ModelConfig.tiny(hash_layers=6, mtp_layers=0)  # no selection biases: every parameter is trained
    count = parameters(config).total
    for d in (1, 2, 4, 8):
        plain, sharded = Layout(dp=d), Layout(dp=d, sharding="optimizer")
        assert static_bytes(config, plain).largest.device == 18 * count
        assert static_bytes(config, sharded).largest.device == pytest.approx((6 + 12 / d) * count, rel=1e-5)


def tensor_bytes(tensors) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def after_one_step(masters: list[torch.Tensor]) -> int:
    """Bytes of AdamW's moments after a real step."""
    optimizer = torch.optim.AdamW(masters)
    for master in masters:
        master.grad = torch.ones_like(master)
    optimizer.step()
    return tensor_bytes(value for state in optimizer.state.values() for name, value in state.items() if name != "step")


def test_precision_defaults_are_the_bytes_of_real_training_states():
    """BF16 weights with FP32 gradients, master copy and moments; and FP32 shards, which are their own master."""
    module = torch.nn.Linear(24, 16, dtype=torch.bfloat16)
    count = sum(p.numel() for p in module.parameters())
    masters = [p.detach().float().requires_grad_() for p in module.parameters()]
    moments = after_one_step(masters)
    gradients = tensor_bytes(master.grad for master in masters)
    mixed = Precision(tensor_bytes(module.parameters()) // count, gradients // count, 0)
    assert replace(mixed, optimizer=(tensor_bytes(masters) + moments) // count) == Precision()
    assert Precision(tensor_bytes(masters) // count, gradients // count, moments // count) == FP32_SHARDS


@pytest.mark.parametrize("found", PUBLISHED.values(), ids=PUBLISHED)
def test_published_layouts_fit_a_die_and_swapping_only_moves_bytes(found):
    swapped = static_bytes(found.config, replace(found.layout, swap_optimizer=True))
    resident = static_bytes(found.config, replace(found.layout, swap_optimizer=False))
    for here, there in zip(swapped.ranks, resident.ranks, strict=True):
        assert (here.optimizer, here.host_optimizer) == (0, there.optimizer)
        assert there.host_optimizer == 0
        assert (here.weights, here.gradients) == (there.weights, there.gradients)
    assert static_bytes(found.config, found.layout).margin(ascend_910c_die()) > 0


def test_memory_of_a_die_is_that_of_the_platform_files():
    die = ascend_910c_die()
    assert (die.total, die.allocatable) == (64 * GIB, 62_420 * MIB)


def test_trex_pro_needs_the_optimizer_swap():
    """63.2 GiB of static memory per die without it, where a die can allocate 61.0; 29.4 GiB with it.

    Fullest without are the ranks of eight layers; with it, the last: six layers, MTP block, head, second embedding.
    """
    found = PUBLISHED["T-Rex Pro SFT"]
    swapped = static_bytes(found.config, found.layout)
    resident = static_bytes(found.config, replace(found.layout, swap_optimizer=False))
    assert resident.margin(ascend_910c_die()) < 0 < swapped.margin(ascend_910c_die())
    assert [round(each.largest.device / GIB, 1) for each in (resident, swapped)] == [63.2, 29.4]
    assert {rank.rank for rank in resident.ranks if rank.device == resident.largest.device} == set(range(1, 7))
    assert swapped.largest.rank == 7


def test_a_layout_that_does_not_fit_the_model_is_refused():
    with pytest.raises(LayoutError, match="ep = 16; accepted: at most num_experts = 8"):
        static_bytes(ModelConfig.tiny(), Layout(ep=16, dp=16))
