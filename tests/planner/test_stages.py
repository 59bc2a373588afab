"""FLOPs of stages."""

import pytest

from trex.model.config import ModelConfig
from trex.model.count import flops, layer_flops
from trex.model.layout import Layout, LayoutError
from trex.planner.stages import stage_flops

PUBLISHED = Layout(pp=8, vpp=2, schedule="interleaved", noop_layers=(3, 62, 63))  # of the Pro model


def test_stages_of_the_published_layout_cost_their_layers():
    config = ModelConfig.pro()
    costs = stage_flops(config, PUBLISHED, 4096)
    first = sum(sum(layer_flops(config, layer, 4096).values()) for layer in (0, 1, 2))
    last = sum(sum(layer_flops(config, layer, 4096).values()) for layer in (59, 60))
    assert costs[0] == pytest.approx(first)
    head = 2 * config.vocab_size * config.hidden_size  # once for the model, once for its MTP block
    assert costs[-1] > last + 2 * head
    assert max(costs[1:-1]) / min(costs[1:-1]) < 1.01  # two layers of either kind


@pytest.mark.parametrize("config", [ModelConfig.pro(), ModelConfig.flash(), ModelConfig.tiny(mtp_layers=0)])
@pytest.mark.parametrize("schedule", ["interleaved", "zb-v"])
def test_stages_add_up_to_the_model(config, schedule):
    quarter = config.num_layers // 4
    sizes = (config.num_layers - 3 * quarter, quarter, quarter, quarter)
    layout = Layout(pp=2, vpp=2, schedule=schedule, stage_layers=sizes)
    costs = stage_flops(config, layout, 512)
    assert len(costs) == 4
    assert sum(costs) == pytest.approx(flops(config, 512, mtp=config.mtp_layers > 0).forward, rel=1e-12)


def test_layers_that_do_not_fill_the_stages_are_refused():
    with pytest.raises(LayoutError, match="add 3 to noop_layers"):
        stage_flops(ModelConfig.pro(), Layout(pp=8, vpp=2, schedule="interleaved"), 4096)
