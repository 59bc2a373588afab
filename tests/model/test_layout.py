"""Legal layouts, where their layers live, and a LayoutError that names what is wrong with the others."""

from collections import Counter
from dataclasses import fields, replace
from itertools import product

import pytest

from trex.model import layout as layout_module
from trex.model.config import ModelConfig
from trex.model.layout import FP32_SHARDS, Layout, LayoutError
from trex.model.published_layouts import published_layout, published_layouts
from trex.planner import schedules
from trex.published import load

PUBLISHED = {found.name: found for found in published_layouts()}


@pytest.mark.parametrize("found", PUBLISHED.values(), ids=PUBLISHED)
def test_published_layouts_are_legal(found):
    found.layout.check(found.config, devices=found.devices, seq_len=found.seq_len)
    assert set(found.assumed) <= {field.name for field in fields(Layout)}
    assert bool(found.assumed) == bool(found.reason)
    assert found.source


MEGATRON = {"sharding": "optimizer", "recompute": "full", "swap_optimizer": True}
FLASH = MEGATRON | {"pp": 4, "ep": 32, "dp": 32, "global_batch": 128, "noop_layers": (43,)}
PRO = MEGATRON | {"tp": 2, "pp": 8, "vpp": 2, "ep": 64, "dp": 32, "noop_layers": (3, 62, 63)}
PRO |= {"sequence_parallel": True, "schedule": "interleaved"}
FSDP2 = {"sharding": "parameters", "recompute": "full", "precision": FP32_SHARDS}
SWAPPED = FSDP2 | {"swap_optimizer": True}
# as read in the scripts: fields of the layout, tokens, dies, micro-batches of a step
RECORDED = {
    "T-Rex Pro CPT": (PRO | {"global_batch": 256}, 4096, 512, 8),
    "T-Rex Pro SFT": (PRO | {"global_batch": 1024}, 4096, 512, 32),
    "T-Rex Flash CPT": (FLASH, 4096, None, 4),
    "T-Rex Flash SFT": (FLASH, 8192, 128, 4),
    "MindSpeed-LLM Flash 4K": (
        PRO | {"pp": 2, "ep": 128, "dp": 64, "global_batch": 1024, "noop_layers": (43,)}, 4096, 256, 16
    ),
    "MindSpeed-LLM Flash 128K": (FLASH | {"cp": 16, "dp": 4, "global_batch": 64}, 131_072, 256, 16),
    "MindSpeed-LLM Flash FSDP2": (FSDP2 | {"ep": 128, "dp": 256, "micro_batch": 2, "global_batch": 2048}, 4096, 256, 4),
    "torchtitan-npu Flash": (SWAPPED | {"ep": 128, "dp": 128, "global_batch": 1024}, 4096, 128, 8),
    "torchtitan-npu Pro": (SWAPPED | {"ep": 384, "dp": 384, "global_batch": 384}, 4096, 384, 1),
}  # fmt: skip


def test_published_layouts_are_those_of_the_scripts():
    found = {name: (each.layout, each.seq_len, each.devices) for name, each in PUBLISHED.items()}
    assert found == {name: (Layout(**fields), *rest) for name, (fields, *rest, _) in RECORDED.items()}
    assert [each.layout.micro_batches for each in PUBLISHED.values()] == [count for *_, count in RECORDED.values()]
    assumed = {name: each.assumed for name, each in PUBLISHED.items() if each.assumed}
    assert assumed == {"T-Rex Flash CPT": ("dp",), "torchtitan-npu Pro": ("ep",)}


def test_published_layer_slots_are_the_layers_and_no_ops():
    """Two statements of each Megatron script that meet: its layer slots, and the model's layers plus its no-ops."""
    slots = {row.name: row["layer_slots"].value for row in load("layouts") if "layer_slots" in row.numbers}
    assert len(slots) == 6
    for name, count in slots.items():
        assert count == PUBLISHED[name].config.num_layers + len(PUBLISHED[name].layout.noop_layers)


def test_a_row_without_layout_is_refused():
    with pytest.raises(LayoutError, match="T-Rex Flash 50K SFT stability run: not public; accepted: rows of `layouts`"):
        published_layout(load("layouts")["flash_50k"])


def test_layers_fall_on_the_positions_whose_ratios_the_script_lists():
    """The Pro script gives one ratio per position, 0 for a no-op: 128 128 4 0, then 128 4 repeated, 128 4 0 0."""
    found = PUBLISHED["T-Rex Pro CPT"]
    script = (128, 128, 4, 0, *(128, 4) * 29, 0, 0)
    layers = iter(layer for stage in found.layout.stages(found.config) for layer in stage.layers)
    noops = found.layout.noop_layers
    ours = tuple(0 if position in noops else found.config.compress_ratios[next(layers)] for position in range(64))
    assert ours == script


def test_published_group_sizes():
    """MindSpeed-LLM's FSDP2 recipe states ep_fsdp 2; every EP that fills its pipeline rank leaves one replica."""
    assert PUBLISHED["MindSpeed-LLM Flash FSDP2"].layout.expert_dp == 2
    assert PUBLISHED["T-Rex Pro CPT"].layout.expert_dp == 1
    assert PUBLISHED["MindSpeed-LLM Flash 128K"].layout.dense_dp == 64


@pytest.mark.parametrize("schedule", layout_module.SCHEDULES)
@pytest.mark.parametrize("pp", [2, 3, 4])
def test_every_layer_lives_once_where_the_schedule_runs_its_stage(schedule, pp):
    vpp = 1 if schedule in ("gpipe", "1f1b") else 2 if schedule in layout_module.V_SHAPED else 3
    config = ModelConfig.tiny(num_layers=54, compress_ratios=(0, 4, 128) * 18)
    found = Layout(pp=pp, vpp=vpp, schedule=schedule, noop_layers=tuple(range(3, 72, 4))).stages(config)
    assert [layer for stage in found for layer in stage.layers] == list(range(54))
    on_rank = [tuple(stage.index for stage in found if stage.rank == rank) for rank in range(pp)]
    turning = schedule in ("zb-v", "dualpipe-v")
    expected = [(rank, 2 * pp - 1 - rank) if turning else tuple(range(rank, pp * vpp, pp)) for rank in range(pp)]
    assert on_rank == expected
    assert [stage.embedding for stage in found] == [True] + [False] * (pp * vpp - 1)
    assert [stage.head for stage in found] == [False] * (pp * vpp - 1) + [True]
    assert [stage.embedding_copy for stage in found[:-1]] == [False] * (pp * vpp - 1)
    assert found[-1].embedding_copy == (schedule not in layout_module.V_SHAPED)


@pytest.mark.parametrize("schedule", layout_module.SCHEDULES)
def test_schedule_rules_agree_with_the_scheduler(schedule):
    """Legal exactly where the planner can order the operations, for pp of 2 to 4."""
    for pp, vpp, micro_batches in product((2, 3, 4), (1, 2, 3), (1, 2, 3, 4, 5, 7, 8, 9, 12)):
        try:
            schedules.schedule(schedule, pp, micro_batches, vpp)
            runs = True
        except schedules.ScheduleError:
            runs = False
        try:
            Layout(pp=pp, vpp=vpp, schedule=schedule, global_batch=micro_batches)
            legal = True
        except LayoutError:
            legal = False
        assert runs == legal, (schedule, pp, vpp, micro_batches)


def test_uneven_stages_and_noops():
    config = ModelConfig.tiny()
    found = Layout(pp=3, stage_layers=(1, 4, 2), noop_layers=(3,)).stages(config)
    assert [stage.layers for stage in found] == [(0,), (1, 2, 3), (4, 5)]
    assert not any(stage.embedding_copy for stage in Layout(pp=2).stages(ModelConfig.tiny(mtp_layers=0)))
    assert Layout().stages(config) == (layout_module.Stage(0, 0, (0, 1, 2, 3, 4, 5), True, True, False),)


def test_experts_are_held_by_expert_dp_ranks():
    """Place the experts of a pipeline rank on its ranks, in the order of Megatron's groups, and count the holders."""
    for tp, cp, dp, ep, etp in product((1, 2, 4), (1, 2), (1, 2, 4), (1, 2, 4, 8), (1, 2)):
        ranks = tp * cp * dp
        if ranks % (ep * etp):
            with pytest.raises(LayoutError, match=f"ep = {ep}, etp = {etp}; accepted: .* tp x cp x dp = {ranks}"):
                Layout(tp=tp, cp=cp, dp=dp, ep=ep, etp=etp)
            continue
        holders = Counter(
            (expert, part)
            for rank in range(ranks)
            for expert in range(8)
            for part in range(etp)
            if rank // etp % ep == expert * ep // 8 and rank % etp == part
        )
        assert set(holders.values()) == {Layout(tp=tp, cp=cp, dp=dp, ep=ep, etp=etp).expert_dp}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tp": 0}, "tp = 0; accepted: integers from 1"),
        ({"pp": 2.0}, "pp = 2.0; accepted: integers from 1"),
        ({"dp": True}, "dp = True; accepted: integers from 1"),
        ({"micro_batch": -1}, "micro_batch = -1; accepted: integers from 1"),
        ({"sharding": "zero3"}, "sharding = 'zero3'; accepted: none, optimizer, gradients, parameters"),
        ({"recompute": None}, "recompute = None; accepted: none, selective, full"),
        ({"schedule": "2f2b"}, "schedule = '2f2b'; accepted: gpipe, 1f1b, interleaved, zb-v, dualpipe-v"),
        ({"swap_optimizer": 1}, "swap_optimizer = 1; accepted: True, False"),
        ({"precision": 2}, "precision = 2; accepted: bytes per parameter from 1"),
        ({"sequence_parallel": True}, "sequence_parallel = True; accepted: False where tp = 1"),
        ({"ep": 4, "dp": 2}, "ep = 4, etp = 1; accepted: ep x etp divides tp x cp x dp = 2"),
        ({"etp": 2}, "ep = 1, etp = 2; accepted: ep x etp divides tp x cp x dp = 1"),
        (
            {"dp": 2, "micro_batch": 3, "global_batch": 8},
            "global_batch = 8; accepted: multiples of micro_batch x dp = 6",
        ),
        ({"global_batch": 0}, "global_batch = 0; accepted: integers from 1, or None"),
        ({"pp": 2, "vpp": 2}, "stages per rank (vpp) = 2; accepted under 1f1b: 1"),
        ({"pp": 2, "schedule": "interleaved"}, "stages per rank (vpp) = 1; accepted under interleaved: from 2"),
        ({"vpp": 2, "schedule": "interleaved"}, "schedule = 'interleaved'; accepted: gpipe, 1f1b where pp = 1"),
        ({"pp": 2, "vpp": 3, "schedule": "zb-v"}, "stages per rank (vpp) = 3; accepted under zb-v: 2"),
        (
            {"pp": 4, "vpp": 2, "schedule": "dualpipe-v", "global_batch": 7},
            "micro-batches = 7 on 4 ranks; accepted under dualpipe-v: from 2 x ranks = 8",
        ),
        (
            {"pp": 4, "vpp": 2, "schedule": "interleaved", "global_batch": 9},
            "micro-batches = 9 on 4 ranks; accepted under interleaved: multiples of 2",
        ),
        ({"noop_layers": [3]}, "noop_layers = [3]; accepted: a tuple of positions from 0"),
        ({"noop_layers": (4, 3)}, "noop_layers = (4, 3); accepted: positions in rising order, each once"),
        ({"noop_layers": (3, 3)}, "noop_layers = (3, 3); accepted: positions in rising order, each once"),
        ({"pp": 2, "stage_layers": (6,)}, "stage_layers = (6,); accepted: pp x vpp = 2 stages"),
        ({"stage_layers": (0,)}, "stage_layers = (0,); accepted: None, or a tuple"),
    ],
)
def test_what_no_model_could_run_under_is_refused(change, message):
    with pytest.raises(LayoutError) as caught:
        Layout(**change)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("layout", "arguments", "message"),
    [
        (Layout(tp=8), {}, "tp = 8; accepted: divisors of num_heads = 4"),
        (Layout(tp=4), {}, "tp = 4; accepted: divisors of o_groups = 2"),
        (Layout(ep=16, dp=16), {}, "ep = 16; accepted: at most num_experts = 8"),
        (Layout(ep=3, dp=3), {}, "ep = 3; accepted: divisors of num_experts = 8"),
        (Layout(etp=3, dp=3), {}, "etp = 3; accepted: divisors of expert_size = 32"),
        (Layout(pp=4), {}, "pp = 4, vpp = 1; accepted: pp x vpp divides 6"),
        (Layout(pp=2, stage_layers=(3, 4)), {}, "stage_layers = (3, 4); accepted: a sum of 6"),
        (Layout(noop_layers=(7,)), {}, "noop_layers = (7,); accepted: positions below 7"),
        (Layout(pp=4, noop_layers=(0, 1)), {}, "virtual stage 0 holds no layer"),
        (
            Layout(tp=2, pp=2, cp=2, dp=2),
            {"devices": 15},
            "devices = 15; accepted: 16, which is tp 2 x pp 2 x cp 2 x dp 2",
        ),
        (Layout(cp=4), {"seq_len": 6}, "cp = 4; accepted: divisors of seq_len = 6"),
        (
            Layout(tp=2, cp=2, sequence_parallel=True),
            {"seq_len": 6},
            "tp = 2; accepted: divisors of seq_len / cp (sequence_parallel) = 3",
        ),
        (Layout(), {"seq_len": 0}, "seq_len = 0; accepted: integers from 1"),
    ],
)
def test_what_this_model_cannot_run_under_is_refused(layout, arguments, message):
    with pytest.raises(LayoutError) as caught:
        layout.check(ModelConfig.tiny(), **arguments)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("over", "message"),
    [
        ({"vocab_size": 513}, "tp = 2; accepted: divisors of vocab_size = 513"),
        ({"index_heads": 15}, "tp = 2; accepted: divisors of index_heads = 15"),
        ({"expert_size": 33}, "tp = 2; accepted: divisors of shared expert channels = 33"),
    ],
)
def test_tensor_parallelism_splits_vocabulary_indexer_and_shared_expert(over, message):
    with pytest.raises(LayoutError) as caught:
        Layout(tp=2).check(ModelConfig.tiny(**over))
    assert str(caught.value) == message


def test_the_hint_of_an_uneven_pipeline_is_a_legal_layout():
    """Flash has 43 layers: four stages need one no-op."""
    with pytest.raises(LayoutError, match="add 1 to noop_layers"):
        Layout(pp=4).check(ModelConfig.flash())
    Layout(pp=4, noop_layers=(43,)).check(ModelConfig.flash())


def test_micro_batches_need_a_global_batch():
    with pytest.raises(LayoutError, match="global_batch = None"):
        _ = Layout().micro_batches
    assert Layout(dp=4, micro_batch=2, global_batch=64).micro_batches == 8


def test_a_changed_layout_is_checked_again():
    with pytest.raises(LayoutError, match="vpp"):
        replace(PUBLISHED["T-Rex Pro CPT"].layout, schedule="1f1b")
