"""What a forward through each pipeline stage costs, in FLOPs."""

from trex.model.config import ModelConfig
from trex.model.count import flops, layer_flops
from trex.model.layout import Layout


def stage_flops(config: ModelConfig, layout: Layout, seq_len: int) -> tuple[float, ...]:
    """Forward FLOPs per token of every virtual stage, in the order of the model, mean over a sequence.

    seq_len: tokens. The last stage also has the head and the MTP blocks; the embedding costs none. Raises LayoutError
    where the layers do not fill the stages.
    """
    stages = layout.stages(config)
    costs = [sum(sum(layer_flops(config, layer, seq_len).values()) for layer in stage.layers) for stage in stages]
    rest = flops(config, seq_len, mtp=config.mtp_layers > 0).forward - sum(costs)
    return tuple(cost + (rest if stage.head else 0.0) for cost, stage in zip(costs, stages, strict=True))
