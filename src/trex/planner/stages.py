"""Which layers a pipeline stage has, and what a forward through it costs, in FLOPs."""

from collections.abc import Sequence

from trex.model.config import ModelConfig
from trex.model.count import flops, layer_flops
from trex.planner.schedules import ScheduleError


def stage_layers(stages: int, slots_per_stage: int, noop_slots: Sequence[int] = ()) -> list[tuple[int, ...]]:
    """Layers of every stage, where stage s has the slots from s * slots_per_stage on and a no-op slot has no layer.

    Layers are numbered in order over the slots that are left. Raises ScheduleError for a no-op slot that does not exist
    or is named twice.
    """
    slots = stages * slots_per_stage
    if len(set(noop_slots)) != len(noop_slots) or not set(noop_slots) <= set(range(slots)):
        raise ScheduleError(f"no-op slots {list(noop_slots)}; accepted: different slots from 0 to {slots - 1}")
    kept = [slot for slot in range(slots) if slot not in noop_slots]
    layer_of = {slot: layer for layer, slot in enumerate(kept)}
    first_slots = range(0, slots, slots_per_stage)
    return [tuple(layer_of[s] for s in range(a, a + slots_per_stage) if s in layer_of) for a in first_slots]


def stage_flops(config: ModelConfig, layers: Sequence[Sequence[int]], seq_len: int) -> tuple[float, ...]:
    """Forward FLOPs per token of every stage. The last also has the head and the MTP blocks; the embedding costs none.

    Raises ScheduleError where the stages do not have each layer of the model once, in order.
    """
    numbered = [layer for stage in layers for layer in stage]
    if numbered != list(range(config.num_layers)):
        raise ScheduleError(f"{len(numbered)} layers on the stages; accepted: the {config.num_layers} of {config.name}")
    costs = [sum(sum(layer_flops(config, layer, seq_len).values()) for layer in stage) for stage in layers]
    trunk = sum(costs)
    costs[-1] += flops(config, seq_len, mtp=config.mtp_layers > 0).forward - trunk
    return tuple(costs)
