"""Checkpoints of models in pieces: saved under one layout, loaded under any other, and exported without the model."""

import json
import random
import weakref
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo
from tests.checkpoint import folders
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

from trex.checkpoint import chunks, hf, manifest, tensors
from trex.checkpoint import export as export_module
from trex.checkpoint.errors import CheckpointError
from trex.checkpoint.export import export_hf
from trex.checkpoint.storage import Reader
from trex.checkpoint.tensors import read_header
from trex.checkpoint.training import TrainingState, load, load_model, save
from trex.launch import ranks
from trex.model.config import HEAVY, SPARSE, ModelConfig
from trex.model.pieces import Piece
from trex.model.transformer import Transformer

CONFIG = ModelConfig.tiny(
    num_layers=2, compress_ratios=(SPARSE, HEAVY), hash_layers=1, vocab_size=96, num_experts=4, hidden_size=32,
    expert_size=16,
)  # fmt: skip
FROZEN = ".indexer."
FIRST_STAGE = ("embed.", "layers.0.")
DOCUMENTS = {"config": asdict(CONFIG), "trainer": {"step": 1}}
Box = tuple[tuple[int, ...], tuple[int, ...]]  # offset and size


def groups(named: dict[str, Tensor]) -> list[dict[str, object]]:
    """Matrices with weight decay, the rest without."""
    decayed = [value for name, value in named.items() if len(GLOBAL[name]) > 1]
    rest = [value for name, value in named.items() if len(GLOBAL[name]) <= 1]
    return [{"params": decayed, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]


with torch.device("meta"):
    GLOBAL = {name: tuple(value.shape) for name, value in Transformer(CONFIG).state_dict().items()}


def whole_state(seed: int, step: bool = True) -> TrainingState:
    """A model in one process, without pieces, after one step of AdamW by which the indexers get no state."""
    model = Transformer(CONFIG, seed=seed)
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for value in model.state_dict().values():  # norms and sinks begin with equal elements
            if value.is_floating_point():
                value.add_(torch.rand(value.shape, generator=draw), alpha=0.125)
    optimizer = torch.optim.AdamW(groups(dict(model.named_parameters())), lr=1e-2, betas=(0.8, 0.95))
    if step:
        for name, parameter in model.named_parameters():
            if FROZEN not in name:
                parameter.grad = parameter.detach() * 0.5 + 0.25
        optimizer.step()
        optimizer.zero_grad()
    return TrainingState(model, optimizer, DOCUMENTS)


def contents(state: TrainingState) -> dict[str, dict[str, Tensor]]:
    """Of a state without pieces: each tensor and what the optimizer holds of it."""
    held = dict(state.model.named_parameters())
    return {
        name: {"value": value.detach(), **(state.optimizer.state.get(held[name], {}) if name in held else {})}
        for name, value in state.model.state_dict().items()
    }


# --- layouts: which box of a tensor a rank has, or None ---------------------------------------------------------------


def part(shape: tuple[int, ...], dim: int, k: int, of: int) -> Box:
    """The k-th of uneven parts of a dimension; the first ones are larger."""
    sizes = [len(range(i, shape[dim], of)) for i in range(of)]
    offset, size = [0] * len(shape), list(shape)
    offset[dim], size[dim] = sum(sizes[:k]), sizes[k]
    return tuple(offset), tuple(size)


def inner(rank: int, world: int, name: str, shape: tuple[int, ...]) -> Box | None:
    """Matrices and experts along their last dimension; vectors and tables replicated."""
    split = len(shape) > 1 and "tid2eid" not in name
    return part(shape, len(shape) - 1, rank, world) if split else ((0,) * len(shape), shape)


def stages(rank: int, world: int, name: str, shape: tuple[int, ...]) -> Box | None:
    """Two stages; in each experts and matrices along dimension 0, experts' parts along dimension 1 too if 8 ranks."""
    if (rank >= world // 2) == name.startswith(FIRST_STAGE):
        return None
    here = rank % (world // 2)
    return part(shape, 0, here, world // 2) if len(shape) > 1 else ((0,) * len(shape), shape)


def grid(rank: int, world: int, name: str, shape: tuple[int, ...]) -> Box | None:
    """Two by two of what has two dimensions, experts the first and the middle one."""
    if len(shape) < 2:
        return (0,) * len(shape), shape
    (top, _), (height, *_) = part(shape, 0, rank // 2, 2)[0][:2], part(shape, 0, rank // 2, 2)[1]
    offset, size = part((height, *shape[1:]), 1, rank % 2, 2)
    return (top, *offset[1:]), size


def replicas(rank: int, world: int, name: str, shape: tuple[int, ...]) -> Box | None:
    """Rows in as many parts as half of the ranks; each on two."""
    return part(shape, 0, rank % (world // 2), world // 2) if len(shape) > 1 else ((0,) * len(shape), shape)


LAYOUTS = {layout.__name__: layout for layout in (inner, stages, grid, replicas)}


def cut(value: Tensor, box: Box) -> Tensor:
    for dim, (offset, size) in enumerate(zip(*box, strict=True)):
        value = value.narrow(dim, offset, size)
    return value.clone()


def split_state(seed: int, layout: str, step: bool = True) -> TrainingState:
    """This rank's blocks of `whole_state`, in a holder whose own names say nothing; FSDP2 on top for "…+fsdp"."""
    rank, world, data = torch.distributed.get_rank(), torch.distributed.get_world_size(), 1
    mesh = None
    if layout.endswith("fsdp"):
        data = 2
        mesh = init_device_mesh("cpu", (data, world // data), mesh_dim_names=("dp", "rest"))["dp"]
        rank, world = rank % (world // data), world // data
    kind = LAYOUTS.get(layout.removesuffix("+fsdp"))
    reference, holder = whole_state(seed, step), nn.Module()
    trained = dict(reference.model.named_parameters())
    boxes = {}
    for number, (name, value) in enumerate(reversed(reference.model.state_dict().items())):
        shape = tuple(value.shape)
        box = kind(rank, world, name, shape) if kind else ((0,) * len(shape), shape)
        if box is not None and name in trained:
            holder.register_parameter(f"p{number}", nn.Parameter(cut(value.detach(), box)))
        elif box is not None:
            holder.register_buffer(f"p{number}", cut(value, box))
        boxes[f"p{number}"] = name, box
    if mesh is not None:
        fully_shard(holder, mesh=mesh)
    pieces, named = {}, {}
    for own, tensor in [*holder.named_parameters(), *holder.named_buffers()]:
        name, (offset, _) = boxes[own]
        if isinstance(tensor, DTensor):
            _, inside = compute_local_shape_and_global_offset(tensor.shape, tensor.device_mesh, tensor.placements)
            offset = tuple(a + b for a, b in zip(offset, inside, strict=True))
        pieces[name] = Piece(tensor, GLOBAL[name], offset)
        if name in trained:
            named[name] = tensor
    optimizer = torch.optim.AdamW(groups(named), lr=1e-2, betas=(0.8, 0.95))
    if step:  # not from the whole: the step of each rank on its block
        for name, parameter in named.items():
            if FROZEN not in name:
                parameter.grad = torch.zeros_like(parameter)
                box = pieces[name].offset, tuple(pieces[name].local.shape)
                whole = Piece(parameter.grad, GLOBAL[name], box[0]).local
                before = before_step(seed)[name]
                whole.copy_(cut(before * 0.5 + 0.25, box))
                with torch.no_grad():
                    pieces[name].local.detach().copy_(cut(before, box))
        optimizer.step()
        optimizer.zero_grad()
    return TrainingState(holder, optimizer, DOCUMENTS, pieces=pieces)


def before_step(seed: int) -> dict[str, Tensor]:
    if seed not in BEFORE:
        BEFORE[seed] = {n: p.detach() for n, p in whole_state(seed, step=False).model.named_parameters()}
    return BEFORE[seed]


BEFORE: dict[int, dict[str, Tensor]] = {}


def wrong(state: TrainingState, expected: dict[str, dict[str, Tensor]]) -> list[str]:
    """What of this rank's blocks is not that box of the whole, bit for bit."""
    found = []
    for name, piece in state.pieces.items():
        own = {"value": piece.tensor, **state.optimizer.state.get(piece.tensor, {})}
        if own.keys() != expected[name].keys():
            found.append(f"{name} has {sorted(own)}")
            continue
        for kind, value in own.items():
            plain = (value.to_local() if isinstance(value, DTensor) else value).detach()
            whole = expected[name][kind]
            want = whole if kind == "step" else cut(whole, (piece.offset, tuple(piece.local.shape)))
            if isinstance(value, DTensor) != (isinstance(piece.tensor, DTensor) and kind != "step"):
                found.append(f"{kind} of {name} is a {type(value).__name__}")
            if plain.dtype != want.dtype or not torch.equal(plain, want):
                found.append(f"{kind} of {name}")
    return found


def same(first: TrainingState, expected: dict[str, dict[str, Tensor]]) -> bool:
    one = contents(first)
    return one.keys() == expected.keys() and all(
        one[name].keys() == kinds.keys()
        and all(torch.equal(one[name][k], v) and one[name][k].dtype == v.dtype for k, v in kinds.items())
        for name, kinds in expected.items()
    )


@pytest.fixture(autouse=True, scope="module")
def quick_ranks() -> Iterator[None]:
    """Every optimizer imports it, for seconds: once, not on each rank."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranks, "PRELOAD", (*ranks.PRELOAD, "torch._dynamo"))
        yield


# --- saved under one, loaded under others -----------------------------------------------------------------------------


def save_split(rank: int, folder: Path, layout: str) -> list[str]:
    state = split_state(1, layout)
    save(folder, state)
    return wrong(state, contents(whole_state(1)))


def load_split(rank: int, folder: Path, layouts: tuple[str, ...]) -> dict[str, list[str]]:
    """Into states of other values, one with optimizer state where there must be none; what is wrong afterwards."""
    expected, result = contents(whole_state(1)), {}
    for layout in layouts:
        state = split_state(2, layout, step=layout in ("inner", "grid"))
        state.optimizer.param_groups[0]["lr"] = 5.0
        assert wrong(state, expected)
        assert load(folder, state) == json.loads(json.dumps(DOCUMENTS))
        result[layout] = wrong(state, expected)
        if [group["lr"] for group in state.optimizer.param_groups] != [1e-2, 1e-2]:
            result[layout].append("lr")
    return result


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of four ranks: two stages of two."""
    folder = tmp_path_factory.mktemp("four") / "step-1"
    assert ranks.run(save_split, 4, folder, "stages") == [[]] * 4
    return folder


@pytest.fixture(scope="module")
def whole() -> TrainingState:
    return whole_state(1)


def check_files(folder: Path, state: TrainingState) -> None:
    """Nothing is written twice: the files hold the bytes of the model and its optimizer, and the generators."""
    assert list(manifest.problems(folder)) == []
    entries = [item for path in folder.glob("*.safetensors") for item in read_header(path).items()]
    assert len({key for key, _ in entries}) == len(entries)
    held = sum(v.nbytes for kinds in contents(state).values() for v in kinds.values())
    assert sum(e.size for key, e in entries if not key.startswith("generators.")) == held


def check_alone(folder: Path, expected: TrainingState) -> None:
    """One process without pieces loads it, and what it saves has the same optimizer's document."""
    state = whole_state(2)
    load(folder, state)
    assert same(state, contents(expected))
    model = load_model(folder).state_dict()
    assert all(torch.equal(model[name], kinds["value"]) for name, kinds in contents(expected).items())


def test_four_ranks_save_and_others_load(four: Path, whole: TrainingState, tmp_path: Path) -> None:
    check_files(four, whole)
    assert len(list(four.glob("*.safetensors"))) == 4
    check_alone(four, whole)
    for found in ranks.run(load_split, 2, four, ("inner", "stages", "fsdp")):
        assert found == {"inner": [], "stages": [], "fsdp": []}
    alone = save(tmp_path / "step-1", whole)
    assert (alone / "optimizer.json").read_bytes() == (four / "optimizer.json").read_bytes()
    shapes = [json.loads((folder / "trex_metadata.json").read_text())["tensors"] for folder in (alone, four)]
    shapes = [{n: (t["dtype"], t["shape"]) for n, t in s.items() if not n.startswith("generators.")} for s in shapes]
    assert shapes[0] == shapes[1]


def test_one_process_saves_and_pieces_load(whole: TrainingState, tmp_path: Path) -> None:
    """Also a checkpoint whose groups list the parameters in another order, as older ones do."""
    folder = save(tmp_path / "step-1", whole)
    document = json.loads((folder / "optimizer.json").read_text())
    for group in document["groups"]:
        group["params"].reverse()
    (folder / "optimizer.json").write_text(json.dumps(document))
    files = manifest.read_manifest(folder)
    manifest.write_manifest(folder, {n: tensors.Written.from_dict(f) for n, f in files.items() if "tensors" in f})
    layouts = ("grid", "replicas", "stages+fsdp")
    assert ranks.run(load_split, 4, folder, layouts) == [{name: [] for name in layouts}] * 4


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["inner", "grid", "replicas", "stages+fsdp", "replicas+fsdp", "fsdp"])
def test_every_layout_is_saved_and_loaded_under_every_other(layout: str, whole: TrainingState, tmp_path: Path) -> None:
    folder = tmp_path / "step-1"
    world = 2 if layout == "fsdp" else 4
    assert ranks.run(save_split, world, folder, layout) == [[]] * world
    check_files(folder, whole)
    check_alone(folder, whole)
    layouts = ("inner", "stages", "grid", "replicas", "stages+fsdp", "replicas+fsdp")
    assert ranks.run(load_split, 4, folder, layouts) == [{name: [] for name in layouts}] * 4
    assert ranks.run(load_split, 3, folder, ("inner",)) == [{"inner": []}] * 3
    reference = hf.save_hf(load_model(folder), tmp_path / "reference", shard_bytes=60_000)
    ranks.run(export, 3, folder, tmp_path / "target", "official", 60_000)
    assert folders.differing(reference, tmp_path / "target") == []


def test_a_rank_reads_only_what_overlaps_its_blocks(four: Path) -> None:
    def reading(rank: int, folder: Path) -> tuple[set[str], set[str]]:
        state, read = split_state(2, "stages"), set()
        real = Reader._chunk

        def noted(self: Reader, file: str, key: str, entry: tensors.Entry) -> object:
            read.add(key)
            return real(self, file, key, entry)

        Reader._chunk = noted
        load(folder, state)
        blocks = set()
        for name, piece in state.pieces.items():
            if tuple(piece.local.shape) == piece.shape:
                blocks.add(name)
            elif piece.local.numel():
                blocks.add(f"{name}@{','.join(map(str, piece.offset))}")
        return {key.removeprefix("model.") for key in read if key.startswith("model.")}, blocks

    for read, own in ranks.run(reading, 4, four):
        assert read == own


# --- what is refused --------------------------------------------------------------------------------------------------


def test_what_does_not_fit_is_one_error_on_all_ranks_and_changes_nothing(four: Path) -> None:
    def attempts(rank: int, folder: Path) -> list[tuple[str, bool]]:
        results = []

        def attempt(change: Callable[[TrainingState], TrainingState]) -> None:
            held = split_state(2, "stages")
            before = seen(held, clone=True)
            try:
                load(folder, change(held))
                results.append(("none", False))
            except CheckpointError as error:
                after = seen(held)
                kept = before["rates"] == after["rates"]
                same = all(all(map(torch.equal, before[name], after[name])) for name in held.pieces)
                results.append((str(error), kept and same))

        def seen(state: TrainingState, clone: bool = False) -> dict[str, list[object]]:
            """Blocks and moments by name, and the learning rates."""
            own = {n: [p.local, *state.optimizer.state.get(p.tensor, {}).values()] for n, p in state.pieces.items()}
            own = {name: [value.clone() if clone else value for value in values] for name, values in own.items()}
            return own | {"rates": [group["lr"] for group in state.optimizer.param_groups]}

        def without(state: TrainingState) -> TrainingState:
            if rank < 2:
                return state
            pieces = {n: p for n, p in state.pieces.items() if n != "layers.1.ffn.gate.bias"}
            return replace(state, pieces=pieces)

        def more(state: TrainingState) -> TrainingState:
            extra = {"new": Piece(torch.ones(3), (3,), (0,))} if rank == 1 else {}
            return replace(state, pieces={**state.pieces, **extra})

        def misshapen(state: TrainingState) -> TrainingState:
            if rank < 2:
                return state
            new = Piece(torch.ones(9), (9,), (0,))
            return replace(state, pieces={**state.pieces, "layers.1.ffn.gate.bias": new})

        def holed(state: TrainingState) -> TrainingState:
            return replace(state, pieces={n: p for n, p in state.pieces.items() if rank or "tid2eid" not in n})

        def other_class(state: TrainingState) -> TrainingState:
            named = {n: p.tensor for n, p in state.pieces.items() if isinstance(p.tensor, nn.Parameter)}
            return replace(state, optimizer=torch.optim.Adam(groups(named)))

        def setting(state: TrainingState) -> TrainingState:
            state.optimizer.param_groups[1]["initial_lr"] = 0.5
            return state

        def setting_of_one(state: TrainingState) -> TrainingState:
            state.optimizer.param_groups[1]["initial_lr"] = float(rank == 3)
            return state

        def one_group(state: TrainingState) -> TrainingState:
            named = [p.tensor for p in state.pieces.values() if isinstance(p.tensor, nn.Parameter)]
            return replace(state, optimizer=torch.optim.AdamW(named))

        def no_pieces(state: TrainingState) -> TrainingState:
            return state if rank else whole_state(2)

        for change in (without, more, misshapen, holed, other_class, setting, setting_of_one, one_group, no_pieces):
            attempt(change)
        return results

    expected = (
        "model.layers.1.ffn.gate.bias belongs to no part of the model",
        "model.new is missing",
        "model.layers.1.ffn.gate.bias is torch.float32 [4], not torch.float32 [9]",
        "model.layers.0.ffn.gate.tid2eid [96, 2] has 192 elements, its blocks 96",
        "its optimizer is torch.optim.adamw.AdamW, not torch.optim.adam.Adam",
        "settings of group 1: initial_lr",
        "rank 3 has other settings of group 1: initial_lr",
        "its optimizer has other groups of parameters",
        "without blocks on rank 0, ",
    )
    results = ranks.run(attempts, 4, four)
    assert all(result == results[0] for result in results[1:])
    assert len(results[0]) == len(expected)
    for (text, kept), said in zip(results[0], expected, strict=True):
        assert said in text and kept, (said, text, kept)
    for text, _ in results[0][:3]:
        assert text.count("model.") == 1  # of the other stage's names none is extra or missing


def test_what_cannot_be_saved_is_one_error_on_all_ranks_and_leaves_nothing(tmp_path: Path) -> None:
    def attempts(rank: int, parent: Path) -> list[str]:
        texts = []

        def attempt(state: TrainingState) -> None:
            try:
                save(parent / "step-1", state)
                texts.append("none")
            except CheckpointError as error:
                texts.append(str(error))
            texts.append(str(sorted(path.name for path in parent.iterdir())))

        state = split_state(1, "stages")
        name = "layers.1.attn.wq_a.weight"
        if rank == 3:
            state.pieces[name].local.detach()[0, 0] = float("nan")
        attempt(state)
        state = split_state(1, "stages")
        attempt(replace(state, pieces={n: p for n, p in state.pieces.items() if rank != 2 or n != name}))
        state = split_state(1, "stages")
        moved = {
            n: Piece(p.tensor, p.shape, (99, 0)) if n == name and rank == 2 else p for n, p in state.pieces.items()
        }
        attempt(replace(state, pieces=moved))
        state = split_state(1, "stages")
        first = next(n for n, p in state.pieces.items() if len(p.shape) == 2 and p.tensor in state.optimizer.state)
        state.optimizer.state[state.pieces[first].tensor]["rows"] = torch.ones(5)
        attempt(state)
        return texts

    results = ranks.run(attempts, 4, tmp_path)
    assert all(result == results[0] for result in results[1:])
    texts, left = results[0][::2], results[0][1::2]
    assert left == ["[]"] * 4
    assert "rank 3: not finite: model.layers.1.attn.wq_a.weight" in texts[0]
    assert "the optimizer has parameters that are not the model's" in texts[1]
    assert "has no block" in texts[2] and "as rank 2 says" in texts[2]
    assert "is neither one number nor split as its parameter" in texts[3]


def test_blocks_that_overlap_are_refused(tmp_path: Path) -> None:
    def attempt(rank: int, parent: Path) -> str:
        piece = Piece(torch.arange(2.0) + rank, (4,), (rank,))
        try:
            save(parent / "step-1", TrainingState(nn.Module(), pieces={"a": piece}))
        except CheckpointError as error:
            return str(error)
        return "none"

    first, second = ranks.run(attempt, 2, tmp_path)
    assert first == second and "overlapping chunks" in first and list(tmp_path.iterdir()) == []


# --- export -----------------------------------------------------------------------------------------------------------


def export(rank: int, folder: Path, target: Path, names: str, shard_bytes: int) -> None:
    export_hf(folder, target, names=names, shard_bytes=shard_bytes)


@pytest.mark.parametrize("names", ["official", "transformers"])
def test_an_export_has_the_bytes_of_save_hf(four: Path, tmp_path: Path, names: str) -> None:
    for shard_bytes, worlds in ((60_000, (2,)), (10**9, ())):
        reference = hf.save_hf(load_model(four), tmp_path / f"{shard_bytes}", names=names, shard_bytes=shard_bytes)
        assert (len(list(reference.glob("*.safetensors"))) > 4) == (shard_bytes < 10**9)
        alone = export_hf(four, tmp_path / f"alone-{shard_bytes}", names=names, shard_bytes=shard_bytes)
        assert folders.differing(reference, alone) == []
        for world in worlds:
            ranks.run(export, world, four, target := tmp_path / f"by-{world}", names, shard_bytes)
            assert folders.differing(reference, target) == []


def test_other_dtypes_and_the_folder_of_one_process_are_exported(tmp_path: Path) -> None:
    """BF16 with rows read a few at a time, an MTP block, and a document beside them."""
    config = replace(CONFIG, mtp_layers=1)
    model = Transformer(config, seed=3).to(torch.bfloat16)
    folder = save(tmp_path / "step-2", TrainingState(model, documents={"config": asdict(config)}))
    extra = {"trex_tokenizer.json": {"ids": [1, 2]}}
    reference = hf.save_hf(load_model(folder), tmp_path / "reference", extra=extra)
    assert folders.differing(reference, export_hf(folder, tmp_path / "target", extra=extra)) == []


def test_what_cannot_be_exported_is_one_error_and_leaves_nothing(four: Path, tmp_path: Path) -> None:
    def failing(rank: int, folder: Path, target: Path) -> list[str]:
        texts = []
        real = export_module.write

        def broken(*args: object) -> object:
            raise OSError("disk gone") if rank == 1 else AssertionError  # the other rank's write must not matter

        for write in (broken, real):
            export_module.write = write
            try:
                export_hf(folder, target, shard_bytes=60_000)
                texts.append("none")
            except CheckpointError as error:
                texts.append(str(error))
            torch.distributed.barrier()
        try:
            export_hf(folder, target)
        except CheckpointError as error:
            texts.append(str(error))
        return texts

    first, second = ranks.run(failing, 2, four, tmp_path / "target")
    assert first == second and "rank 1: OSError: disk gone" in first[0] and first[1] == "none"
    assert "target exists" in first[2] and [p.name for p in tmp_path.iterdir()] == ["target"]
    with pytest.raises(CheckpointError, match="names = 'other'"):
        export_hf(four, tmp_path / "x", names="other")
    with pytest.raises(CheckpointError, match="no model's config"):
        model = nn.Linear(2, 2)
        export_hf(save(tmp_path / "run" / "step-1", TrainingState(model)), tmp_path / "x")
    with pytest.raises(CheckpointError, match="names no document"):
        export_hf(four, tmp_path / "x", extra={"config.json": {}})
    with pytest.raises(CheckpointError, match="no checkpoint at"):
        export_hf(tmp_path / "none", tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_weights_that_are_not_finite_are_not_exported(tmp_path: Path, monkeypatch: Any) -> None:
    """All of them are named, experts each; `save` lets none through of itself."""
    model = Transformer(CONFIG)
    with torch.no_grad():
        model.layers[1].ffn.experts.w3[2, 3, 1] = float("nan")
        model.norm.weight[-1] = float("inf")
    monkeypatch.setattr("trex.checkpoint.state._finite", lambda value: True)
    folder = save(tmp_path / "run" / "step-1", TrainingState(model, documents=DOCUMENTS))
    with pytest.raises(CheckpointError) as caught:
        export_hf(folder, tmp_path / "x")
    assert sorted(caught.value.args[0].split("nothing was written: ")[1].split("; ")) == [
        "layers.1.ffn.experts.2.w3.weight is not finite",
        "norm.weight is not finite",
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_damaged_checkpoint_is_not_exported(four: Path, tmp_path: Path) -> None:
    path = four / "rank-00002.safetensors"
    raw = path.read_bytes()
    entries = {key: entry for key, entry in read_header(path).items() if key.startswith("model.")}
    key, entry = max(entries.items(), key=lambda item: item[1].size)
    changed = bytearray(raw)
    changed[entry.start + 5] ^= 1
    path.write_bytes(changed)
    try:
        with pytest.raises(CheckpointError, match=f"{key} in rank-00002.safetensors was altered"):
            export_hf(four, tmp_path / "x")
    finally:
        path.write_bytes(raw)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def squares(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of four ranks that split matrices both ways."""
    folder = tmp_path_factory.mktemp("squares") / "step-1"
    assert ranks.run(save_split, 4, folder, "grid") == [[]] * 4
    return folder


def test_any_part_of_a_tensor_is_read_from_its_chunks(squares: Path, whole: TrainingState) -> None:
    draw, parts = random.Random(1), chunks.Parts(squares, Reader(squares).read_metadata())
    for name, value in whole.model.state_dict().items():
        for _ in range(8):
            offset = [draw.randrange(n) for n in value.shape]
            size = [draw.randrange(1, n - o + 1) for n, o in zip(value.shape, offset, strict=True)]
            assert torch.equal(parts.read(f"model.{name}", offset, size), cut(value, (tuple(offset), tuple(size))))
    step = parts.read("optimizer.step.embed.weight", (), ())
    assert step.shape == () and step == 1
    with pytest.raises(CheckpointError, match="its chunks hold 2 of the 3 elements"):
        parts.read("model.norm.weight", (30,), (3,))


def test_an_export_never_reads_more_than_a_few_rows(squares: Path, tmp_path: Path, monkeypatch: Any) -> None:
    """Every read of a file and every piece is counted; of a tensor nothing stays once it is written."""
    reference = hf.save_hf(load_model(squares), tmp_path / "reference", names="transformers")
    monkeypatch.setattr(export_module, "PIECE", 2048)
    total = sum(value.nbytes for value in load_model(squares).state_dict().values())
    read, part, bytes_read, pieces = chunks.read, chunks.Parts.read, [], []

    def counted(path: Path, entry: tensors.Entry, start: int, end: int, most: int) -> Iterator[Tensor]:
        bytes_read.append(end - start)
        return read(path, entry, start, end, most)

    def noted(self: chunks.Parts, *box: Any) -> Tensor:
        found = part(self, *box)
        assert sum(piece() is not None for piece in pieces) <= 2
        pieces.append(weakref.ref(found))
        return found

    monkeypatch.setattr(chunks, "read", counted)
    monkeypatch.setattr(chunks.Parts, "read", noted)
    assert folders.differing(reference, export_hf(squares, tmp_path / "target", names="transformers")) == []
    assert sum(bytes_read) == total and max(bytes_read) <= 2048 < total / 50
