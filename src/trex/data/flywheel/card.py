"""The dataset card of exported dialogues: what is in them, how they were split and mixed, and how to read them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from trex.data.flywheel.sharegpt import DATASETS, SHAREGPT, command

CARD, SUMMARY = "README.md", "summary.json"
SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
STAGE = {
    "all": "all styles",
    "code-only": "style code-only: stage I of progressive fine-tuning, which the T-Rex report (arXiv 2607.20145) "
    "trains at a learning rate of 5e-7",
    "clean-cot": "style clean-cot: stage II of progressive fine-tuning, which the T-Rex report (arXiv 2607.20145) "
    "trains at a learning rate of 1e-6",
}


def gates(folder: Path) -> dict[str, dict[str, int]]:
    """Of each gate of a run how many rows it reached and refused, as summary.json says; empty where it says nothing.

    Read are the keys `gates` or `funnel`: {gate: {reached, refused}} or {gate: [reached, refused]}.
    """
    try:
        body = json.loads((folder / SUMMARY).read_bytes())
        stated = body.get("gates", body.get("funnel", {}))
        found = {}
        for name, value in stated.items():
            pair = (value["reached"], value["refused"]) if isinstance(value, dict) else tuple(value)
            reached, refused = (int(number) for number in pair)
            found[str(name)] = {"reached": reached, "refused": refused}
        return found
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}


def card(manifest: Mapping[str, Any]) -> str:
    """The text of README.md for a manifest."""
    settings, splits, left, unit = (manifest[key] for key in ("settings", "splits", "left_out", "unit"))
    train = splits["train"]
    rows = sum(part["rows"] for part in splits.values())
    parts = [
        _head(manifest, rows),
        "# Operations-research dialogues\n",
        f"{rows:,} dialogues of `{manifest['source']['file']}`, which `trex data dialogues` exported as "
        f"{settings['format']} with seed {settings['seed']}; {STAGE[settings['stage']]}.\n",
        "## Splits\n",
        _table(
            ("split", "dialogues", "lineages", "general dialogues", unit),
            (
                (name, f"{part['own']:,}", f"{part['lineages']:,}", f"{part['general']:,}", _sizes(part))
                for name, part in splits.items()
            ),
        ),
        _held_out(manifest),
        *_general(manifest),
        "## Kinds\n",
        *(_kinds(key, splits) for key in ("task", "style", "mode", "structure", "difficulty", "author")),
        "Generated text: it carries the licence of the package that made it, and takes nothing from other sources. "
        "What an author wrote that is a model that was asked has that model's terms as well"
        + (
            "; the general dialogues have their own licence, which is not stated here.\n" if train["general"] else ".\n"
        ),
        *_gates(manifest),
        "## What is not in it\n",
        f"- {left['other stages']:,} dialogues of other stages"
        + (f" and {left['longer']:,} of more than {settings['max_tokens']:,} tokens" if settings["max_tokens"] else ""),
        "- the files that programs read: where the data are in a file (mode DPS) the messages describe it, and its "
        "content is in `files` (JSON of name and content), which is not part of what is trained on",
        "- reasoning apart from the answer, calls of tools, and programs' output beyond what an answer quotes\n",
        *_reading(manifest),
        "## Files\n",
        _table(
            ("file", "dialogues", "SHA-256"),
            ((name, f"{part['rows']:,}", f"`{part['sha256']}`") for name, part in manifest["files"].items()),
        ),
        f"`manifest.json` has all of this card's numbers; the source's SHA-256 is `{manifest['source']['sha256']}`. "
        f"Versions: {', '.join(f'{name} {version}' for name, version in manifest['versions'].items())}. The same "
        "source, settings and versions give the same bytes.\n",
    ]
    return "\n".join(parts)


def _head(manifest: Mapping[str, Any], rows: int) -> str:
    """What hubs and the `datasets` library read."""
    size = next((name for limit, name in SIZES if rows < limit), "1M<n<10M")
    files = "".join(f"  - split: {part['split']}\n    path: {name}\n" for name, part in manifest["files"].items())
    return (
        "---\npretty_name: T-Rex operations-research dialogues\nlanguage: [en]\nlicense: other\n"
        f"task_categories: [text-generation]\nsize_categories: [{size}]\n"
        f"configs:\n- config_name: default\n  data_files:\n{files}---\n"
    )


def _held_out(manifest: Mapping[str, Any]) -> str:
    held, groups, splits = manifest["held_out"], manifest["groups"], manifest["splits"]
    if not held["wanted"]:
        return "Nothing is held out.\n"
    own = sum(part["own"] for part in splits.values())
    exported = splits["validation"]["own"] / own if "validation" in splits else 0.0
    return (
        f"Held out are whole lineages with all rows that are connected to them, as parents or by the same problem "
        f"text: {groups['validation']:,} of {groups['all']:,} groups, {held['of_source']:.2%} of the source's rows and "
        f"{exported:.2%} of those here, where {held['wanted']:.2%} was wanted. The division is that of the whole "
        "source, so that exports of other stages with this seed and share have it too.\n"
    )


def _general(manifest: Mapping[str, Any]) -> list[str]:
    told, settings = manifest["general"], manifest["settings"]
    if told is None:
        return []
    return [
        f"General dialogues are {told['share']:.2%} of the training rows, drawn from `{_plain(settings['general'])}` "
        f"(SHA-256 `{told['sha256']}`; {told['read']:,} read, {told['duplicates']:,} duplicates, {told['refused']:,} "
        f"too long or asking what a held-out row asks), all in the last {settings['late']:.0%} of the order. Their "
        "`task` is `general`. They stay there only in a trainer that does not shuffle. MindSpeed-LLM shuffles without "
        "`--no-shuffle` (`mindspeed_llm/tasks/preprocess/decoder_packed_mtf_dataset.py`), and `--pack` reorders "
        "(`data_handler.py` there).\n"
    ]


def _kinds(key: str, splits: Mapping[str, Any]) -> str:
    values = sorted({value for part in splits.values() for value in part["by"][key]})
    rows = ((_plain(value), *(f"{part['by'][key].get(value, 0):,}" for part in splits.values())) for value in values)
    return _table((key, *splits), rows)


def _gates(manifest: Mapping[str, Any]) -> list[str]:
    found = manifest["source"]["gates"]
    if not found:
        return []
    rows = ((_plain(name), f"{at['reached']:,}", f"{at['refused']:,}") for name, at in found.items())
    return ["## Gates\n", "What the run's gates refused before a row came here:\n", _table(_GATE, rows)]


_GATE = ("gate", "reached", "refused")


def _reading(manifest: Mapping[str, Any]) -> list[str]:
    form, file = manifest["settings"]["format"], next(iter(manifest["files"]))
    column = "`conversations` and `system`" if form == SHAREGPT else "`messages`"
    found = [
        "## Reading\n",
        f"`datasets.load_dataset` of this folder gives {column} with `id`, `lineage`, `task`, `style`, `mode`, "
        "`structure`, `difficulty` and `files`.\n",
    ]
    if form == DATASETS:
        return found
    return [
        *found,
        "MindSpeed-LLM makes its files for supervised fine-tuning of it in this way (FOLDER exists; TOKENIZER is the "
        "checkpoint's):\n",
        f"```bash\n{command(form, file)}\n```\n",
        "Handler and `--map-keys` are those of MindSpeed-LLM's `docs/en/pytorch/tools/"
        "data_process_sft_sharegpt_style.md`"
        + (
            ", with `system` added, which `mindspeed_llm/tasks/preprocess/utils.py` leaves out unless it is mapped"
            if form == SHAREGPT
            else ""
        )
        + "; the prompt type is that of `training/sft/README.md` of the T-Rex release. With `--seq-length N` rows of N "
        "tokens or more are left out there. We have not run the command, which needs Ascend's software.\n",
    ]


def _sizes(part: Mapping[str, Any]) -> str:
    return f"{sum(part['size'].values()):,}"


def _table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [names, ["---"] * len(names), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def _plain(text: str) -> str:
    """Text from outside in a cell of a table."""
    return "".join(" " if letter in "|`<>[]" or not letter.isprintable() else letter for letter in text)[:120]
