"""From a recipe to a finished folder: read, compare, tokenise, draw, pack, and say what came of it.

The folder appears whole or not at all. In memory are one file's rows and some 60 bytes per text.
"""

import json
import platform
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet
from tqdm import tqdm

from trex.data.mixture import drawing, shards
from trex.data.mixture.card import card
from trex.data.mixture.drawing import Drawn, Pool
from trex.data.mixture.folder import KIND, MANIFEST, TRAIN, VALIDATION, VERSION, Mixture, digest
from trex.data.mixture.reading import texts
from trex.data.mixture.recipe import Recipe, Source
from trex.data.mixture.spool import Spool
from trex.data.mixture.tokenizers import chosen
from trex.data.problem import DataError
from trex.files import folder_atomic

PACKAGE = "trex-reproduction"
SPOOL = ".spool"
Licences = Counter[tuple[int, str, str]]  # source, package and licence of the documents that are in the mixture


@dataclass(frozen=True)
class Taken:
    """What was read of a source."""

    read: int  # texts, blank ones with them
    blank: int
    duplicates: int  # of a text before it, in any source
    documents: int  # that may be drawn for training
    tokens: int
    held_out: int  # documents


def build(recipe: Recipe, folder: Path, base: Path, replace: bool = False) -> Mixture:
    """Make a mixture. base: where the recipe's relative paths start. replace: an existing folder.

    Raises DataError for texts that cannot be read or do not suffice, FileExistsError.
    """
    with folder_atomic(folder, replace) as made:
        work = made / SPOOL
        work.mkdir()
        spool = Spool(work)
        try:
            _build(recipe, base, spool, made)
        finally:
            spool.close()
        work.rmdir()
    return Mixture.open(folder)


def _build(recipe: Recipe, base: Path, spool: Spool, made: Path) -> None:
    seen = [_put_down(spool, k, source, base) for k, source in enumerate(recipe.sources)]
    digests = spool.digests()
    first, found = drawing.first_of_each(digests), drawing.keys(digests, recipe.seed)
    del digests
    held = np.zeros(len(spool), dtype=bool)
    for k in range(len(recipe.sources)):
        own = np.flatnonzero(first & (spool.sources() == k))
        held[drawing.held_out(own, found[own], recipe.held_out)] = True
    training = first & ~held
    fitted = (text for _, text in _shown(spool.texts(training), "fitting", int(training.sum())))
    tokenizer = chosen(recipe.tokenizer, base, fitted)
    spool.tokenise(_shown(spool.texts(first), "tokenising", int(first.sum())), tokenizer.document)
    pools = [_pool(recipe, spool, k, training, found, source) for k, source in enumerate(recipe.sources)]
    for pool in pools:
        if not len(pool.texts):
            raise DataError(f"source {pool.name} has no text to train on")
    drawn = drawing.draw(pools, recipe.tokens)
    _, own_tokens = _by_source(spool, drawn, len(pools))
    wanted = [round(recipe.held_out / (1 - recipe.held_out) * tokens) for tokens in own_tokens]
    others = [_pool(recipe, spool, k, held, found, source) for k, source in enumerate(recipe.sources)]
    validation = drawing.draw_once(others, wanted)
    (made / tokenizer.file).write_bytes(tokenizer.body)
    licences: Licences = Counter()
    splits = {
        TRAIN: _write(recipe, spool, drawn, made, TRAIN, licences),
        VALIDATION: _write(recipe, spool, validation, made, VALIDATION, licences),
    }
    held_documents = np.bincount(spool.sources()[held], minlength=len(pools)).tolist()
    duplicates = np.bincount(spool.sources()[~first], minlength=len(pools)).tolist()
    taken = [
        Taken(*seen[k], duplicates[k], len(pool.texts), int(pool.tokens.sum()), held_documents[k])
        for k, pool in enumerate(pools)
    ]
    manifest = {
        "kind": KIND,
        "version": VERSION,
        "recipe": recipe.to_dict(),
        "tokenizer": tokenizer.to_dict(),
        "sources": [
            _stated(recipe, k, taken[k], spool, drawn, validation, licences) for k in range(len(recipe.sources))
        ],
        "splits": splits,
        "versions": {
            "python": platform.python_version(),
            **{name: metadata.version(name) for name in (PACKAGE, "pyarrow", "tokenizers")},
        },
    }
    (made / MANIFEST).write_text(json.dumps(manifest, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (made / "README.md").write_text(card(manifest), encoding="utf-8")


def _put_down(spool: Spool, number: int, source: Source, base: Path) -> tuple[int, int]:
    """Read a source; how many texts, and how many of them are blank."""
    read = blank = 0
    for text in _shown(texts(source, base), source.name, None):
        read += 1
        if text is None:
            blank += 1
        else:
            spool.add(number, text)
    return read, blank


def _pool(
    recipe: Recipe, spool: Spool, number: int, mask: NDArray[np.bool_], found: drawing.Keys, source: Source
) -> Pool:
    own = np.flatnonzero(mask & (spool.sources() == number))
    return Pool(source.name, recipe.share(source), recipe.epochs(source), own, found[own], spool.lengths()[own])


def _by_source(spool: Spool, drawn: Drawn, count: int) -> tuple[list[int], list[int]]:
    """Documents and tokens that were drawn from each source."""
    numbers = np.frombuffer(drawn.texts, dtype=np.int64) if len(drawn) else np.zeros(0, dtype=np.int64)
    sources, tokens = spool.sources()[numbers], np.zeros(count, dtype=np.int64)
    np.add.at(tokens, sources, spool.lengths()[numbers])
    return np.bincount(sources, minlength=count).tolist(), tokens.tolist()


def _write(recipe: Recipe, spool: Spool, drawn: Drawn, made: Path, split: str, licences: Licences) -> dict[str, Any]:
    """Write the files of a split and what the manifest says of them."""
    parts = list(_parts(spool.lengths(), drawn, recipe.shard_tokens))
    written: list[dict[str, Any]] = []
    totals: Counter[str] = Counter()
    for folder in ("data", "documents"):
        (made / folder).mkdir(exist_ok=True)
    for k, (start, end) in enumerate(_shown(parts, f"packing {split}", len(parts))):
        name = f"{split}-{k:05d}-of-{len(parts):05d}.parquet"
        content = shards.packed([spool.tokens(drawn.texts[i]) for i in range(start, end)], start, recipe.seq_len)
        shards.write(made / "data" / name, content)
        _documents(recipe, spool, drawn, range(start, end), made / "documents" / name, licences)
        sizes = {"documents": end - start, "rows": len(content.tokens), "padding": shards.padding(content)}
        totals.update(sizes)
        hashes = {
            "sha256": digest(made / "data" / name),
            "documents_file": f"documents/{name}",
            "documents_sha256": digest(made / "documents" / name),
        }
        written.append({"file": f"data/{name}", **sizes, **hashes})
    tokens = sum(_by_source(spool, drawn, len(recipe.sources))[1])
    counts = {name: totals[name] for name in ("documents", "rows", "padding")}
    return {**counts, "tokens": tokens, "shards": written}


def _parts(lengths: NDArray[np.int64], drawn: Drawn, most: int) -> Iterator[tuple[int, int]]:
    """First and last + 1 of the documents of each file: as many as have `most` tokens, one at least."""
    start = size = 0
    for k in range(len(drawn)):
        own = int(lengths[drawn.texts[k]])
        if size and size + own > most:
            yield start, k
            start, size = k, 0
        size += own
    if start < len(drawn):
        yield start, len(drawn)


def _documents(recipe: Recipe, spool: Spool, drawn: Drawn, numbers: range, path: Path, licences: Licences) -> None:
    """Write where each document of a file comes from."""
    columns: dict[str, list[Any]] = {
        name: [] for name in ("document", "source", "name", "package", "licence", "epoch", "tokens", "sha256")
    }
    lengths, sources = spool.lengths(), spool.sources()
    for number in numbers:
        text, epoch = drawn.texts[number], drawn.epochs[number]
        name, licence, package, sha256 = spool.about(text)
        source = int(sources[text])
        if not epoch:
            licences[source, package, licence] += 1
        row = (number, recipe.sources[source].name, name, package, licence, epoch, int(lengths[text]), sha256)
        for column, value in zip(columns.values(), row, strict=True):
            column.append(value)
    types = {"document": pa.int32(), "epoch": pa.int32(), "tokens": pa.int32()}
    schema = pa.schema([(name, types.get(name, pa.string())) for name in columns])
    parquet.write_table(pa.table(columns, schema=schema), path, compression="zstd")


def _stated(
    recipe: Recipe, number: int, taken: Taken, spool: Spool, drawn: Drawn, validation: Drawn, licences: Licences
) -> dict[str, Any]:
    """What the manifest says of a source."""
    source, count = recipe.sources[number], len(recipe.sources)
    documents, tokens = _by_source(spool, drawn, count)
    held_documents, held_tokens = _by_source(spool, validation, count)
    rows = sorted((package, licence, n) for (k, package, licence), n in licences.items() if k == number)
    return {
        "name": source.name,
        "read": taken.read,
        "blank": taken.blank,
        "duplicates": taken.duplicates,
        "held_out": taken.held_out,
        "documents": taken.documents,
        "tokens": taken.tokens,
        "wanted_share": recipe.share(source),
        "train_documents": documents[number],
        "train_tokens": tokens[number],
        "share": tokens[number] / max(1, sum(tokens)),
        "epochs": tokens[number] / taken.tokens,
        "validation_documents": held_documents[number],
        "validation_tokens": held_tokens[number],
        "licences": [{"package": package, "licence": licence, "documents": n} for package, licence, n in rows],
    }


def _shown(items: Iterable[Any], what: str, total: int | None) -> Iterator[Any]:
    """The same, with a bar for a person who watches."""
    return iter(tqdm(items, desc=what, total=total, disable=not sys.stderr.isatty(), leave=False))
