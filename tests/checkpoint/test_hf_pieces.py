"""Folders in the layout of Hugging Face loaded into the blocks of many ranks, against `load_hf` and the whole model."""

import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.checkpoint.folders import SMALL, model_of, randomise
from torch import Tensor

from trex import parallel
from trex.checkpoint import CheckpointError, convert, load_hf, save_hf, source
from trex.checkpoint.hf_pieces import load_pieces
from trex.checkpoint.synthetic import write_released
from trex.checkpoint.tensors import Entry, read, read_header
from trex.launch import ranks
from trex.model.config import HEAVY, SPARSE, WINDOW, ModelConfig
from trex.model.layout import Layout
from trex.model.pieces import Piece
from trex.model.transformer import Transformer

NAMES = ["official", "transformers"]
WIDE = ModelConfig.tiny(  # more than two blocks of 128 rows and columns, no multiples of them
    num_layers=2, compress_ratios=(SPARSE, HEAVY), hash_layers=1, vocab_size=50, num_experts=5, hidden_size=296,
    expert_size=280, q_lora_rank=140,
)  # fmt: skip
TRAINED = ModelConfig.tiny(
    num_layers=4, compress_ratios=(SPARSE, HEAVY, SPARSE, WINDOW), hash_layers=1, vocab_size=64, num_experts=4,
    hidden_size=32, expert_size=16,
)  # fmt: skip
STEP_LOSSES = {"lm": 0.01, "mtp": 0.003, "indexer": 0.01, "balance": 0.0001}
TWO_RANKS = {
    "tp": (Layout(tp=2, sequence_parallel=True), 2),
    "ep, dp, parameters": (Layout(dp=2, ep=2, sharding="parameters"), 2),
    "pp": (Layout(pp=2), 2),
}
MORE = {
    "one process": (Layout(), 2),
    "etp": (Layout(tp=2, etp=2), 1),
    "optimizer": (Layout(dp=2, sharding="optimizer"), 1),
    "zb-v": (Layout(pp=2, vpp=2, schedule="zb-v"), 4),
    "tp, ep, dp, parameters": (Layout(tp=2, dp=2, ep=2, sharding="parameters", sequence_parallel=True), 1),
    "replicas": (Layout(dp=4, dp_replicate=2, ep=2, sharding="gradients"), 1),
    "uneven shards": (Layout(dp=3, sharding="parameters"), 1),
    "pp, dp": (Layout(pp=2, dp=2, sharding="parameters"), 2),
    "zb-v, dp": (Layout(pp=2, vpp=2, dp=2, schedule="zb-v", sharding="optimizer"), 6),
}


# --- blocks of any shape ----------------------------------------------------------------------------------------------


def part(shape: tuple[int, ...], dim: int, k: int, of: int) -> tuple[list[int], list[int]]:
    """Offset and size of the k-th of uneven parts of a dimension, empty ones among them."""
    cuts = [shape[dim] * i // of for i in range(of + 1)]
    offset, size = [0] * len(shape), list(shape)
    offset[dim], size[dim] = cuts[k], cuts[k + 1] - cuts[k]
    return offset, size


def cut(value: Tensor, offset: Any, size: Any) -> Tensor:
    return value[tuple(slice(o, o + s) for o, s in zip(offset, size, strict=True))]


def shaped(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    with torch.device("meta"):
        return {name: tuple(value.shape) for name, value in Transformer(config).state_dict().items()}


def blocks(config: ModelConfig, rank: int, world: int, turn: int, dtype: torch.dtype) -> dict[str, Piece]:
    """Uneven blocks of each tensor along some dimension, not the same for all; not contiguous, full of NaN."""
    found = {}
    wide = ("gate.bias", "attn_sink", ".ape")
    for number, (name, shape) in enumerate(shaped(config).items()):
        offset, size = part(shape, (number + turn) % len(shape), rank, world)
        own = torch.promote_types(dtype, torch.float32) if name.endswith(wide) or "hc_" in name else dtype
        table = name.endswith("tid2eid")
        room = torch.full([n + 1 for n in size], -1 if table else torch.nan, dtype=torch.int64 if table else own)
        found[name] = Piece(cut(room, [1] * len(size), size), shape, tuple(offset))
    return found


def wrong(pieces: Mapping[str, Piece], expected: Mapping[str, Tensor]) -> list[str]:
    """What of the blocks is not that box of the whole, bit for bit and in its dtype."""
    found = [name for name in expected if name not in pieces]
    for name, piece in pieces.items():
        want = cut(expected[name], piece.offset, piece.local.shape)
        if piece.local.dtype != want.dtype or not torch.equal(piece.local.detach(), want):
            found.append(name)
    return found


def load_blocks(rank: int, world: int, folders: list[tuple[Path, torch.dtype]]) -> list[list[str]]:
    results = []
    for folder, dtype in folders:
        expected = load_hf(folder, dtype)
        for turn in range(2):
            pieces = blocks(expected.config, rank, world, turn, dtype)
            load_pieces(folder, pieces)
            results.append(wrong(pieces, expected.state_dict()))
    return results


def test_blocks_of_any_shape_have_the_values_of_load_hf(tmp_path: Path) -> None:
    """FP8 and FP4 with all codes, BF16 and F32; both sets of names; into several dtypes."""
    plain = {names: save_hf(model_of(SMALL), tmp_path / names, names=names) for names in NAMES}
    released = write_released(tmp_path / "WIDE", WIDE)
    kinds = {entry.dtype for path in released.glob("*.safetensors") for entry in read_header(path).values()}
    assert kinds == {"F8_E4M3", "I8", "F8_E8M0", "BF16", "F32", "I64"}
    rows = {unit.expected.shape[0] for unit in source.open_source(released).units.values() if unit.format}
    assert max(rows) > 256 and any(row % 128 for row in rows)
    folders = [(released, torch.bfloat16), (plain["official"], torch.float64), (plain["transformers"], torch.float16)]
    for found in ranks.run(load_blocks, 3, 3, folders):
        assert found == [[]] * 6
    assert load_blocks(0, 1, folders[1:]) == [[]] * 4  # without torch.distributed


@pytest.mark.slow
def test_more_ranks_and_what_transformers_saves(tmp_path: Path) -> None:
    """Ranks without rows of some tensors; its own third set of names, without MTP weights."""
    from transformers import AutoModelForCausalLM

    save_hf(model_of(SMALL), tmp_path / "a")
    AutoModelForCausalLM.from_pretrained(tmp_path / "a", dtype=torch.float32).save_pretrained(tmp_path / "b")
    folders = [(write_released(tmp_path / "WIDE", WIDE), torch.float64), (tmp_path / "b", torch.float32)]
    for found in ranks.run(load_blocks, 7, 7, folders):
        assert found == [[]] * 4


# --- a model of shapes only, trained ----------------------------------------------------------------------------------


def batch(step: int) -> tuple[Tensor, Tensor, Tensor]:
    draw = torch.Generator().manual_seed(step)
    tokens = torch.randint(TRAINED.vocab_size, (12, 40), generator=draw)
    documents = (torch.arange(40) >= torch.randint(8, 36, (12, 1), generator=draw)).long()
    return tokens, documents, tokens.roll(-1, dims=1)


def trained(mine: parallel.ParallelModel, micro_batches: int) -> dict[str, Any]:
    """Blocks before, losses and gradients of two steps, blocks after."""
    found: dict[str, Any] = {}

    def note(kind: str, tensors: Mapping[str, Tensor]) -> None:
        found.update({f"{kind} {name}": tensor.detach().clone() for name, tensor in tensors.items()})

    note("first", {name: piece.local for name, piece in mine.pieces().items()})
    found["places"] = {name: (piece.shape, piece.offset) for name, piece in mine.pieces().items()}
    optimizer = torch.optim.AdamW(mine.parameters().values(), lr=1e-2)
    dp = mine.meshes.dp
    for step in range(2):
        rows = [t.chunk(dp.size)[dp.rank] for t in batch(step)]
        found[f"losses {step}"] = mine.accumulate(*rows, micro_batches, STEP_LOSSES)
        note(f"gradient {step}", mine.gradients())
        found[f"norm {step}"] = mine.clip(0.5)
        optimizer.step()
        optimizer.zero_grad()
        mine.shift_biases(mine.loads(), 1e-2)
    found["evaluated"] = mine.evaluate(*(t.chunk(dp.size)[dp.rank] for t in batch(2)), 1)
    note("last", {name: piece.local for name, piece in mine.pieces().items()})
    return found


def from_shapes(folder: Path, layout: Layout) -> parallel.ParallelModel:
    with torch.device("meta"):
        model = Transformer(source.open_source(folder).config)
    mine = parallel.apply(model, layout, parallel.meshes(layout))
    assert all(piece.local.is_meta for piece in mine.pieces().values())
    mine.materialise(torch.device("cpu"))
    load_pieces(folder, mine.pieces())
    return mine


def both_ways(folder: Path, layout: Layout, micro_batches: int) -> list[str]:
    """What differs between a model that is loaded and cut, and one cut and loaded; whether anything is compared."""
    cut_late = parallel.apply(load_hf(folder, torch.float32), layout, parallel.meshes(layout))
    one = trained(cut_late, micro_batches)
    two = trained(from_shapes(folder, layout), micro_batches)
    differing = [key for key in one.keys() | two.keys() if key not in one or key not in two]
    for key in one.keys() & two.keys():
        same = torch.equal(one[key], two[key]) if isinstance(one[key], Tensor) else one[key] == two[key]
        if not same or (isinstance(one[key], Tensor) and one[key].dtype != two[key].dtype):
            differing.append(key)
    moved = [key for key in one if key.startswith("last") and not torch.equal(one[key], one[f"first{key[4:]}"])]
    assert len(moved) > 10 and one["losses 0"] != one["losses 1"] and one["losses 0"]["lm"] > 0
    return sorted(differing)


def train_all(rank: int, folder: Path, layouts: list[tuple[Layout, int]]) -> list[list[str]]:
    return [both_ways(folder, *layout) for layout in layouts]


@pytest.mark.slow
def test_training_is_that_of_the_model_loaded_whole_and_cut(tmp_path: Path) -> None:
    folder = save_hf(model_of(TRAINED), tmp_path / "a")
    for found in ranks.run(train_all, 2, folder, list(TWO_RANKS.values())):
        assert dict(zip(TWO_RANKS, found, strict=True)) == {name: [] for name in TWO_RANKS}


def test_one_process_has_one_model(tmp_path: Path) -> None:
    """The stage's parameters are the model's own, also where the two hold them apart."""
    folder = save_hf(model_of(TRAINED), tmp_path / "a")
    mine = from_shapes(folder, Layout())
    held = dict(mine.module.named_parameters())
    assert mine.device == torch.device("cpu") and len(held) == len(mine.parameters())
    assert all(held[name] is parameter for name, parameter in mine.parameters().items())
    expected = load_hf(folder).state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in mine.module.state_dict().items())


@pytest.mark.slow
@pytest.mark.parametrize("world", [1, 2, 3, 4])
def test_every_kind_of_layout_trains_alike(tmp_path: Path, world: int) -> None:
    folders = [save_hf(model_of(TRAINED), tmp_path / "a")]
    folders.append(convert(folders[0], tmp_path / "b", precision="fp4"))
    layouts = {name: chosen for name, chosen in MORE.items() if chosen[0].world_size == world}
    assert layouts
    for folder in folders:
        for found in ranks.run(train_all, world, folder, list(layouts.values())):
            assert dict(zip(layouts, found, strict=True)) == {name: [] for name in layouts}


def test_a_folder_without_mtp(tmp_path: Path) -> None:
    """Its config has none; a model that has an MTP block lacks its weights."""
    folder = save_hf(model_of(replace(SMALL, mtp_layers=0)), tmp_path / "a")
    body = (folder / "config.json").read_text()
    assert '"num_nextn_predict_layers": 0' in body
    (folder / "config.json").write_text(body.replace('_predict_layers": 0', '_predict_layers": 1'))
    (folder / "trex_manifest.json").unlink()

    def attempt(rank: int, folder: Path) -> tuple[list[str], str]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pieces = blocks(replace(SMALL, mtp_layers=0), rank, 2, 0, torch.float32)
            load_pieces(folder, pieces)
            more = blocks(SMALL, rank, 2, 0, torch.float32)
            return wrong(pieces, load_hf(folder).state_dict()), refused(folder, more)

    (first, said), second = ranks.run(attempt, 2, folder)
    assert second == (first, said) and first == []
    missing = [name for name in shaped(SMALL) if name.startswith("mtp.")]
    assert sorted(said.split(": ", 1)[1].split("; ")) == sorted(f"{name} is missing" for name in missing)


# --- what is refused --------------------------------------------------------------------------------------------------


def refused(folder: Path, pieces: Mapping[str, Piece], **options: Any) -> str:
    try:
        load_pieces(folder, pieces, **options)
    except CheckpointError as error:
        return str(error)
    return "none"


def errors(rank: int, folders: list[Path]) -> list[str]:
    return [refused(folder, blocks(SMALL, rank, 2, turn, torch.float32)) for turn, folder in enumerate(folders)]


def test_damage_is_the_error_of_load_hf_on_all_ranks(tmp_path: Path) -> None:
    """Bits of weights and scales, numbers that are not finite, missing and extra tensors, a cut file."""
    folders = [save_hf(model_of(SMALL), tmp_path / f"{n}", shard_bytes=10**9 if n == 3 else 10**5) for n in range(4)]
    folders.append(convert(folders[0], tmp_path / "fp4", precision="fp4"))
    folders.append(convert(folders[0], tmp_path / "nan", precision="fp4"))
    folders.append(save_hf(model_of(SMALL), tmp_path / "theirs", names="transformers"))

    def flip(folder: Path, *names: str) -> None:
        for path in folder.glob("*.safetensors"):
            content, entries = bytearray(path.read_bytes()), read_header(path)
            for name in names:
                if name in entries:
                    content[entries[name].start] ^= 1
            path.write_bytes(content)

    flip(folders[0], "layers.0.attn.wq_a.weight", "layers.1.ffn.experts.3.w2.weight", "mtp.0.norm.weight")
    path = sorted(folders[1].glob("model-*.safetensors"))[1]
    path.write_bytes(path.read_bytes()[:-300])
    for name in ("layers.1.ffn.experts.2.w3.weight", "norm.weight", "layers.0.ffn.gate.weight"):
        for path in folders[2].glob("*.safetensors"):
            state = load_file(path)
            if name in state:
                state[name][-1] = torch.inf
                save_file(state, path, {"format": "pt"})
    (folders[2] / "trex_manifest.json").unlink()
    path = folders[3] / "model.safetensors"
    state = load_file(path)
    del state["norm.weight"]
    state["head.weight"] = torch.ones(2, 3)
    save_file({**state, "extra": torch.ones(1)}, path, {"format": "pt"})
    (folders[3] / "trex_manifest.json").unlink()
    flip(folders[4], "layers.0.attn.wq_a.scale", "layers.1.ffn.experts.0.w1.weight")
    randomise(folders[5], 0)
    (folders[5] / "trex_manifest.json").unlink()
    flip(folders[6], "model.layers.0.mlp.experts.gate_up_proj", "model.norm.weight")
    expected = []
    for folder in folders:
        with pytest.raises(CheckpointError) as caught:
            load_hf(folder, torch.float32)
        expected.append(str(caught.value))
    parts = (
        "mtp.0.norm.weight in", "truncated", "2.w3.weight is not finite",
        "norm.weight is missing; head.weight is F32 [2, 3]", "wq_a.scale in", "not finite", "gate_up_proj in",
    )  # fmt: skip
    for said, part_of in zip(expected, parts, strict=True):
        assert part_of in said
    assert expected[5].count(";") > 10
    first, second = ranks.run(errors, 2, folders)
    assert first == second
    assert [re.sub("^rank 0(, 1)?: ", "", said) for said in first] == expected


def test_pieces_that_are_not_the_model_are_refused(tmp_path: Path) -> None:
    folder = save_hf(model_of(SMALL), tmp_path / "a")

    def attempts(rank: int, folder: Path) -> list[str]:
        texts = []

        def attempt(change: Callable[[dict[str, Piece]], object]) -> None:
            pieces = blocks(SMALL, rank, 2, 0, torch.float32)
            before = {name: piece.local.clone() for name, piece in pieces.items()}
            held = dict(pieces)
            change(held)
            texts.append(refused(folder, held))
            same = all(torch.allclose(p.local, before[name], equal_nan=True) for name, p in pieces.items())
            texts.append("kept" if same else "written")

        def put(name: str, tensor: Tensor, shape: tuple[int, ...], only: int | None = None) -> Callable[..., None]:
            def change(pieces: dict[str, Piece]) -> None:
                if only in (None, rank):
                    pieces[name] = Piece(tensor, shape, (0,) * len(shape))

            return change

        attempt(lambda pieces: pieces.pop("norm.weight"))
        attempt(lambda pieces: pieces.pop("head.weight") if rank else None)
        attempt(put("more.weight", torch.ones(3), (3,)))
        attempt(put("norm.weight", torch.ones(3), (3,)))
        attempt(put("layers.0.ffn.gate.tid2eid", torch.ones(64, 2), (64, 2)))
        attempt(put("norm.weight", torch.ones(32, dtype=torch.int32), (32,)))
        attempt(put("layers.0.attn.attn_sink", torch.ones(4, dtype=torch.bfloat16), (4,)))
        attempt(put("norm.weight", torch.ones(32, device="meta"), (32,), only=1))
        attempt(put("norm.weight", torch.ones(32, dtype=torch.float64), (32,), only=1))
        return texts

    first, second = ranks.run(attempts, 2, folder)
    assert first == second and first[1::2] == ["kept"] * 9
    floats = "torch.float16, torch.bfloat16, torch.float32, torch.float64"
    for said, expected in zip(first[::2], (
        "norm.weight belongs to no part of the model", "head.weight [64, 32] has 2048 elements, its blocks 1024",
        "more.weight is missing", "norm.weight is [32], not [3]",
        "layers.0.ffn.gate.tid2eid is to be torch.float32; accepted: torch.int64",
        f"norm.weight is to be torch.int32; accepted: {floats}",
        "layers.0.attn.attn_sink is to be torch.bfloat16; accepted: torch.float32, torch.float64",
        "rank 1: ", "norm.weight is torch.float32 [32] on rank 0, torch.float64 [32] on rank 1",
    ), strict=True):  # fmt: skip
        assert expected in said
    assert "norm.weight is on the meta device" in first[14]
    with pytest.raises(CheckpointError, match="no folder at"):
        load_pieces(tmp_path / "none", {})


def test_without_verification_altered_bits_are_loaded(tmp_path: Path) -> None:
    folder = save_hf(model_of(SMALL), tmp_path / "a")
    path = folder / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[read_header(path)["norm.weight"].start] ^= 1
    path.write_bytes(content)
    pieces = blocks(SMALL, 0, 1, 0, torch.float32)
    load_pieces(folder, pieces, verify=False)
    assert wrong(pieces, load_hf(folder, verify=False).state_dict()) == []
    assert "norm.weight in model.safetensors was altered" in refused(folder, pieces)


# --- what is read and held --------------------------------------------------------------------------------------------


def test_a_rank_reads_the_rows_it_needs_and_hashes_its_share(tmp_path: Path) -> None:
    """Counted at every read of a tensor: for blocks of rows their bytes, for hashes all bytes once over the ranks."""
    folder = save_hf(model_of(SMALL), tmp_path / "a")

    def reading(rank: int, folder: Path) -> tuple[int, int, int]:
        from trex.checkpoint import hf_pieces

        filled, hashed = [], []

        def counted(into: list[int]) -> Callable[..., Iterator[Tensor]]:
            def reader(path: Path, entry: Entry, *more: Any) -> Iterator[Tensor]:
                for piece in read(path, entry, *more):
                    into.append(piece.nbytes)
                    yield piece

            return reader

        source.read, hf_pieces.read = counted(filled), counted(hashed)
        pieces = {}
        for name, shape in shaped(SMALL).items():
            offset, size = part(shape, 0, rank, 3) if len(shape) > 1 else ([0], list(shape))
            kind = torch.int64 if name.endswith("tid2eid") else torch.float32
            pieces[name] = Piece(torch.empty(size, dtype=kind), shape, tuple(offset))
        load_pieces(folder, pieces)
        return sum(filled), sum(hashed), sum(piece.local.nbytes for piece in pieces.values())

    found = ranks.run(reading, 3, folder)
    whole = sum(entry.size for entry in read_header(folder / "model.safetensors").values())
    assert all(filled == held for filled, _, held in found)
    assert sum(hashed for _, hashed, _ in found) == whole
    assert max(hashed for _, hashed, _ in found) < whole / 2


def memory(key: str) -> int:
    """Bytes of this process, "VmRSS" now or "VmHWM" at most."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1]) * 1024
    pytest.skip(f"this system does not tell {key}")


def test_memory_grows_by_the_blocks(tmp_path: Path) -> None:
    """A model of 200 MB of float32 in a folder of FP8 and FP4 on two ranks; each grows by its half and 40 MB at most,
    a fraction of what loading it whole takes."""
    config = replace(TRAINED, vocab_size=30_000, hidden_size=512, expert_size=1024)
    folder = write_released(tmp_path / "a", config)
    layout = Layout(dp=2, ep=2, sharding="parameters")

    def loading(rank: int, small: Path, folder: Path) -> tuple[int, int]:
        from_shapes(small, layout)  # imports, threads, groups
        before = memory("VmRSS")
        assert memory("VmHWM") < before + 2**20 * 20
        mine = from_shapes(folder, layout)
        held = sum(piece.local.nbytes for piece in mine.pieces().values())
        return memory("VmHWM") - before, held

    small = save_hf(model_of(TRAINED), tmp_path / "small")
    whole = sum(value.nbytes for value in load_hf(folder, torch.float32).state_dict().values())
    assert whole > 200e6
    for grown, held in ranks.run(loading, 2, small, folder):
        assert held < whole * 0.55
        assert held * 0.9 < grown < held + 40e6, (grown, held, whole)
