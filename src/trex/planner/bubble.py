"""What can be said of a schedule without simulating it: idle seconds and activations held, in closed form.

All stages cost the same and sending costs nothing. F, B (input gradients), W (weight gradients) and F&B (an overlapped
pair) are seconds of one micro-batch through one stage, so that a rank of v stages computes for m * v * (F + B + W).
"""

import math

from trex.planner.schedules import ScheduleError, checked


def bubble_seconds(
    name: str,
    ranks: int,
    micro_batches: int,
    stages_per_rank: int | None = None,
    *,
    forward: float,
    backward: float,
    weight: float,
    overlapped: float | None = None,
) -> float:
    """Idle seconds of the rank that idles most, from the first operation of the step to the last.

    gpipe, 1f1b  (p - 1)(F + B + W), for any number of micro-batches
    interleaved  the same with the seconds of one of the v stages, so 1/v of it for the same model (Narayanan et al.,
                 arXiv 2104.04473); with fewer micro-batches than ranks (v - 1)(p - m)(F + B + W) more
    zb-v         (p - 1)F, all of it before a rank's first and after its last operation; F = B = W and m >= 2p - 1 only
                 (Zero Bubble, arXiv 2401.10241)
    dualpipe-v   (p - 1)(F&B + max(F, B) - 2W + max(0, W - B)) - min(F, (p - 1) max(0, B - F)): ours, found with the
                 simulation, not proved; it is the published formula where F = B >= W

    overlapped: F&B, by default F + B + W. Raises ScheduleError where no closed form is known, naming where one is.
    """
    stages = checked(name, ranks, micro_batches, stages_per_rank)
    whole = forward + backward + weight
    if name in ("gpipe", "1f1b", "interleaved"):
        return (ranks - 1 + (stages - 1) * max(0, ranks - micro_batches)) * whole
    if name == "zb-v":
        _check_zb_v(ranks, micro_batches)
        if not math.isclose(forward, backward) or not math.isclose(forward, weight):
            raise ScheduleError(
                f"zb-v: F, B, W = {forward}, {backward}, {weight} s; a closed form is known for F = B = W"
            )
        return (ranks - 1) * forward
    pair = whole if overlapped is None else overlapped
    hop = pair + max(forward, backward) - 2 * weight + max(0.0, weight - backward)
    return (ranks - 1) * hop - min(forward, (ranks - 1) * max(0.0, backward - forward))


def published_dualpipe_v_bubble(
    ranks: int, *, forward: float, backward: float, weight: float, overlapped: float | None = None
) -> float:
    """(PP/2 - 1)(F&B + B - 3W) with PP = 2 * ranks stages and DeepSeek's B = B + W here.

    Source: README of github.com/deepseek-ai/DualPipe.
    """
    pair = forward + backward + weight if overlapped is None else overlapped
    return (ranks - 1) * (pair + (backward + weight) - 3 * weight)


def peak_activations(name: str, ranks: int, micro_batches: int, stages_per_rank: int | None = None) -> tuple[int, ...]:
    """Most activations each rank holds, in micro-batches of one stage, from the start of F to the end of BW or W.

    gpipe m; 1f1b min(m, p - r); interleaved min(mv, (v - 1)g + 2(p - 1 - r) + 1) with g micro-batches in a round; zb-v
    2p (from m = 2p - 1); dualpipe-v 2p + 1, which is the published PP + 1. Raises ScheduleError where none is known.
    """
    stages = checked(name, ranks, micro_batches, stages_per_rank)
    if name == "gpipe":
        return (micro_batches,) * ranks
    if name == "1f1b":
        return tuple(min(micro_batches, ranks - rank) for rank in range(ranks))
    if name == "interleaved":
        in_round = micro_batches // max(1, micro_batches // ranks)
        warm_up = [(stages - 1) * in_round + 2 * (ranks - 1 - rank) for rank in range(ranks)]
        return tuple(min(micro_batches * stages, count + 1) for count in warm_up)
    if name == "zb-v":
        _check_zb_v(ranks, micro_batches)
        return (2 * ranks,) * ranks
    return (2 * ranks + 1,) * ranks


def _check_zb_v(ranks: int, micro_batches: int) -> None:
    if micro_batches < 2 * ranks - 1:
        raise ScheduleError(
            f"zb-v: {micro_batches} micro-batches do not fill {ranks} ranks; a closed form is known from "
            f"2 * ranks - 1 = {2 * ranks - 1}"
        )
