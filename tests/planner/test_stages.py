"""Layers and FLOPs of stages."""

import pytest

from trex.model.config import ModelConfig
from trex.model.count import flops
from trex.planner.schedules import ScheduleError
from trex.planner.stages import stage_flops, stage_layers


def test_the_published_layout_of_pro():
    layers = stage_layers(stages=16, slots_per_stage=4, noop_slots=(3, 62, 63))
    assert [len(stage) for stage in layers] == [3] + [4] * 14 + [2]
    assert layers[0] == (0, 1, 2) and layers[1] == (3, 4, 5, 6) and layers[-1] == (59, 60)
    # profile of the report: 224 = 7 * 32 calls of sparse attention on rank 0 or 7, the latter with its MTP block
    on_rank = [len(layers[rank]) + len(layers[rank + 8]) for rank in range(8)]
    assert on_rank == [7, 8, 8, 8, 8, 8, 8, 6]


@pytest.mark.parametrize("config", [ModelConfig.pro(), ModelConfig.flash(), ModelConfig.tiny(mtp_layers=0)])
def test_stages_add_up_to_the_model(config):
    stages = config.num_layers // 2 + 1
    layers = stage_layers(stages, 2, tuple(range(config.num_layers, 2 * stages)))
    costs = stage_flops(config, layers, 512)
    assert len(costs) == stages
    assert sum(costs) == pytest.approx(flops(config, 512, mtp=config.mtp_layers > 0).forward, rel=1e-12)
    head = 2 * config.vocab_size * config.hidden_size
    assert costs[-1] >= head * (1 + config.mtp_layers)


def test_slots_and_layers_that_do_not_fit_are_named():
    with pytest.raises(ScheduleError, match=r"no-op slots \[8\]; accepted: different slots from 0 to 7"):
        stage_layers(2, 4, (8,))
    with pytest.raises(ScheduleError, match="no-op slots"):
        stage_layers(2, 4, (3, 3))
    with pytest.raises(ScheduleError, match="60 layers on the stages; accepted: the 61 of DeepSeek-V4-Pro"):
        stage_flops(ModelConfig.pro(), stage_layers(15, 4), 4096)
