"""Every combination of parallel dimensions trains as one process does: losses, gradients, parameters; in float64."""

import os
from dataclasses import replace

import pytest
from tests.parallel.grid import LARGE, SMALL, outcomes, problems

from trex import parallel
from trex.model.layout import Layout, LayoutError
from trex.parallel.parity import Outcome, Problem, batch, model, train

BOUND = 1e-10
SP = {"sequence_parallel": True}
ZB = {"vpp": 2, "schedule": "zb-v"}
INTERLEAVED = {"vpp": 2, "schedule": "interleaved"}
UNEVEN = {"noop_layers": (3, 8), "stage_layers": (2, 3, 1, 4)}  # over four ranks

TWO = {
    "tp2": Layout(tp=2),
    "tp2 sp": Layout(tp=2, **SP),
    "tp2 ep2": Layout(tp=2, ep=2),
    "tp2 sp etp2": Layout(tp=2, etp=2, **SP),
    "dp2": Layout(dp=2),
    "dp2 optimizer": Layout(dp=2, sharding="optimizer"),
    "dp2 gradients": Layout(dp=2, sharding="gradients"),
    "dp2 parameters": Layout(dp=2, sharding="parameters"),
    "dp2 ep2": Layout(dp=2, ep=2),
    "dp2 etp2": Layout(dp=2, etp=2),
    "dp2 ep2 parameters": Layout(dp=2, ep=2, sharding="parameters"),
    "pp2 gpipe": Layout(pp=2, schedule="gpipe"),
    "pp2 1f1b": Layout(pp=2),
    "pp2 uneven": Layout(pp=2, noop_layers=(0, 7), stage_layers=(3, 7)),
    "pp2 interleaved": Layout(pp=2, **INTERLEAVED),
    "pp2 zb-v": Layout(pp=2, **ZB),
}
FOUR = {
    "tp4": Layout(tp=4),
    "tp4 sp ep2 etp2": Layout(tp=4, ep=2, etp=2, **SP),
    "dp4 ep4": Layout(dp=4, ep=4),
    "dp4 ep2 etp2": Layout(dp=4, ep=2, etp=2),
    "dp4 parameters": Layout(dp=4, sharding="parameters"),
    "dp4 hsdp": Layout(dp=4, dp_replicate=2, sharding="parameters"),
    "dp4 ep2 hsdp gradients": Layout(dp=4, ep=2, dp_replicate=2, sharding="gradients"),
    "tp2 dp2 optimizer": Layout(tp=2, dp=2, sharding="optimizer"),
    "tp2 dp2 ep2 parameters": Layout(tp=2, dp=2, ep=2, sharding="parameters"),
    "tp2 sp dp2 ep4 parameters": Layout(tp=2, dp=2, ep=4, sharding="parameters", **SP),
    "tp2 sp dp2 etp2 gradients": Layout(tp=2, dp=2, etp=2, sharding="gradients", **SP),
    "pp4 uneven 1f1b": Layout(pp=4, **UNEVEN),
    "pp4 uneven gpipe": Layout(pp=4, schedule="gpipe", **UNEVEN),
    "pp4 zb-v": Layout(pp=4, **ZB),
    "pp2 tp2 ep2": Layout(pp=2, tp=2, ep=2),
    "pp2 tp2 sp ep2": Layout(pp=2, tp=2, ep=2, **SP),
    "pp2 dp2 optimizer": Layout(pp=2, dp=2, sharding="optimizer"),
    "pp2 dp2 ep2 parameters": Layout(pp=2, dp=2, ep=2, sharding="parameters"),
    "pp2 dp2 etp2": Layout(pp=2, dp=2, etp=2),
    "pp2 interleaved dp2 ep2": Layout(pp=2, dp=2, ep=2, **INTERLEAVED),
    "pp2 interleaved dp2 gradients": Layout(pp=2, dp=2, sharding="gradients", **INTERLEAVED),
    "pp2 zb-v tp2 sp": Layout(pp=2, tp=2, **ZB, **SP),
    "pp2 tp2 parameters": Layout(pp=2, tp=2, sharding="parameters"),  # only the experts have replicas
    "pp2 zb-v tp2 optimizer": Layout(pp=2, tp=2, sharding="optimizer", **ZB),
    "pp2 zb-v dp2 ep2": Layout(pp=2, dp=2, ep=2, **ZB),
    "pp2 zb-v dp2 parameters": Layout(pp=2, dp=2, sharding="parameters", **ZB),
}
EIGHT = {
    "tp8 sp": Layout(tp=8, **SP),
    "dp8 ep8": Layout(dp=8, ep=8),
    "dp8 parameters": Layout(dp=8, sharding="parameters"),
    "dp8 ep2 etp2 hsdp parameters": Layout(dp=8, ep=2, etp=2, dp_replicate=2, sharding="parameters"),
    "tp2 sp dp4 ep2 parameters": Layout(tp=2, dp=4, ep=2, sharding="parameters", **SP),
    "pp2 tp2 sp dp2 ep2 optimizer": Layout(pp=2, tp=2, dp=2, ep=2, sharding="optimizer", **SP),
    "pp2 tp2 dp2 ep4": Layout(pp=2, tp=2, dp=2, ep=4),
    "pp2 zb-v tp2 sp dp2 ep2 parameters": Layout(pp=2, tp=2, dp=2, ep=2, sharding="parameters", **ZB, **SP),
    "pp4 interleaved tp2 ep2": Layout(pp=4, tp=2, ep=2, **INTERLEAVED),
    "pp8": Layout(pp=8),
}


def share(layouts: dict[str, Layout]) -> dict[str, Layout]:
    """Every third layout; all of them, for half an hour, where TREX_GRID=whole is in the environment."""
    return layouts if os.environ.get("TREX_GRID") == "whole" else dict(list(layouts.items())[::3])


def micro_batches(layout: Layout, problem: Problem) -> int:
    """As many as the rows of a replica allow, so that gradients are accumulated and pipelines filled."""
    return problem.rows // layout.dp if layout.dp > 1 or layout.pp > 1 else 2


def check(layouts: dict[str, Layout], problem: Problem, one: Outcome, bound: float = BOUND, **more: float) -> None:
    runs = [(layout, micro_batches(layout, problem)) for layout in layouts.values()]
    said = {
        name: wrong[:5]
        for name, found in zip(layouts, outcomes(runs, problem, **more), strict=True)
        if (wrong := problems(found, one, bound))
    }
    assert said == {}


@pytest.fixture(scope="module")
def small() -> Outcome:
    return train(Layout(), 2, SMALL)


@pytest.fixture(scope="module")
def large() -> Outcome:
    return train(Layout(), 2, LARGE)


def test_the_comparison_sees_a_small_difference(small: Outcome) -> None:
    """One gradient entry, one parameter, one loss off by 1e-7: each is told."""
    name = "layers.1.attn.compressor.ape"
    gradient, offset = small.gradients[name]
    other = gradient + 1e-7 * gradient.norm() / gradient.numel() ** 0.5
    wrong = replace(small, gradients=small.gradients | {name: (other, offset)})
    assert [text.split(":")[0] for text in problems([wrong], small, BOUND)] == [f"gradient {name}"]
    parameter, offset = small.parameters[name]
    wrong = replace(small, parameters=small.parameters | {name: (parameter * (1 + 1e-7), offset)})
    assert [text.split(":")[0] for text in problems([wrong], small, BOUND)] == [f"parameter {name}"]
    losses = [step | {"indexer": step["indexer"] * (1 + 1e-7)} for step in small.losses]
    assert len(problems([replace(small, losses=losses)], small, BOUND)) == SMALL.steps
    with pytest.raises(ValueError, match="nowhere"):
        problems([replace(small, gradients={n: g for n, g in small.gradients.items() if n != name})], small, BOUND)


def test_everything_is_trained(small: Outcome) -> None:
    """No gradient is missing or zero, so that equality says something of each."""
    assert small.gradients.keys() == small.parameters.keys() - {
        n for n in small.parameters if "gate." in n and "weight" not in n
    }
    assert [name for name, (gradient, _) in small.gradients.items() if not gradient.norm() > 0] == []
    assert small.norms[0] > 0.5  # so that it is clipped


def test_two_ranks(small: Outcome) -> None:
    chosen = ("tp2 sp", "dp2 ep2 parameters", "dp2 etp2", "pp2 interleaved", "pp2 zb-v")
    check({name: TWO[name] for name in chosen}, SMALL, small)


def test_four_ranks(small: Outcome) -> None:
    chosen = ("pp2 tp2 sp ep2", "tp2 dp2 ep2 parameters")
    check({name: FOUR[name] for name in chosen}, SMALL, small)


def test_rows_without_a_whole_block() -> None:
    """Documents of fewer than four tokens, and rows that are padding: nothing to compress, nothing to select."""
    problem = replace(SMALL, length=4, steps=1)
    check({name: TWO[name] for name in ("tp2", "tp2 sp", "dp2 ep2")}, problem, train(Layout(), 2, problem))


def test_what_cannot_be_trained_is_refused() -> None:
    mine = parallel.apply(model(SMALL), Layout(), parallel.meshes(Layout()))
    tokens, documents, targets = batch(SMALL, 0)
    for micro_batches, scales, message in (
        (3, {"lm": 1.0}, "micro-batches = 3; accepted: divisors of this replica's 4 rows"),
        (2, {"language": 1.0}, "scales of language; accepted: lm, mtp, indexer, balance"),
    ):
        with pytest.raises(LayoutError, match=message):
            mine.accumulate(tokens, documents, targets, micro_batches, scales)
    mine.accumulate(tokens, documents, targets, 2, {"lm": 1.0})
    with pytest.raises(LayoutError, match="gradients of an earlier call"):
        mine.accumulate(tokens, documents, targets, 2, {"lm": 1.0})
    for layout, message in (
        (Layout(recompute="selective"), "recompute = 'selective'; accepted in training: none, full"),
        (Layout(swap_optimizer=True), "swap_optimizer = True; accepted in training: False"),
        (Layout(pp=2, recompute="full", **ZB), "recompute = 'full' under zb-v"),
        (Layout(pp=4, global_batch=2), "micro-batches = 2 under 1f1b; accepted: from pp = 4"),
        (Layout(cp=2), "cp = 2; accepted in training: 1"),
    ):
        with pytest.raises(LayoutError, match=message):
            parallel.apply(model(SMALL), layout, parallel.meshes(Layout()))
    with pytest.raises(LayoutError, match="meshes of"):
        parallel.apply(model(SMALL), Layout(micro_batch=2), parallel.meshes(Layout()))


@pytest.mark.slow
@pytest.mark.parametrize("layouts", [TWO, FOUR, EIGHT], ids=["two", "four", "eight"])
def test_the_whole_grid(large: Outcome, layouts: dict[str, Layout]) -> None:
    assert len(TWO) + len(FOUR) + len(EIGHT) >= 40
    check(share(layouts), LARGE, large)


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        {"recompute": True},
        {"indexer": "warm-up"},
        {"indexer": "frozen"},
        {"weights": {"lm": 1.0}},
        {"weights": {"lm": 1.0, "indexer": 1.0, "balance": 0.01}},
    ],
    ids=["recompute", "warm-up", "frozen", "lm alone", "no mtp"],
)
def test_what_a_recipe_may_change(change: dict[str, object]) -> None:
    problem = replace(SMALL, **change)
    chosen = ["tp2 dp2 ep2 parameters", "pp2 tp2 sp ep2", "pp2 interleaved dp2 ep2"]
    chosen += [] if problem.recompute else ["pp2 zb-v dp2 parameters"]
    check({name: FOUR[name] for name in chosen}, problem, train(Layout(), 2, problem))


@pytest.mark.slow
def test_under_random_delays_and_with_torchs_own_checks(small: Outcome, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks sleep for up to 4 ms before every collective; DETAIL compares the ranks' collectives with each other."""
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "DETAIL")
    for layouts in (TWO, FOUR):
        fitting = {n: a for n, a in share(layouts).items() if not a.noop_layers and a.pp < 4 and a.tp <= 2}
        check(fitting, SMALL, small, delay_s=0.004)
