"""Checkpoints of training: everything comes back bit for bit, on any number of ranks, whatever interrupts a save."""

import io
import json
import os
import random
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from trex.checkpoint import manifest
from trex.checkpoint.errors import CheckpointError
from trex.checkpoint.steps import remove_all
from trex.checkpoint.storage import Reader, Writer
from trex.checkpoint.tensors import read_header
from trex.checkpoint.training import TrainingState, load, load_model, model_config, newest, read_documents, save
from trex.launch import ranks
from trex.model.config import HEAVY, SPARSE, ModelConfig
from trex.model.transformer import Transformer

CONFIG = ModelConfig.tiny(num_layers=2, compress_ratios=(SPARSE, HEAVY), hash_layers=1, vocab_size=300)
FROZEN = ".indexer."
Contents = dict[str, Tensor]


class Small(nn.Module):
    """Two layers, one of them frozen, with buffers of integers and of floats."""

    def __init__(self, value: float = 0.0) -> None:
        super().__init__()
        self.moving, self.frozen = nn.Linear(6, 5), nn.Linear(5, 3)
        self.register_buffer("table", torch.arange(4) + int(value))
        self.register_buffer("bias", torch.full((5,), value))
        with torch.no_grad():
            for k, parameter in enumerate(self.parameters()):
                parameter.fill_(value + k / 10)


def stepped(model: nn.Module, frozen: str, lr: float = 1e-2) -> TrainingState:
    """The model after one step of AdamW, by which the parameters with `frozen` in their names get no state."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, betas=(0.8, 0.95))
    for name, parameter in model.named_parameters():
        if frozen not in name:
            parameter.grad = parameter.detach() * 0.5 + 0.25
    optimizer.step()
    optimizer.zero_grad()
    return TrainingState(model, optimizer, {"trainer": {"step": 1}})


def small(value: float) -> TrainingState:
    return stepped(Small(value), "frozen")


def whole(value: Tensor) -> Tensor:
    return (value.full_tensor() if isinstance(value, DTensor) else value).detach().clone()


def contents(state: TrainingState) -> Contents:
    """Every tensor of model and optimizer, and the optimizer's settings."""
    names = {parameter: name for name, parameter in state.model.named_parameters()}
    found = {name: whole(value) for name, value in state.model.state_dict().items()}
    for parameter, kinds in state.optimizer.state.items():
        found |= {f"{kind} of {names[parameter]}": whole(value) for kind, value in kinds.items()}
    for k, group in enumerate(state.optimizer.param_groups):
        found[f"group {k}"] = torch.tensor([group["lr"], *group["betas"], group["weight_decay"]], dtype=torch.float64)
    return found


def same(first: Contents, second: Contents) -> bool:
    return first.keys() == second.keys() and all(
        torch.equal(value, second[name]) and value.dtype == second[name].dtype for name, value in first.items()
    )


def flipped(path: Path, place: int, bit: int) -> None:
    raw = bytearray(path.read_bytes())
    raw[place] ^= 1 << bit
    path.write_bytes(raw)


# --- one process ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TrainingState]:
    state = stepped(Transformer(CONFIG, seed=1), FROZEN)
    documents = {"config": asdict(CONFIG), "trainer": {"step": 3}, "tokenizer": {"ids": [0, 1]}}
    state = TrainingState(state.model, state.optimizer, documents)
    return save(tmp_path_factory.mktemp("run") / "step-00000003", state), state


def test_everything_comes_back(saved: tuple[Path, TrainingState]) -> None:
    """Weights, tables, selection biases, moments; no state for the parameters that had none."""
    folder, state = saved
    for other in (
        stepped(Transformer(CONFIG, seed=2), "nothing", lr=1),  # every parameter has state
        TrainingState(model := Transformer(CONFIG, seed=3), torch.optim.AdamW(model.parameters())),  # none has
    ):
        assert not same(contents(other), contents(state))
        assert load(folder, other) == json.loads(json.dumps(state.documents))
        assert same(contents(other), contents(state))
    kept = contents(state)
    assert not any("of " in name and FROZEN in name for name in kept) and any(FROZEN in name for name in kept)
    assert kept["layers.0.ffn.gate.tid2eid"].dtype == torch.int64 and "layers.1.ffn.gate.bias" in kept


def test_training_goes_on_as_if_never_interrupted(saved: tuple[Path, TrainingState]) -> None:
    folder, _ = saved
    results = []
    for seed in (5, 6):
        model = Transformer(CONFIG, seed=seed)
        optimizer = torch.optim.AdamW(model.parameters())
        load(folder, TrainingState(model, optimizer))
        for parameter in model.parameters():
            parameter.grad = torch.rand(parameter.shape)  # from the generator that was restored
        optimizer.step()
        results.append(contents(TrainingState(model, optimizer)))
    assert same(*results)


def test_generators_come_back(tmp_path: Path) -> None:
    mine = torch.Generator().manual_seed(4)
    state = TrainingState(Small(), generators={"mine": mine})
    save(tmp_path / "step-1", state)
    expected = torch.rand(3, generator=mine)
    other = torch.Generator()
    load(tmp_path / "step-1", TrainingState(Small(), generators={"mine": mine, "other": other}))
    assert torch.equal(torch.rand(3, generator=mine), expected)
    assert other.initial_seed() == torch.Generator().initial_seed()


def test_a_generator_that_does_not_take_its_state_leaves_all_as_it_was(tmp_path: Path) -> None:
    class Other:
        """One whose state has another length, as an accelerator's."""

        def get_state(self) -> Tensor:
            return torch.zeros(16, dtype=torch.uint8)

    save(tmp_path / "step-1", TrainingState(Small(1.0), generators={"a": torch.Generator(), "b": Other()}))
    first, second = (torch.Generator().manual_seed(5) for _ in range(2))
    state = small(2.0)
    before = contents(state), first.get_state()
    with pytest.raises(CheckpointError, match="generator b does not take its state"):
        load(tmp_path / "step-1", TrainingState(state.model, generators={"a": first, "b": second}))
    assert same(contents(state), before[0]) and torch.equal(first.get_state(), before[1])


def test_an_optimizer_of_another_class_or_with_other_settings_is_refused(tmp_path: Path) -> None:
    def made(kind: type[torch.optim.Optimizer], **settings: float) -> TrainingState:
        return TrainingState(model := Small(3.0), kind(model.parameters(), lr=0.1, **settings))

    adamw, sgd = small(1.0), stepped(Small(2.0), "nothing")
    sgd = TrainingState(sgd.model, torch.optim.SGD(sgd.model.parameters(), lr=0.1))
    save(tmp_path / "step-1", adamw)
    save(tmp_path / "step-2", sgd)
    for folder, other, told in (
        ("step-1", made(torch.optim.SGD, momentum=0.9), r"torch\.optim\.adamw\.AdamW, not torch\.optim\.sgd\.SGD"),
        ("step-1", made(torch.optim.Adam), r"torch\.optim\.adamw\.AdamW, not torch\.optim\.adam\.Adam$"),
        ("step-2", made(torch.optim.AdamW), r"torch\.optim\.sgd\.SGD, not torch\.optim\.adamw\.AdamW"),
    ):
        before = whole(other.model.moving.weight)
        with pytest.raises(CheckpointError, match=told):
            load(tmp_path / folder, other)
        assert torch.equal(other.model.moving.weight, before) and not other.optimizer.state
    other = made(torch.optim.AdamW)
    other.optimizer.param_groups[0]["initial_lr"] = 0.1
    with pytest.raises(CheckpointError, match="settings of group 0: initial_lr"):
        load(tmp_path / "step-1", other)
    assert not other.optimizer.state and other.optimizer.param_groups[0]["lr"] == 0.1


def test_a_tensor_as_learning_rate_comes_back(tmp_path: Path) -> None:
    """Into the tensor that is there, which a captured graph holds; into a number as a number."""

    def made(lr: float | Tensor) -> TrainingState:
        return TrainingState(model := Small(), torch.optim.AdamW(model.parameters(), lr=lr, foreach=False))

    def rate(state: TrainingState) -> float | Tensor:
        return state.optimizer.param_groups[0]["lr"]

    save(tmp_path / "step-1", made(torch.tensor(0.25)))
    tensor, number = made(held := torch.tensor(0.5)), made(0.5)
    load(tmp_path / "step-1", tensor)
    load(tmp_path / "step-1", number)
    assert rate(tensor) is held and held == 0.25
    assert rate(number) == 0.25 and isinstance(rate(number), float)
    save(tmp_path / "step-2", made(0.125))
    load(tmp_path / "step-2", tensor)
    assert rate(tensor) is held and held == 0.125


def test_folders_may_be_strings(tmp_path: Path) -> None:
    model = Transformer(CONFIG, seed=1)
    folder = str(tmp_path / "step-1")
    assert save(folder, TrainingState(model, documents={"config": asdict(CONFIG)})) == Path(folder)
    assert load(folder, TrainingState(model)) == read_documents(folder) and read_documents(folder).keys() == {"config"}
    assert newest(str(tmp_path)) == Path(folder)
    assert torch.equal(load_model(folder).head.weight, model.head.weight)


def test_the_model_is_loaded_without_knowing_its_config(saved: tuple[Path, TrainingState], tmp_path: Path) -> None:
    folder, state = saved
    model, ours = load_model(folder), state.model.state_dict()
    assert model.config == CONFIG == model_config(read_documents(folder)) and model.state_dict().keys() == ours.keys()
    assert all(torch.equal(value, ours[name]) for name, value in model.state_dict().items())
    assert all(p.requires_grad for p in model.parameters())
    double = TrainingState(Transformer(CONFIG).double(), documents={"config": asdict(CONFIG)})
    assert load_model(save(tmp_path / "step-1", double)).head.weight.dtype == torch.float64
    with pytest.raises(CheckpointError, match="no model's config"):
        load_model(save(tmp_path / "step-2", TrainingState(Small())))
    wrong = {**asdict(CONFIG), "num_heads": -1}
    with pytest.raises(CheckpointError, match="describes no model"):
        load_model(save(tmp_path / "step-3", TrainingState(Small(), documents={"config": wrong})))


def test_a_compiled_model_has_the_names_of_the_plain_one(tmp_path: Path) -> None:
    state = stepped(torch.compile(Small(1.0)), "frozen")
    plain = small(2.0)
    load(save(tmp_path / "step-1", state), plain)
    assert same(contents(plain), contents(small(1.0)))
    back = stepped(torch.compile(Small(3.0)), "nothing")
    load(tmp_path / "step-1", back)
    assert same(contents(back), contents(state))


def test_save_load_save_is_byte_identical(saved: tuple[Path, TrainingState], tmp_path: Path) -> None:
    folder, _ = saved
    model = Transformer(CONFIG, seed=9)
    state = TrainingState(model, torch.optim.AdamW(model.parameters()))
    documents = load(folder, state)
    again = save(tmp_path / "step-1", TrainingState(model, state.optimizer, documents))
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == {p.name: p.read_bytes() for p in again.iterdir()}
    assert {p.name for p in folder.iterdir()} == {
        "config.json", "optimizer.json", "rank-00000.safetensors", "tokenizer.json", "trainer.json",
        "trex_manifest.json", "trex_metadata.json",
    }  # fmt: skip


def test_all_tensors_of_another_model_are_listed_and_nothing_is_changed(tmp_path: Path) -> None:
    folder = save(tmp_path / "step-1", small(1.0))
    other = small(2.0)
    other.model.register_buffer("new", torch.ones(1))
    other.model.register_buffer("table", torch.arange(9.0))
    del other.model.frozen.bias
    before = contents(TrainingState(other.model, torch.optim.AdamW(other.model.parameters())))
    with pytest.raises(CheckpointError) as caught:
        load(folder, TrainingState(other.model, torch.optim.AdamW(other.model.parameters())))
    for part in (
        "model.new is missing",
        "model.table is torch.int64 [4], not torch.float32 [9]",
        "model.frozen.bias belongs to no part of the model",
    ):
        assert part in str(caught.value)
    assert same(contents(TrainingState(other.model, torch.optim.AdamW(other.model.parameters()))), before)
    model = Small()
    with pytest.raises(CheckpointError, match="other groups"):
        load(folder, TrainingState(model, torch.optim.AdamW(model.moving.parameters())))
    with pytest.raises(CheckpointError, match="no optimizer"):
        load(
            save(tmp_path / "step-2", TrainingState(model)), TrainingState(model, torch.optim.AdamW(model.parameters()))
        )


def test_what_cannot_be_kept_is_refused_before_writing(tmp_path: Path) -> None:
    for documents in ({"a": float("nan")}, {"a": object()}, {"../a": 1}, {"optimizer": 1}, {"trex_manifest": 1}):
        with pytest.raises(CheckpointError):
            save(tmp_path / "step-1", TrainingState(Small(), documents=documents))
    with pytest.raises(CheckpointError, match=r"model\.moving\.weight; model\.bias|model\.bias; model\.moving\.weight"):
        model = Small()
        model.bias[0], model.moving.weight.data[0, 0] = float("inf"), float("nan")
        save(tmp_path / "step-1", TrainingState(model))
    with pytest.raises(CheckpointError, match="keep = 0"):
        save(tmp_path / "step-1", TrainingState(Small()), keep=0)
    with pytest.raises(CheckpointError, match="'last' names no training checkpoint"):
        save(tmp_path / "last", TrainingState(Small()))
    other = torch.optim.AdamW(Small().parameters())
    with pytest.raises(CheckpointError, match="not the model's"):
        save(tmp_path / "step-1", TrainingState(Small(), other))
    assert list(tmp_path.iterdir()) == []


def test_the_last_ones_are_kept_by_number_and_leftovers_removed(tmp_path: Path) -> None:
    for name in (".step-1.partial", ".step-2.removed", "step-0.old", "notes", "step-7.old"):
        (tmp_path / name).mkdir()
    for step in (7, 8, 9, 10, 11):
        save(tmp_path / f"step-{step}", small(step), keep=2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["notes", "step-10", "step-11"]
    save(tmp_path / "step-3", small(3.0), keep=2)  # a run that begins anew among what an earlier one left
    assert sorted(p.name for p in tmp_path.iterdir()) == ["notes", "step-10", "step-11", "step-3"]


def test_newest_passes_over_damaged_ones(tmp_path: Path) -> None:
    assert newest(tmp_path / "none") is None
    for step in (9, 10, 11):
        save(tmp_path / f"step-{step}", small(step))
    os.truncate(tmp_path / "step-11" / "rank-00000.safetensors", 1000)
    (tmp_path / "step-10" / "trex_manifest.json").unlink()
    with pytest.warns(UserWarning) as told:
        assert newest(tmp_path) == tmp_path / "step-9"
    assert [str(w.message).partition("step-")[2].partition(" ")[0] for w in told] == ["11", "10"]
    assert "model.frozen.bias" in str(told[0].message)


def test_links_and_files_in_the_place_of_folders_stop_no_save(tmp_path: Path) -> None:
    """Only the link goes; what it points to stays."""
    run, disk = tmp_path / "run", tmp_path / "disk"
    for step in (1, 2):
        save(disk / f"step-{step}", small(float(step)))
    run.mkdir()
    for step in (1, 2):
        (run / f"step-{step}").symlink_to(disk / f"step-{step}")
    (run / ".step-1.removed").symlink_to(disk)
    (run / ".step-1.partial").write_text("")
    (run / "step-3.old").write_text("")
    (run / "step-4").symlink_to(disk / "nothing")
    assert newest(run) == run / "step-2"
    save(run / "step-2", small(3.0))  # a new one in the place of a link
    assert sorted(p.name for p in run.iterdir()) == ["step-1", "step-2", "step-4"]
    save(run / "step-4", small(4.0), keep=2)
    assert sorted(p.name for p in run.iterdir()) == ["step-2", "step-4"]
    assert not any(p.is_symlink() for p in run.iterdir()) and newest(run) == run / "step-4"
    for step in (1, 2):
        load(disk / f"step-{step}", state := small(9.0))
        assert same(contents(state), contents(small(float(step))))


def test_one_process_at_a_time_saves_in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, errors = small(1.0), small(2.0), []
    save(tmp_path / "step-1", small(0.0))
    write = Writer.write_data

    def disturbed(self: Writer, *args: object) -> object:
        result = write(self, *args)
        monkeypatch.setattr(Writer, "write_data", write)
        for attempt in (
            lambda: save(tmp_path / "step-2", second, keep=1),
            lambda: save(tmp_path / "step-9", second, keep=1),
            lambda: remove_all(tmp_path),
        ):
            with pytest.raises(CheckpointError, match="another process is saving a checkpoint in") as caught:
                attempt()
            errors.append(caught)
        assert sorted(p.name for p in tmp_path.iterdir()) == [".lock", ".step-2.partial", "step-1"]
        return result

    monkeypatch.setattr(Writer, "write_data", disturbed)
    save(tmp_path / "step-2", first, keep=1)
    assert len(errors) == 3 and [p.name for p in tmp_path.iterdir()] == ["step-2"]
    load(newest(tmp_path), state := small(5.0))
    assert same(contents(state), contents(first))
    (tmp_path / ".lock").touch()  # as a killed process leaves it
    save(tmp_path / "step-3", second, keep=1)
    assert [p.name for p in tmp_path.iterdir()] == ["step-3"]


@pytest.mark.parametrize("step", [1, 2])
def test_newest_sees_what_takes_the_place_of_what_it_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    save(tmp_path / "step-1", small(1.0))
    problems = Reader.problems

    def disturbed(self: Reader, *args: int) -> list[str]:
        monkeypatch.setattr(Reader, "problems", problems)
        self.read_metadata()
        save(tmp_path / f"step-{step}", small(2.0), keep=1)
        monkeypatch.setattr(self, "read_metadata", lambda: None)  # it has been read
        return problems(self, *args)

    monkeypatch.setattr(Reader, "problems", disturbed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert newest(tmp_path) == tmp_path / f"step-{step}"


@pytest.mark.parametrize("moment", ["read_data", "read_metadata"])
def test_what_is_loaded_is_of_one_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    """Another one takes its name between its documents and its tensors, or while these are read."""

    def numbered(value: int) -> TrainingState:
        state = small(float(value))
        return TrainingState(state.model, state.optimizer, {"trainer": {"number": value}})

    save(tmp_path / "step-1", numbered(1))
    real, calls = getattr(Reader, moment), 0

    def disturbed(self: Reader, *args: object, **more: object) -> object:
        nonlocal calls
        calls += 1
        if calls == (2 if moment == "read_metadata" else 1):  # the first call is for the documents
            save(tmp_path / "step-1", numbered(2))
        return real(self, *args, **more)

    monkeypatch.setattr(Reader, moment, disturbed)
    state = small(5.0)
    assert load(tmp_path / "step-1", state) == {"trainer": {"number": 2}}
    assert same(contents(state), contents(small(2.0))) and calls > 1


# --- several ranks ----------------------------------------------------------------------------------------------------


def sharded(seed: int, step: bool) -> TrainingState:
    model = Transformer(CONFIG, seed=seed)
    mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    for layer in (*model.layers, model):
        fully_shard(layer, mesh=mesh)
    if step:
        return stepped(model, FROZEN)
    return TrainingState(model, torch.optim.AdamW(model.parameters()))


def test_two_ranks_save_and_one_or_three_load(tmp_path: Path) -> None:
    def two(rank: int, folder: Path) -> tuple[Contents, Tensor]:
        state = sharded(1, step=True)
        torch.manual_seed(rank)
        save(folder, TrainingState(state.model, state.optimizer, {"config": asdict(CONFIG)}))
        return contents(state), torch.rand(2)

    def again(rank: int, folder: Path) -> tuple[Contents, Tensor, str]:
        state = sharded(2, step=False)
        assert newest(folder.parent) == folder
        load(folder, state)
        return contents(state), torch.rand(2), type(state.model.head.weight).__name__

    folder = tmp_path / "step-00000001"
    expected = ranks.run(two, 2, folder)
    assert {p.name for p in folder.glob("*.safetensors")} == {f"rank-0000{k}.safetensors" for k in range(2)}
    assert list(manifest.problems(folder)) == []
    model = Transformer(CONFIG, seed=2)
    alone = TrainingState(model, torch.optim.AdamW(model.parameters()))
    load(folder, alone)
    assert same(contents(alone), expected[0][0])
    assert all(torch.equal(v, expected[0][0][n]) for n, v in load_model(folder).state_dict().items())
    for rank, (found, drawn, kind) in enumerate(ranks.run(again, 3, folder)):
        assert same(found, expected[0][0]) and kind == "DTensor"
        assert rank == 2 or torch.equal(drawn, expected[rank][1])  # each rank's own generator


def test_one_process_saves_and_two_ranks_load(saved: tuple[Path, TrainingState]) -> None:
    def two(rank: int, folder: Path) -> Contents:
        state = sharded(2, step=False)
        load(folder, state)
        return contents(state)

    folder, state = saved
    assert all(same(found, contents(state)) for found in ranks.run(two, 2, folder))


def test_a_rank_that_fails_fails_all_and_leaves_nothing(tmp_path: Path) -> None:
    def failing(rank: int, parent: Path) -> list[str]:
        from trex.checkpoint import storage

        state, errors, write = sharded(1, step=True), [], storage.write
        save(parent / "step-1", state)

        def attempt() -> None:
            try:
                save(parent / "step-2", state, keep=1)
                errors.append("none")
            except CheckpointError as error:
                errors.append(str(error))
            torch.distributed.barrier()
            errors.extend(sorted(path.name for path in parent.iterdir()))
            torch.distributed.barrier()

        def broken(*args: object) -> None:
            raise OSError("disk gone")

        local = state.model.head.weight.to_local().detach()
        storage.write = broken if rank == 1 else write
        attempt()
        storage.write = write
        before = local.clone()
        local.fill_(float("nan") if rank == 1 else 0)
        attempt()
        local.copy_(before)
        attempt()
        return errors

    first, second = ranks.run(failing, 2, tmp_path)
    assert first == second
    assert "step-2 was not written: rank 1: OSError: disk gone" in first[0] and first[1] == "step-1"
    assert "step-2 was not written: rank 1: not finite: model.head.weight" in first[2] and first[3] == "step-1"
    assert first[4:] == ["none", "step-2"]


# --- damage and interruption ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small checkpoint of two ranks."""

    def two(rank: int, folder: Path) -> None:
        model = Small(1.0)
        fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
        save(folder, stepped(model, "frozen"))

    folder = tmp_path_factory.mktemp("two") / "step-1"
    ranks.run(two, 2, folder)
    assert len(list(folder.glob("*.safetensors"))) == 2
    return folder


@pytest.mark.parametrize("kind", ["flip", "cut"])
def test_altered_and_truncated_files_are_refused_by_tensor(two_files: Path, kind: str) -> None:
    """A hundred random places of each kind, all files alike: the tensor that is hit is named, else the file."""
    draw = random.Random(kind)
    state = small(2.0)
    before = contents(state)
    for _ in range(100):
        path = draw.choice(sorted(two_files.iterdir()))
        raw = path.read_bytes()
        place = draw.randrange(len(raw))
        hit = affected(path, place, kind)
        if kind == "flip":
            flipped(path, place, draw.randrange(8))
        else:
            os.truncate(path, place)
        try:
            with pytest.warns(UserWarning) as told:
                assert newest(two_files.parent) is None
            text = str(told[0].message)
            assert len(told) == 1 and hit(text), (path.name, place, text)
            if path.name != "rank-00001.safetensors":  # of which one rank does not need all
                with pytest.raises(CheckpointError) as caught:
                    load(two_files, state)
                assert hit(str(caught.value)), (path.name, place, str(caught.value))
        finally:
            path.write_bytes(raw)
    assert same(contents(state), before)
    load(two_files, state)
    assert same(contents(state), contents(small(1.0)))


def test_a_newline_that_is_cut_off_is_missed(two_files: Path) -> None:
    for path in two_files.glob("*.json"):
        raw = path.read_bytes()
        path.write_bytes(raw[:-1])
        with pytest.raises(CheckpointError, match=path.name):
            load(two_files, small(1.0))
        path.write_bytes(raw)


def affected(path: Path, place: int, kind: str) -> Callable[[str], bool]:
    """Whether a message names what a change at `place` hits."""
    if path.suffix == ".json":
        return lambda text: path.name in text
    entries = {key.partition("@")[0]: entry for key, entry in read_header(path).items()}
    header = min(entry.start for entry in entries.values())
    if kind == "flip" and place < header:
        return lambda text: any(name in text for name in entries)
    hit = [n for n, entry in entries.items() if place < entry.end and (kind == "cut" or place >= entry.start)]
    return lambda text: all(name in text for name in hit)


FILE_OPERATIONS = [(os, n) for n in ("mkdir", "rename", "replace", "fsync", "unlink", "rmdir", "open", "chmod")] + [
    (io, "open")
]


@contextmanager
def counted(before: Callable[[int], None]) -> Iterator[None]:
    """Calls `before` with the number of each file operation within."""
    real, done = [(module, name, getattr(module, name)) for module, name in FILE_OPERATIONS], 0

    def wrapped(function: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **more: object) -> object:
            nonlocal done
            done += 1
            before(done)
            return function(*args, **more)

        return call

    for module, name, function in real:
        setattr(module, name, wrapped(function))
    try:
        yield
    finally:
        for module, name, function in real:
            setattr(module, name, function)


def check_survivor(parent: Path, accepted: dict[str, list[Contents]]) -> None:
    """The newest checkpoint is whole, nothing has to be passed over, and it is one of those accepted for its name."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        path = newest(parent)
    assert path is not None, sorted(p.name for p in parent.iterdir())
    state = small(0.0)
    load(path, state)
    assert any(same(contents(state), one) for one in accepted[path.name.removesuffix(".old")]), path


def test_every_file_is_on_the_disk_before_the_folder_takes_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[str] = set()
    fsync, rename, checked = os.fsync, os.rename, []

    def noted(handle: int) -> None:
        synced.add(str(os.fstat(handle).st_ino))
        fsync(handle)

    def last(source: Path, target: Path) -> None:
        assert {str(p.stat().st_ino) for p in (source, *source.iterdir())} <= synced
        checked.append((source.name, target.name))
        rename(source, target)

    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(os, "rename", last)
    save(tmp_path / "step-1", small(1.0))
    assert checked == [(".step-1.partial", "step-1")] and str(tmp_path.stat().st_ino) in synced


@pytest.mark.parametrize("target", ["step-1", "step-2"])
def test_a_save_that_fails_at_any_file_operation_leaves_a_whole_checkpoint(tmp_path: Path, target: str) -> None:
    """The same checkpoint again, or the next one, with an error of the system at each operation in turn."""
    old, new = small(1.0), small(2.0)
    accepted = {"step-1": [contents(old)], target: [contents(new), *([contents(old)] if target == "step-1" else [])]}
    number, last, refused = 0, 0, 0
    while number == last:
        number += 1
        parent = tmp_path / str(number)
        save(parent / "step-1", old)

        def fail(done: int) -> None:
            nonlocal last
            last = done
            if done == number:  # noqa: B023
                raise OSError("disk gone")

        try:
            with counted(fail):
                save(parent / target, new, keep=1)
        except CheckpointError as error:
            assert "disk gone" in str(error)
            refused += 1
        last = min(last, number)
        check_survivor(parent, accepted)
        assert not list(parent.glob(".*.partial")), number
        if number == last:
            save(parent / "step-3", old, keep=1)
            assert [p.name for p in parent.iterdir()] == ["step-3"]
    assert refused > 20 and sorted(p.name for p in parent.iterdir()) == [target]


KILLED = """
import importlib.util, os, signal, sys, time
from pathlib import Path
import torch
torch.set_num_threads(1)
spec = importlib.util.spec_from_file_location("tests_of_training", sys.argv[1])
tests = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tests)
old, new = tests.small(1.0), tests.small(2.0)
known = {"step-1": [tests.contents(old)], "step-2": [tests.contents(new)]}

def child(work):
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    return pid

def ended(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

def afterwards(parent, accepted):
    tests.check_survivor(parent, accepted)
    tests.save(parent / "step-3", old, keep=1)
    assert [p.name for p in parent.iterdir()] == ["step-3"], list(parent.iterdir())

def dying(number, path):
    def die(done):
        if done == number:
            os.kill(os.getpid(), signal.SIGKILL)
    with tests.counted(die):
        tests.save(path, new, keep=1)

kills = 0
for target, accepted in (("step-2", known), ("step-1", {"step-1": known["step-1"] + known["step-2"]})):
    for number in range(1, 200):
        parent = Path(sys.argv[2]) / f"{target}-{number}"
        tests.save(parent / "step-1", old)
        code = ended(child(lambda: dying(number, parent / target)))
        if code == 0:
            break
        assert code == -signal.SIGKILL, code
        kills += 1
        afterwards(parent, accepted)
start = time.perf_counter()
assert ended(child(lambda: tests.save(Path(sys.argv[2]) / "timed" / "step-1", new))) == 0
duration = time.perf_counter() - start
for moment in range(15):
    parent = Path(sys.argv[2]) / f"moment-{moment}"
    tests.save(parent / "step-1", old)
    pid = child(lambda: tests.save(parent / "step-2", new, keep=1))
    time.sleep(duration * moment / 15)
    os.kill(pid, signal.SIGKILL)
    ended(pid)
    kills += 1
    afterwards(parent, known)
print(kills)
"""


@pytest.mark.slow
def test_a_save_that_is_killed_at_any_moment_leaves_a_whole_checkpoint(tmp_path: Path) -> None:
    """SIGKILL at each file operation in turn, and at 15 moments of time."""
    done = subprocess.run([sys.executable, "-c", KILLED, __file__, tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 15 + 40
