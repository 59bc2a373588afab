"""The dataset card of a mixture: what is in it, from where, under which licences, and how to read it.

The head is what the `datasets` library and its hubs read: `load_dataset(FOLDER)` gives the rows, split by split.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

LISTED = 60  # licences that the card lists; the manifest has all


def card(manifest: Mapping[str, Any]) -> str:
    """The text of README.md for a manifest."""
    recipe, splits, tokenizer = manifest["recipe"], manifest["splits"], manifest["tokenizer"]
    train = splits["train"]
    parts = [
        _head(splits),
        f"# {recipe['name']}\n",
        f"A mixture for continued pre-training: {train['tokens']:,} tokens in {train['documents']:,} documents, packed "
        f"in {train['rows']:,} rows of {recipe['seq_len']:,} positions.\n",
        "## Splits\n",
        _table(
            ("split", "documents", "tokens", "rows", "padding"),
            (
                (name, *(f"{part[key]:,}" for key in ("documents", "tokens", "rows")), _padding(part, recipe))
                for name, part in splits.items()
            ),
        ),
        f"Held out are {recipe['held_out']:.3g} of each source's texts, no text on both sides; `validation` has of "
        "them that share of the source's training tokens, as far as they suffice.\n",
        "## Sources\n",
        _table(
            ("source", "from", "weight", "share of tokens", "documents drawn", "tokens drawn", "epochs"),
            (
                (
                    _plain(source["name"]),
                    _origin(given),
                    f"{given['weight']:g}",
                    f"{source['share']:.2%}",
                    f"{source['train_documents']:,}",
                    f"{source['train_tokens']:,}",
                    f"{source['epochs']:.2f}",
                )
                for source, given in zip(manifest["sources"], recipe["sources"], strict=True)
            ),
        ),
        _table(
            (
                "source",
                "texts read",
                "blank",
                "duplicates",
                "for training",
                "their tokens",
                "held out",
                "in validation",
            ),
            (
                (
                    _plain(source["name"]),
                    *(f"{source[key]:,}" for key in ("read", "blank", "duplicates", "documents", "tokens", "held_out")),
                    f"{source['validation_documents']:,} ({source['validation_tokens']:,} tokens)",
                )
                for source in manifest["sources"]
            ),
        ),
        "Blank texts and exact duplicates, of whichever source came first, are left out. A document is drawn up to "
        f"{recipe['max_epochs']:,} times unless its source states another limit.\n",
        "## Licences\n",
        "As stated by the texts, the packages or the recipe; nothing here was checked by a lawyer. Each document's own "
        "is in `documents/`.\n",
        *_licences(manifest["sources"]),
        "## How it was made\n",
        f"- seed {recipe['seed']}: of orders and of what is held out; the same recipe and texts give the same bytes",
        f"- tokenizer `{tokenizer['file']}`, {tokenizer['vocab_size']:,} ids, begin {tokenizer['begin']}, end "
        f"{tokenizer['end']}, SHA-256 `{tokenizer['sha256']}`",
        f"- versions: {', '.join(f'{name} {version}' for name, version in manifest['versions'].items())}\n",
        "## Files\n",
        "`data/` has the rows: `tokens`, `labels` (the tokens that follow: nothing is to be shifted; -100 is not "
        "trained on), `doc_ids` (number of the document in its split, -1 for padding) and `positions` (in the "
        "document). `documents/` says of each document where it comes from. "
        "`mixture.json` has all of this card's numbers.\n",
        _table(
            ("file", "documents", "rows", "SHA-256"),
            (
                (shard["file"], f"{shard['documents']:,}", f"{shard['rows']:,}", f"`{shard['sha256']}`")
                for part in splits.values()
                for shard in part["shards"]
            ),
        ),
    ]
    return "\n".join(parts)


def _head(splits: Mapping[str, Any]) -> str:
    files = "".join(
        f"      - split: {name}\n        path: data/{name}-*.parquet\n"
        for name, part in splits.items()
        if part["shards"]
    )
    configs = f"configs:\n  - config_name: default\n    data_files:\n{files}"
    return f"---\nlicense: other\ntask_categories:\n  - text-generation\n{configs}---\n"


def _origin(source: Mapping[str, Any]) -> str:
    if source["embedded"]:
        return f"embedded stand-in: {source['embedded']} of Python and installed packages"
    return f"`{_plain(source['path'])}`" + (f", split {_plain(source['split'])}" if source["split"] else "")


def _padding(part: Mapping[str, Any], recipe: Mapping[str, Any]) -> str:
    return f"{part['padding'] / max(1, part['rows'] * recipe['seq_len']):.2%}"


def _licences(sources: Sequence[Mapping[str, Any]]) -> list[str]:
    rows = [
        (_plain(source["name"]), _plain(row["package"]) or "-", _plain(row["licence"]), f"{row['documents']:,}")
        for source in sources
        for row in source["licences"]
    ]
    found = [_table(("source", "package", "licence", "documents"), rows[:LISTED])]
    return [*found, f"And {len(rows) - LISTED:,} more in `mixture.json`.\n"] if len(rows) > LISTED else found


def _table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [names, ["---"] * len(names), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def _plain(text: str) -> str:
    """Text from outside in a cell of a table."""
    return "".join(" " if letter in "|`<>[]" or not letter.isprintable() else letter for letter in text)[:120]
