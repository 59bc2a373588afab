"""Which tensor lies where in a folder that may be incomplete or damaged: headers of safetensors files, and index."""

from dataclasses import dataclass, field
from pathlib import Path

from trex.checkpoint.errors import CheckpointError
from trex.checkpoint.manifest import SUFFIX, read_json
from trex.checkpoint.tensors import Entry, read_header

CONFIG, INDEX, SINGLE = "config.json", "model.safetensors.index.json", "model.safetensors"
PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl")


@dataclass
class Shards:
    """What lies in a folder. A tensor that two files hold is listed where it was found first."""

    tensors: dict[str, tuple[str, Entry]] = field(default_factory=dict)  # name → file, entry
    files: list[str] = field(default_factory=list)  # that were read
    indexed: dict[str, str] = field(default_factory=dict)  # name → file, as the index says
    absent: list[str] = field(default_factory=list)  # files that the index names and that are not there
    damaged: list[str] = field(default_factory=list)  # a line for each file that cannot be read
    misplaced: list[str] = field(default_factory=list)  # a line for each tensor that is not where the index says
    pickled: list[str] = field(default_factory=list)  # files that are never opened

    @property
    def problems(self) -> list[str]:
        """A line for each; those of files that are absent or damaged name the tensors that the index puts there."""
        lost = {file: sorted(name for name in self.unread if self.indexed[name] == file) for file in self.absent}
        absent = [f"{file} is missing, with {', '.join(names)}" for file, names in lost.items()]
        told = " ".join(self.damaged)
        rest = [name for name in sorted(self.unread) if self.indexed[name] not in lost and name not in told]
        unread = [f"not read, as their files are damaged: {', '.join(rest)}"] if rest else []
        return [*self.damaged, *unread, *absent, *self.misplaced]

    @property
    def unread(self) -> set[str]:
        """Tensors that the index puts into files that are absent or damaged."""
        read = set(self.files)
        return {name for name, file in self.indexed.items() if file not in read}


def read_shards(folder: Path) -> Shards:
    """Headers of all safetensors files of a folder, and its index. Raises CheckpointError where there is no folder."""
    if not folder.is_dir():
        raise CheckpointError(f"no folder at {folder}")
    found = Shards()
    for path in sorted(folder.iterdir()):
        if path.suffix in PICKLED:
            found.pickled.append(path.name)
        elif path.suffix == SUFFIX and not path.name.startswith(".") and path.is_file():
            _read(path, found)
    has_index = (folder / INDEX).is_file()
    if has_index:
        try:
            found.indexed = _weight_map(folder / INDEX)
        except CheckpointError as error:
            found.damaged.append(str(error))
            has_index = False
    named = set(found.indexed.values())
    found.absent = sorted(file for file in named if not (folder / file).is_file())
    if has_index:
        _compare(found)
    elif len(found.files) > 1 and not found.damaged:
        found.misplaced.append(f"{len(found.files)} safetensors files and no {INDEX}")
    return found


def _read(path: Path, found: Shards) -> None:
    try:
        entries = read_header(path)
    except CheckpointError as error:
        found.damaged.append(str(error))
        return
    found.files.append(path.name)
    for name, entry in entries.items():
        first = found.tensors.setdefault(name, (path.name, entry))
        if first[0] != path.name:
            found.misplaced.append(f"{name} is in {first[0]} and again in {path.name}")


def _weight_map(path: Path) -> dict[str, str]:
    body = read_json(path)
    places = body.get("weight_map") if isinstance(body, dict) else None
    if not isinstance(places, dict) or not all(isinstance(file, str) for file in places.values()):
        raise CheckpointError(f"{path} is no index: it has no weight_map from names of tensors to names of files")
    outside = sorted({file for file in places.values() if file != Path(file).name})
    if outside:
        raise CheckpointError(f"{path} names files outside of its folder: {', '.join(map(repr, outside))}")
    return places


def _compare(found: Shards) -> None:
    for name, (file, _) in found.tensors.items():
        said = found.indexed.get(name)
        if said is None:
            found.misplaced.append(f"{name} is in {file} and not in the index")
        elif said != file:
            found.misplaced.append(f"{name} is in {file}; the index says {said}")
    read = set(found.files)
    for name, file in found.indexed.items():
        if file in read and name not in found.tensors:
            found.misplaced.append(f"{name} is not in {file}, where the index puts it")
