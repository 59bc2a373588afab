"""From a run's dialogues to a folder to train on: split by lineage, put in order, written, read back, and told of.

The rows themselves are read twice and never held together; in memory is some hundred bytes for each.
"""

import hashlib
import json
import os
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from trex.data import chat
from trex.data.documents import PACKAGE
from trex.data.flywheel import general, sharegpt, splitting
from trex.data.flywheel.bucket import CLEAN_COT, CODE
from trex.data.flywheel.card import CARD, card, gates
from trex.data.flywheel.dialogue import Dialogue
from trex.data.flywheel.general import Drawn, file_sha256, lines
from trex.data.flywheel.sharegpt import DATASETS, FORMS, Messages, Row
from trex.data.problem import DataError
from trex.files import folder_atomic

DIALOGUES, MANIFEST = "dialogues.jsonl", "manifest.json"
KIND, VERSION = "trex dialogues", 1
TRAIN, VALIDATION = "train", "validation"
ALL = "all"
STAGES = (ALL, CODE, CLEAN_COT)
GENERAL = "general"  # task of a row that is not ours
SHARE = 0.12  # of general rows, where a file is given
Size = Callable[[Messages], int]  # tokens or characters of a row
COUNTED = ("task", "style", "mode", "structure", "difficulty")


@dataclass(frozen=True)
class Settings:
    """What is exported and how. Raises DataError for values that are out of range or do not go together."""

    format: str = sharegpt.OPENAI  # one of FORMS
    stage: str = ALL  # one of STAGES
    validation: float = 0.05  # share of the source's rows
    seed: int = 0
    general: Path | None = None  # dialogues to mix in
    general_share: float | None = None  # of all training rows; SHARE for None
    late: float = 0.5  # the last part of the training rows, where they are
    repeat: bool = False  # draw a general row again where there are too few
    tokenizer: str | None = None  # `deepseek`, a file or a folder
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        """Check them before anything is read."""
        for name, value, accepted in (("format", self.format, FORMS), ("stage", self.stage, STAGES)):
            if value not in accepted:
                raise DataError(f"{name} {value!r:.60}; accepted: {', '.join(accepted)}")
        if self.seed < 0:
            raise DataError(f"seed {self.seed}; accepted: whole numbers from 0")
        if self.general is None and (self.general_share is not None or self.repeat):
            raise DataError("a general share and --repeat need a file of general dialogues: --general FILE")
        if self.max_tokens is not None and (self.tokenizer is None or self.max_tokens < 1):
            raise DataError(f"max tokens {self.max_tokens}; accepted: whole numbers from 1, with --tokenizer")
        general.wanted(0, self.share)
        general.places(0, 0, self.late, self.seed)

    @property
    def share(self) -> float:
        """Share of general rows where a file is given."""
        return SHARE if self.general_share is None else self.general_share


@dataclass(frozen=True)
class Entry:
    """What is kept of a row of the source."""

    offset: int
    link: splitting.Link
    style: str
    asked: str  # digest of the user's messages
    size: int


def export(source: Path, out: Path, settings: Settings, replace: bool = False) -> dict[str, Any]:
    """Write the dialogues of a run's folder to `out`, whole or not at all, and return the manifest.

    replace: an earlier export. Raises DataError for what is not accepted, FileExistsError.
    """
    path = source / DIALOGUES
    if not path.is_file():
        raise DataError(f"{source} holds no {DIALOGUES}; accepted: the folder of a run of the flywheel")
    if os.path.lexists(out):
        if not replace:
            raise FileExistsError(f"{out} exists; accepted: another folder, or --replace")
        tokenizer = [Path(settings.tokenizer)] if settings.tokenizer else []
        check_replaceable(out, [source, *([settings.general] if settings.general else []), *tokenizer])
    with folder_atomic(out, replace) as made:
        return _export(path, made, settings)


def _export(path: Path, made: Path, settings: Settings) -> dict[str, Any]:
    size, tokenizer = _measure(settings)
    sha256 = file_sha256(path)
    entries = list(_entries(path, size))
    divided = splitting.split([entry.link for entry in entries], settings.validation, settings.seed)
    in_stage = [k for k, entry in enumerate(entries) if settings.stage in (ALL, entry.style)]
    kept = [k for k in in_stage if _fits(entries[k].size, settings)]
    sides = {TRAIN: lambda k: k not in divided.held_out, VALIDATION: lambda k: k in divided.held_out}
    order = {split: list(filter(side, kept)) for split, side in sides.items()}
    if not order[TRAIN]:
        raise DataError(
            f"{path} has no row to train on: of {len(entries):,} are {len(in_stage):,} of stage {settings.stage}, "
            f"{len(kept):,} short enough, all of them held out; accepted: one row or more"
        )
    for split, numbers in order.items():
        random.Random(f"{split}/{settings.seed}").shuffle(numbers)
    drawn = _general(settings, size, [entries[k] for k in divided.held_out], len(order[TRAIN]))
    mixed = _mixed(order[TRAIN], drawn.drawn if drawn else (), settings)
    files: dict[str, dict[str, Any]] = {}
    splits: dict[str, dict[str, Any]] = {}
    for split, plan in ((TRAIN, mixed), (VALIDATION, order[VALIDATION])):
        if plan:
            name = f"data/{split}.parquet" if settings.format == DATASETS else f"{split}.jsonl"
            splits[split] = _write(path, made / name, entries, plan, settings, size)
            files[name] = {"split": split, "rows": len(plan), "sha256": file_sha256(made / name)}
    if file_sha256(path) != sha256 or (drawn and settings.general and file_sha256(settings.general) != drawn.sha256):
        raise DataError(f"{path} or the general dialogues changed while they were read; accepted: a finished run")
    manifest = {
        "kind": KIND,
        "version": VERSION,
        "source": {"file": path.name, "sha256": sha256, "rows": len(entries), "gates": gates(path.parent)},
        "settings": asdict(settings)
        | {
            "general": settings.general.name if settings.general else None,
            "general_share": settings.share if settings.general else None,
            "tokenizer": tokenizer,
        },
        "unit": "characters" if tokenizer is None else "tokens",
        "left_out": {"other stages": len(entries) - len(in_stage), "longer": len(in_stage) - len(kept)},
        "groups": {"all": divided.groups, VALIDATION: divided.held_out_groups},
        "held_out": {"wanted": settings.validation, "of_source": len(divided.held_out) / len(entries)},
        "general": drawn.to_dict(len(mixed)) if drawn else None,
        "splits": splits,
        "files": files,
        "versions": {name: metadata.version(name) for name in (PACKAGE, "pyarrow")},
    }
    (made / MANIFEST).write_text(json.dumps(manifest, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (made / CARD).write_text(card(manifest), encoding="utf-8")
    return manifest


def _measure(settings: Settings) -> tuple[Size, dict[str, Any] | None]:
    """What counts the size of a row, and what is said of the tokenizer."""
    if settings.tokenizer is None:

        def characters(messages: Messages) -> int:
            chat.encode(messages)
            return sum(len(message["content"]) for message in messages)

        return characters, None
    from trex.data.mixture.recipe import REDUCED
    from trex.data.mixture.tokenizers import chosen

    if settings.tokenizer == REDUCED:
        raise DataError(f"tokenizer {REDUCED}; accepted: deepseek, a file or a folder")
    held = chosen(settings.tokenizer, Path(), ())

    def tokens(messages: Messages) -> int:
        ids, _ = chat.tokenize(chat.encode(messages), held.tokenizer)
        return len(ids)

    return tokens, held.to_dict()


def _fits(size: int, settings: Settings) -> bool:
    return settings.max_tokens is None or size <= settings.max_tokens


def _entries(path: Path, size: Size) -> Iterator[Entry]:
    """All rows of a run. Raises DataError that names the line."""
    ids: set[str] = set()
    for offset, number, line in lines(path):
        where = f"{path}, line {number}"
        if not line.endswith(b"\n"):
            raise DataError(f"{where} has no end; accepted: a finished run")
        try:
            row = Dialogue.from_line(line.decode())
            if row.id in ids or not row.id or not row.lineage.strip():
                raise DataError(f"id {row.id!r:.80}, lineage {row.lineage!r:.80}; accepted: an own id and a lineage")
            ids.add(row.id)
            length = size(_messages(row))
        except (DataError, UnicodeDecodeError) as error:
            raise DataError(f"{where}: {error}") from None
        link = splitting.Link(row.id, row.lineage, row.parent, splitting.digest(row.problem))
        yield Entry(offset, link, row.bucket.style, splitting.digest(row.asked), length)
    if not ids:
        raise DataError(f"{path} holds no rows; accepted: one or more")


def _messages(row: Dialogue) -> Messages:
    return sharegpt.checked([{"role": message.role, "content": message.content} for message in row.messages])


def _general(settings: Settings, size: Size, held_out: Iterable[Entry], own: int) -> general.General | None:
    """The general rows, none of which asks what a row that is held out asks."""
    if settings.general is None:
        return None
    barred = {text for entry in held_out for text in (entry.asked, entry.link.text)}

    def accepts(messages: Messages) -> bool:
        asked = "\n\n".join(message["content"] for message in messages if message["role"] == "user")
        return splitting.digest(asked) not in barred and _fits(size(messages), settings)

    return general.draw(settings.general, general.wanted(own, settings.share), settings.seed, settings.repeat, accepts)


def _mixed(own: Sequence[int], drawn: Sequence[Drawn], settings: Settings) -> list[int | Drawn]:
    """Training rows in their order: numbers of the source's, and general ones in the last part."""
    total = len(own) + len(drawn)
    places = dict(zip(general.places(total, len(drawn), settings.late, settings.seed), drawn, strict=True))
    rest = iter(own)
    return [places[k] if k in places else next(rest) for k in range(total)]


def _write(
    path: Path, target: Path, entries: Sequence[Entry], plan: Sequence[int | Drawn], settings: Settings, size: Size
) -> dict[str, Any]:
    """Write a split, read it back, and count. Raises DataError where what is read is not what was written."""
    target.parent.mkdir(exist_ok=True)
    counts: dict[str, Counter[str]] = {name: Counter() for name in (*COUNTED, "author", "lineage", "sizes")}
    written: list[bytes] = []

    def rows() -> Iterator[Row]:
        for messages, origin, author in _rows(path, entries, plan, settings):
            written.append(_digest(messages))
            counts["sizes"][GENERAL if origin["task"] == GENERAL else "own"] += size(messages)
            if origin["task"] != GENERAL:
                for name in (*COUNTED, "lineage"):
                    counts[name][str(origin[name])] += 1
                counts["author"][author] += 1
            yield messages, origin

    sharegpt.write(settings.format, target, rows())
    found = list(map(_digest, sharegpt.read(settings.format, target)))
    if found != written or len(found) != len(plan):
        first = next((k for k, pair in enumerate(zip(found, written, strict=False)) if pair[0] != pair[1]), len(found))
        raise DataError(f"{target.name}: row {first + 1} is not read as it was written")
    own = sum(isinstance(row, int) for row in plan)
    return {
        "rows": len(plan),
        "own": own,
        GENERAL: len(plan) - own,
        "lineages": len(counts.pop("lineage")),
        "size": dict(sorted(counts.pop("sizes").items())),
        "by": {name: dict(sorted(count.items())) for name, count in counts.items()},
    }


def _rows(
    path: Path, entries: Sequence[Entry], plan: Sequence[int | Drawn], settings: Settings
) -> Iterator[tuple[Messages, dict[str, Any], str]]:
    """Rows in the order of the plan: messages, origin, author."""
    with path.open("rb") as own, (settings.general or path).open("rb") as others:
        for row in plan:
            if isinstance(row, Drawn):
                others.seek(row.offset)
                name = f"{GENERAL}/{row.line}" + (f"/{row.epoch}" if row.epoch else "")
                origin = {**dict.fromkeys(sharegpt.ORIGIN, ""), "id": name, "task": GENERAL, "difficulty": 0}
                yield general.read(others.readline(), f"{settings.general}, line {row.line}"), origin, ""
                continue
            own.seek(entries[row].offset)
            found = Dialogue.from_line(own.readline().decode())
            files = json.dumps(found.files, ensure_ascii=False) if found.files else ""
            bucket = {name: getattr(found.bucket, name) for name in COUNTED}
            yield _messages(found), {"id": found.id, "lineage": found.lineage, **bucket, "files": files}, found.author


def _digest(messages: Messages) -> bytes:
    return hashlib.sha256(json.dumps(messages).encode()).digest()


def check_replaceable(out: Path, read: Iterable[Path]) -> None:
    """Raise DataError unless `out` is an earlier export of dialogues, apart from all that is `read`."""
    if out.is_symlink() or not out.is_dir():
        raise DataError(f"{out} is no folder; --replace puts an export in the place of an earlier one only")
    place = Path(os.path.realpath(out))
    for path in read:
        other = Path(os.path.realpath(path))
        if other.is_relative_to(place) or place.is_relative_to(other):
            raise DataError(f"{out} and {path}, which is read, lie in each other; accepted: another folder")
    try:
        body = json.loads((out / MANIFEST).read_bytes())
        if body["kind"] != KIND:
            raise ValueError(f"kind {body['kind']!r}")
        expected = {MANIFEST, CARD, *map(str, body["files"])}
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise DataError(
            f"{out} is no earlier export of dialogues ({type(error).__name__}: {error}); accepted: another one"
        ) from None
    for found in sorted(out.rglob("*")):
        name = found.relative_to(out).as_posix()
        folder = found.is_dir() and not found.is_symlink()
        if found.is_symlink() or not (any(e.startswith(f"{name}/") for e in expected) if folder else name in expected):
            raise DataError(f"{out} holds {name}, which no export wrote there; accepted: --replace of an export alone")
