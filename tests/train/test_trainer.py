"""The trainer repeats bit for bit, resumes to the same trajectory, and does what a plain loop does."""

import copy
import dataclasses
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from trex.checkpoint.training import TrainingState, load_model, model_config, read_documents, save
from trex.data.tokens import IGNORE, Rows, pack
from trex.device import detect
from trex.model.config import HEAVY, SPARSE, WINDOW, ModelConfig
from trex.model.layout import Layout
from trex.model.transformer import Transformer
from trex.train.metrics import Step
from trex.train.recipes import TrainConfig, TrainError, learning_rate
from trex.train.trainer import Run, evaluate, optimizer_of, row_order, train

MODEL = ModelConfig.tiny(
    num_layers=3, compress_ratios=(WINDOW, SPARSE, HEAVY), hash_layers=1, vocab_size=40, hidden_size=32
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


def rows(seed: int = 0, count: int = 12) -> Rows:
    """Documents of 3 to 300 tokens that follow a rule, so that there is something to learn."""
    draw = torch.Generator().manual_seed(seed)
    lengths = torch.randint(3, 200, (count,), generator=draw).tolist()
    return pack([[0, *((torch.arange(n) * 7 + k) % 38 + 2).tolist(), 1] for k, n in enumerate(lengths)], 140)


def start(seed: int = 0) -> Transformer:
    return Transformer(MODEL, seed=seed)


def go(
    folder: Path | None = None, model: Transformer | None = None, recipe: TrainConfig = RECIPE, **more: object
) -> Run:
    return train(model or start(), rows(), recipe, held_out=rows(1, 3), folder=folder, device=CPU, **more)


def trajectory(run: Run) -> list[tuple[object, ...]]:
    return [dataclasses.astuple(dataclasses.replace(s, tokens_per_s=None)) for s in run.history.steps]


def assert_same(first: Run, second: Run) -> None:
    assert trajectory(first) == trajectory(second)
    theirs = second.model.state_dict()
    assert all(torch.equal(value, theirs[name]) for name, value in first.model.state_dict().items())


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Path]:
    folder = tmp_path_factory.mktemp("run")
    return go(folder), folder


@pytest.mark.parametrize("keep", [1, 3, 5, 20])
def test_the_last_checkpoints_are_kept(tmp_path: Path, keep: int) -> None:
    go(tmp_path, recipe=dataclasses.replace(RECIPE, steps=4, save_every=1, eval_every=0, keep=keep))
    assert sorted(path.name for path in tmp_path.glob("step-*")) == [f"step-{n:08d}" for n in (1, 2, 3, 4)][-keep:]


def test_the_loss_falls_and_is_measured_where_asked(undisturbed: tuple[Run, Path]) -> None:
    history = undisturbed[0].history
    assert history.held_out()["step"] == [0, 3, 6]
    assert history.held_out()["held_out"][-1] < history.held_out()["held_out"][0] - 0.1
    losses = history.losses()
    assert list(losses) == ["step", "tokens", "loss", "mtp", "indexer", "balance", "grad_norm", "lr"]
    assert losses["step"] == [1, 2, 3, 4, 5, 6]
    for name in ("loss", "mtp"):  # at first the guess is uniform
        assert losses[name][0] == pytest.approx(torch.tensor(40.0).log().item(), abs=0.1)
        assert losses[name][-1] < losses[name][0] - 0.1
    assert all(value > 0 for value in losses["indexer"])
    assert losses["balance"][0] == pytest.approx(3, abs=0.1)  # three layers route by score, almost evenly at first
    assert len(history.imbalance()) == 4 and all(len(layer) == 6 and min(layer) >= 1 for layer in history.imbalance())


def test_the_selection_biases_move_and_are_saved(undisturbed: tuple[Run, Path]) -> None:
    run, folder = undisturbed
    saved = load_model(folder / "step-00000006").state_dict()
    biases = {name: value for name, value in run.model.state_dict().items() if name.endswith("gate.bias")}
    assert len(biases) == 3
    for name, value in biases.items():
        assert torch.equal(saved[name], value)
        in_steps = value / RECIPE.bias_speed
        assert torch.allclose(in_steps, in_steps.round(), atol=1e-3) and in_steps.abs().max() in (4, 5, 6)


def test_a_rerun_repeats_bit_for_bit(undisturbed: tuple[Run, Path]) -> None:
    assert_same(go(), undisturbed[0])


def test_the_seed_changes_the_order(undisturbed: tuple[Run, Path]) -> None:
    assert trajectory(go(recipe=dataclasses.replace(RECIPE, seed=1))) != trajectory(undisturbed[0])


def test_the_log_holds_every_step(undisturbed: tuple[Run, Path]) -> None:
    run, folder = undisturbed
    lines = (folder / "steps.jsonl").read_text().splitlines()
    assert [Step.from_json(line) for line in lines] == list(run.history.steps)
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

    def dying(*args: object) -> Step:
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
    os.truncate(tmp_path / "step-00000006" / "rank-00000.safetensors", 100)
    with pytest.warns(UserWarning, match=r"step-00000006.*rank-00000\.safetensors is truncated"):
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


def test_a_checkpoint_holds_the_documents_and_configs_and_one_without_is_not_resumed(tmp_path: Path) -> None:
    recipe = dataclasses.replace(RECIPE, steps=1, warmup_steps=0)
    run = go(tmp_path, recipe=recipe, documents={"tokenizer": {"ids": [1, 2]}})
    documents = read_documents(run.checkpoint)
    assert documents["tokenizer"] == {"ids": [1, 2]} and model_config(documents) == MODEL
    assert documents["trainer"]["step"] == 1 and documents["trainer"]["config"]["peak_lr"] == 0.01
    save(tmp_path / "step-2", TrainingState(run.model, documents={"config": dataclasses.asdict(MODEL)}))
    with pytest.raises(TrainError, match="step-2 holds no training state"):
        go(tmp_path, recipe=recipe, resume=True)
    save(tmp_path / "step-2", TrainingState(run.model, documents=documents))
    with pytest.raises(TrainError, match=r"step-2 cannot be resumed: .*there is no optimizer in it"):
        go(tmp_path, recipe=recipe, resume=True)


def two_ahead(doc_ids: Tensor, targets: Tensor) -> Tensor:
    """The token after the next one in the same document, place by place."""
    result = torch.full_like(targets, IGNORE)
    for row in range(len(targets)):
        for t in range(targets.shape[1] - 1):
            if doc_ids[row, t] == doc_ids[row, t + 1]:
                result[row, t] = targets[row, t + 1]
    return result


def mean_loss(logits: Tensor | None, targets: Tensor) -> Tensor:
    assert logits is not None
    return cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORE)


def test_three_steps_equal_a_plain_loop() -> None:
    """Whole batches, logits, torch's own mean losses, AdamW and clipping, biases by hand: in float64 to 1e-9."""
    recipe = dataclasses.replace(
        RECIPE, steps=3, micro_batch=2, weight_decay=0.3, mtp_weight=0.4, indexer_weight=0.7, balance_weight=0.2,
        bias_speed=0.01,
    )  # fmt: skip
    model, plain = start().double(), start().double()
    run = train(model, rows(), recipe, device=CPU)
    matrices = [p for p in plain.parameters() if p.dim() > 1]
    vectors = [p for p in plain.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.3}, {"params": vectors, "weight_decay": 0.0}])
    for step in range(1, 4):
        inputs, doc_ids, targets = rows().batch(row_order(len(rows()), recipe, step))
        out = plain(inputs, doc_ids)
        loss, mtp = mean_loss(out.logits, targets), mean_loss(out.mtp_logits, two_ahead(doc_ids, targets))
        indexer, balance = (out.losses[name] / out.counts[name] for name in ("indexer", "balance"))
        (loss + 0.4 * mtp + 0.7 * indexer + 0.2 * balance).backward()
        norm = torch.nn.utils.clip_grad_norm_(plain.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(recipe, step)
        optimizer.step()
        optimizer.zero_grad()
        for block, load in zip([*plain.layers, *plain.mtp], out.loads.double(), strict=True):
            if block.ffn.gate.bias is not None:
                block.ffn.gate.bias += 0.01 * torch.sign(load.mean() - load)
        found = run.history.steps[step]
        expected = [value.item() for value in (loss, mtp, indexer, balance, norm)]
        assert [found.loss, found.mtp, found.indexer, found.balance, found.grad_norm] == pytest.approx(
            expected, rel=1e-9
        )
        assert found.imbalance == pytest.approx([float(load.max() / load.double().mean()) for load in out.loads])
    assert_close(model, plain, 1e-9)


def assert_close(model: Transformer, other: Transformer, tolerance: float) -> None:
    theirs = other.state_dict()
    for name, value in model.state_dict().items():
        assert torch.allclose(value, theirs[name], rtol=0, atol=tolerance), name


@pytest.fixture(scope="module")
def two_steps() -> Run:
    """Two steps in float64, all rows of a step at once."""
    recipe = dataclasses.replace(RECIPE, steps=2, warmup_steps=0)
    return train(start().double(), rows(), recipe, held_out=rows(1, 3), device=CPU)


@pytest.mark.parametrize("change", [{"micro_batch": 1}, {"micro_batch": 2}, {"micro_batch": 2, "recompute": True}])
def test_neither_micro_batches_nor_recomputation_change_a_step(two_steps: Run, change: dict[str, object]) -> None:
    """Losses, gradient norm, loads, weights and biases after two steps, rows of very different lengths: float64."""
    recipe = dataclasses.replace(RECIPE, steps=2, warmup_steps=0, **change)
    run = train(start().double(), rows(), recipe, held_out=rows(1, 3), device=CPU)
    for found, expected in zip(run.history.steps, two_steps.history.steps, strict=True):
        for name, value in dataclasses.asdict(expected).items():
            if value is not None and name != "tokens_per_s":
                assert getattr(found, name) == pytest.approx(value, rel=1e-10), name
    assert_close(run.model, two_steps.model, 1e-10)


def test_recomputation_runs_every_layer_twice() -> None:
    for recompute, passes in ((False, 1), (True, 2)):
        model, calls = start(), []
        for block in (*model.layers, *model.mtp):
            block.register_forward_pre_hook(lambda *_, into=calls: into.append(1))
        train(model, rows(), dataclasses.replace(RECIPE, steps=1, warmup_steps=0, recompute=recompute), device=CPU)
        assert len(calls) == 4 * passes


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({}, None),
        ({"indexer": "frozen"}, ".indexer."),
        ({"indexer_weight": 0.0}, ".indexer."),
        ({"indexer": "warm-up"}, None),
        ({"mtp_weight": 0.0}, "mtp."),
        ({"bias_speed": 0.0}, "gate.bias"),
    ],
)
def test_what_a_recipe_leaves_out_keeps_its_values_and_all_else_moves(change: dict[str, object], part: str) -> None:
    run = go(recipe=dataclasses.replace(RECIPE, steps=2, warmup_steps=0, **change))
    before = start().state_dict()
    for name, after in run.model.state_dict().items():
        kept = name.endswith("tid2eid") or bool(part and part in name)
        assert torch.equal(after, before[name]) == kept, name
    losses = run.history.losses()
    assert ("mtp" in losses) == (part != "mtp.") and ("indexer" in losses) == (change != {"indexer": "frozen"})


def test_held_out_loss_is_the_mean_over_targets_each_document_alone() -> None:
    model, held = start().double(), rows(1, 5)
    total, alone = 0.0, 0
    with torch.no_grad():
        for tokens, ids, labels in zip(held.tokens, held.doc_ids, held.labels, strict=True):
            for number in set(ids.tolist()) - {-1}:
                mine = ids == number
                logits = model(tokens[mine][None]).logits[0]
                total += cross_entropy(logits, labels[mine], reduction="sum").item()
                alone += 1
    assert alone > len(held) and evaluate(model, held, 2) == pytest.approx(total / held.targets, rel=1e-10)
    assert evaluate(model, held, 2, "warm-up") != pytest.approx(total / held.targets, rel=1e-6)


def test_every_row_comes_once_per_pass() -> None:
    recipe = dataclasses.replace(RECIPE, steps=100)
    stream = torch.cat([row_order(9, recipe, step) for step in range(1, 10)]).tolist()
    assert len(stream) == 36 and all(sorted(stream[i : i + 9]) == list(range(9)) for i in range(0, 36, 9))
    assert stream[:9] != stream[9:18]
    assert len(row_order(3, recipe, 1)) == 4  # a batch larger than the data goes round


def test_a_loss_that_is_not_finite_stops_the_run_before_the_step() -> None:
    model = start()
    with torch.no_grad():
        model.head.weight[0, 0] = float("nan")
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


MUON = dataclasses.replace(RECIPE, optimizer="muon", steps=4, peak_lr=3e-3, min_lr=3e-4)


def test_a_run_with_muon_learns_and_resumes_to_the_same_trajectory(tmp_path: Path) -> None:
    whole = go(recipe=MUON)
    losses = whole.history.losses()["loss"]
    assert losses[-1] < losses[0]
    go(tmp_path, recipe=MUON)
    remove = tmp_path / "step-00000004"
    remove.rename(tmp_path / "gone")
    assert_same(go(tmp_path, recipe=MUON, resume=True), whole)


def test_muon_is_refused_where_ranks_have_parts_of_matrices() -> None:
    model = start()
    for layout in (Layout(tp=2), Layout(dp=2, sharding="parameters"), Layout(ep=2, etp=2, dp=4)):
        with pytest.raises(TrainError, match=r"muon with tp = .*; accepted: layouts that leave matrices whole"):
            optimizer_of(SimpleNamespace(layout=layout, config=MODEL, parameters=model.state_dict), MUON)
