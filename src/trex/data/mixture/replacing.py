"""Which folders an export may take the place of: earlier exports and nothing else, apart from all that is read."""

import json
import os
from collections.abc import Iterable
from pathlib import Path

from trex.data.mixture.folder import MANIFEST, Mixture
from trex.data.mixture.megatron import STATED, SUFFIX
from trex.data.mixture.recipe import DEEPSEEK, REDUCED, Recipe
from trex.data.mixture.tokenizers import FULL_FILE, REDUCED_FILE
from trex.data.problem import DataError

CARD = "README.md"


def read_by(recipe: Recipe, base: Path) -> list[Path]:
    """The files and folders that a recipe's paths name. base: where relative ones start."""
    tokenizer = [] if recipe.tokenizer in (REDUCED, DEEPSEEK) else [recipe.tokenizer]
    return [base / path for path in (*(source.path for source in recipe.sources if source.path), *tokenizer)]


def check_replaceable(out: Path, read: Iterable[Path]) -> None:
    """Raise DataError unless `out` is an earlier export that is neither one of `read`, nor above or inside of one."""
    if out.is_symlink() or not out.is_dir():
        kind = "link" if out.is_symlink() else "file"
        raise DataError(f"{out} is a {kind}; --replace puts an export in the place of an earlier one only")
    place = Path(os.path.realpath(out))
    for path in read:
        other = Path(os.path.realpath(path))
        if other.is_relative_to(place) or place.is_relative_to(other):
            how = "is" if other == place else "holds" if other.is_relative_to(place) else "lies in"
            raise DataError(f"{out} {how} {path}, which is read; accepted: another folder")
    expected = _files(out)
    for path in sorted(out.rglob("*")):
        name = path.relative_to(out).as_posix()
        folder = path.is_dir() and not path.is_symlink()
        if path.is_symlink() or not (any(e.startswith(f"{name}/") for e in expected) if folder else name in expected):
            raise DataError(f"{out} holds {name}, which no export wrote there; accepted: --replace of an export alone")


def _files(folder: Path) -> set[str]:
    """The names of all files that the export in a folder has written, by its own manifest."""
    if (folder / MANIFEST).is_file():
        manifest = Mixture.open(folder).manifest
        shards = [shard for part in manifest["splits"].values() for shard in part["shards"]]
        listed = {str(shard[key]) for shard in shards for key in ("file", "documents_file")}
        return {MANIFEST, CARD, manifest["tokenizer"]["file"], *listed}
    if not (folder / STATED).is_file():
        raise DataError(f"{folder} is no earlier export: it has no {MANIFEST} or {STATED}; accepted: another folder")
    try:
        body = json.loads((folder / STATED).read_bytes())
        tokenizer, splits = body["tokenizer"]["file"], list(body["splits"])
        if tokenizer not in (FULL_FILE, REDUCED_FILE):
            raise ValueError(f"tokenizer {tokenizer!r}")
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise DataError(f"{folder / STATED} is not what an export writes: {error!r:.200}") from None
    return {STATED, tokenizer, *(f"{split}{SUFFIX}{end}" for split in splits for end in (".bin", ".idx"))}
