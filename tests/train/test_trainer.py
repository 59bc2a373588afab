"""The trainer repeats bit for bit, resumes to the same trajectory, and does what a plain loop does."""

import copy
import dataclasses
import json
import os
from pathlib import Path

import pytest
import torch
from torch.nn.functional import cross_entropy

from trex.data.tokens import IGNORE, Rows, pack
from trex.device import detect
from trex.model.config import HEAVY, SPARSE, WINDOW, ModelConfig
from trex.model.transformer import Transformer
from trex.train.metrics import Step
from trex.train.recipes import TrainConfig, TrainError, learning_rate
from trex.train.trainer import Run, evaluate, row_order, train

MODEL = ModelConfig.tiny(
    num_layers=3, compress_ratios=(WINDOW, SPARSE, HEAVY), hash_layers=1, vocab_size=40, hidden_size=32, mtp_layers=0
)
RECIPE = TrainConfig(
    steps=6,
    global_batch=4,
    micro_batch=4,
    seq_len=140,
    peak_lr=1e-2,
    min_lr=1e-3,
    warmup_steps=2,
    eval_every=3,
    save_every=2,
)
CPU = detect("cpu")


def rows(seed: int = 0, count: int = 9) -> Rows:
    """Documents of 3 to 300 tokens that follow a rule, so that there is something to learn."""
    draw = torch.Generator().manual_seed(seed)
    lengths = torch.randint(3, 300, (count,), generator=draw).tolist()
    return pack([[0, *((torch.arange(n) * 7 + k) % 38 + 2).tolist(), 1] for k, n in enumerate(lengths)], 140)


def start(seed: int = 0) -> Transformer:
    return Transformer(MODEL, seed=seed)


def go(
    folder: Path | None = None, model: Transformer | None = None, recipe: TrainConfig = RECIPE, **more: object
) -> Run:
    return train(model or start(), rows(), recipe, held_out=rows(1, 3), folder=folder, device=CPU, **more)


def trajectory(run: Run) -> list[tuple[float | None, ...]]:
    return [(s.step, s.tokens, s.loss, s.grad_norm, s.lr, s.held_out) for s in run.history.steps]


def assert_same(first: Run, second: Run) -> None:
    assert trajectory(first) == trajectory(second)
    theirs = second.model.state_dict()
    assert all(torch.equal(value, theirs[name]) for name, value in first.model.state_dict().items())


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Path]:
    folder = tmp_path_factory.mktemp("run")
    return go(folder), folder


def test_the_loss_falls_and_is_measured_where_asked(undisturbed: tuple[Run, Path]) -> None:
    history = undisturbed[0].history
    assert history.held_out()["step"] == [0, 3, 6]
    assert history.held_out()["held_out"][-1] < history.held_out()["held_out"][0] - 0.1
    assert history.losses()["step"] == [1, 2, 3, 4, 5, 6]
    assert history.losses()["loss"][0] == pytest.approx(torch.tensor(40.0).log().item(), abs=0.1)


def test_a_rerun_repeats_bit_for_bit(undisturbed: tuple[Run, Path]) -> None:
    assert_same(go(), undisturbed[0])


def test_the_seed_changes_the_order(undisturbed: tuple[Run, Path]) -> None:
    assert trajectory(go(recipe=dataclasses.replace(RECIPE, seed=1))) != trajectory(undisturbed[0])


def test_the_log_holds_every_step(undisturbed: tuple[Run, Path]) -> None:
    run, folder = undisturbed
    lines = (folder / "steps.jsonl").read_text().splitlines()
    assert [Step(**json.loads(line)) for line in lines] == list(run.history.steps)
    assert all(s.tokens_per_s and s.tokens_per_s > 0 for s in run.history.steps[1:])


def test_only_the_last_checkpoints_are_kept(undisturbed: tuple[Run, Path]) -> None:
    run, folder = undisturbed
    assert sorted(p.name for p in folder.iterdir()) == ["step-00000004", "step-00000006", "steps.jsonl"]
    assert run.checkpoint == folder / "step-00000006"


class Killed(BaseException):
    """Stands for a process that dies."""


@pytest.mark.parametrize("killed_after", [1, 2, 3, 5])
def test_a_killed_run_resumes_to_the_same_trajectory(
    undisturbed: tuple[Run, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed_after: int
) -> None:
    from trex.train import trainer

    whole = trainer._step

    def dying(*args: object) -> tuple[float, float, int]:
        if args[-1] == killed_after + 1:
            raise Killed
        return whole(*args)

    monkeypatch.setattr(trainer, "_step", dying)
    with pytest.raises(Killed):
        go(tmp_path)
    monkeypatch.undo()
    with (tmp_path / "steps.jsonl").open("ab") as stream:
        stream.write(b'{"step": 9')  # what a killed process may leave
    resumed = go(tmp_path, model=start(seed=99), resume=True)  # the weights come from the checkpoint, if there is one
    if killed_after < 2:
        assert trajectory(resumed) == trajectory(go(model=start(seed=99)))  # nothing was saved yet: a new run
    else:
        assert_same(resumed, undisturbed[0])
        assert len((tmp_path / "steps.jsonl").read_text().splitlines()) == 7


def test_a_damaged_checkpoint_is_passed_over(undisturbed: tuple[Run, Path], tmp_path: Path) -> None:
    go(tmp_path)
    os.truncate(tmp_path / "step-00000006" / "optimizer.safetensors", 100)
    with pytest.warns(UserWarning, match=r"optimizer\.safetensors has 100 bytes"):
        assert_same(go(tmp_path, resume=True), undisturbed[0])


def test_a_new_run_removes_what_an_earlier_one_left(tmp_path: Path) -> None:
    go(tmp_path)
    short = go(tmp_path, recipe=dataclasses.replace(RECIPE, steps=3, save_every=0))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step-00000003", "steps.jsonl"]
    assert len((tmp_path / "steps.jsonl").read_text().splitlines()) == len(short.history.steps) == 4


def test_resuming_a_finished_run_changes_nothing(undisturbed: tuple[Run, Path]) -> None:
    run, folder = undisturbed
    assert_same(go(folder, resume=True), run)


def test_a_run_of_other_data_or_recipe_is_not_resumed(undisturbed: tuple[Run, Path]) -> None:
    folder = undisturbed[1]
    with pytest.raises(TrainError, match=r"peak_lr 0\.01, here 0\.02"):
        go(folder, recipe=dataclasses.replace(RECIPE, peak_lr=0.02), resume=True)
    with pytest.raises(TrainError, match="rows"):
        train(start(), rows(5), RECIPE, folder=folder, resume=True, device=CPU)
    with pytest.raises(TrainError, match="of model"):
        go(folder, model=Transformer(dataclasses.replace(MODEL, swiglu_limit=9.0)), resume=True)


def test_three_steps_equal_a_plain_loop() -> None:
    """Whole batches, torch's own mean loss, AdamW and clipping: equal to float32 rounding."""
    recipe = dataclasses.replace(RECIPE, steps=3, weight_decay=0.3)
    model, plain = start(), start()
    run = train(model, rows(), recipe, device=CPU)
    matrices = [p for p in plain.parameters() if p.dim() > 1]
    vectors = [p for p in plain.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.3}, {"params": vectors, "weight_decay": 0.0}])
    for step in range(1, 4):
        inputs, targets = rows().batch(row_order(len(rows()), recipe, step))
        loss = cross_entropy(plain(inputs).logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORE)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(plain.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(recipe, step)
        optimizer.step()
        optimizer.zero_grad()
        assert run.history.steps[step].loss == pytest.approx(loss.item(), abs=1e-5)
        assert run.history.steps[step].grad_norm == pytest.approx(norm.item(), rel=1e-3)


def test_accumulation_does_not_change_the_gradient() -> None:
    """One step's gradient norm and loss for every micro-batch size, rows of very different lengths."""
    seen = []
    for micro in (1, 2, 4):
        run = train(
            start(), rows(), dataclasses.replace(RECIPE, steps=1, warmup_steps=0, micro_batch=micro), device=CPU
        )
        seen.append((run.history.steps[1].loss, run.history.steps[1].grad_norm))
    assert seen[1] == pytest.approx(seen[0], rel=1e-4) and seen[2] == pytest.approx(seen[0], rel=1e-4)


def test_the_indexer_keeps_its_weights_and_everything_else_moves(undisturbed: tuple[Run, Path]) -> None:
    before = dict(start().named_parameters())
    for name, after in undisturbed[0].model.named_parameters():
        assert torch.equal(after, before[name]) == (".indexer." in name), name


def test_held_out_loss_is_the_mean_over_targets() -> None:
    model, held = start(), rows(1, 3)
    total = 0.0
    with torch.no_grad():
        for row, length in zip(held.tokens, held.lengths.tolist(), strict=True):
            logits = model(row[None, : length - 1]).logits[0].double()
            total -= logits.log_softmax(-1)[torch.arange(length - 1), row[1:length]].sum().item()
    expected = total / int((held.lengths - 1).sum())
    assert evaluate(model, held, 2) == pytest.approx(expected, abs=1e-5)


def test_every_row_comes_once_per_pass() -> None:
    recipe = dataclasses.replace(RECIPE, steps=100)
    stream = torch.cat([row_order(9, recipe, step) for step in range(1, 10)]).tolist()
    assert len(stream) == 36 and all(sorted(stream[i : i + 9]) == list(range(9)) for i in range(0, 36, 9))
    assert stream[:9] != stream[9:18]
    assert len(row_order(3, recipe, 1)) == 4  # a batch larger than the data goes round


def test_a_loss_that_is_not_finite_stops_the_run_before_the_step() -> None:
    model = start()
    with torch.no_grad():
        model.lm_head.weight[0, 0] = float("nan")
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(TrainError, match=r"step 1: loss nan.*weights are those after step 0"):
        train(model, rows(), RECIPE, device=CPU)
    after = model.state_dict()
    assert all(torch.equal(torch.nan_to_num(after[name]), torch.nan_to_num(before[name])) for name in before)


def test_rows_of_another_length_are_refused() -> None:
    with pytest.raises(TrainError, match="seq_len is 100"):
        train(start(), rows(), dataclasses.replace(RECIPE, seq_len=100), device=CPU)
    with pytest.raises(TrainError, match="held-out"):
        train(start(), rows(), RECIPE, held_out=pack([[0, 1]], 7), device=CPU)
