"""`trex data export`: documents with other texts in the shares of a recipe, tokenised and packed, or for Megatron."""

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

if TYPE_CHECKING:
    from trex.data.mixture.folder import Mixture

Asked = tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="SOURCE")]]
Out = tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="OUT")]]


def export(
    source: Asked,
    out: Out,
    format: Literal["parquet", "megatron"] = "parquet",
    seq_len: int = 4096,
    replace: bool = False,
) -> int:
    """Mix documents with other texts and write rows for our trainer, or .bin and .idx files for Megatron.

    trex train --data OUT reads the rows; Megatron and MindSpeed read OUT/train_text_document.

    Args:
        source: A recipe (YAML: name, seed, seq_len, sources with weights); a folder of documents, mixed with embedded
            texts half and half; or, for megatron, a mixture that was written before.
        out: The folder to write; it appears whole or not at all.
        format: parquet, or megatron.
        seq_len: Positions of a row, where the source is a folder of documents.
        replace: Put it in the place of an earlier export; any other folder is left alone.
    """
    from trex.data.mixture import megatron
    from trex.data.mixture.build import build
    from trex.data.mixture.folder import MANIFEST, Mixture
    from trex.data.mixture.recipe import Recipe
    from trex.data.mixture.replacing import check_replaceable, read_by
    from trex.data.problem import DataError

    there = os.path.lexists(out)
    if there and not replace:
        raise FileExistsError(f"{out} exists; accepted: another folder, or --replace")
    if (source / MANIFEST).is_file():
        if format != "megatron":
            raise DataError(f"{source} is a mixture already; accepted: --format megatron, or a recipe")
        mixture = Mixture.open(source)
        if there:
            check_replaceable(out, [source])
        _told(out, megatron.export(mixture, out, replace))
        return 0
    recipe = Recipe.default(source, seq_len) if source.is_dir() else Recipe.read(source)
    if there:
        check_replaceable(out, [source, *read_by(recipe, source.parent)])
    if format == "parquet":
        _say(build(recipe, out, source.parent, replace))
        return 0
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as work:
        mixture = build(recipe, Path(work) / "mixture", source.parent)
        _say(mixture)
        _told(out, megatron.export(mixture, out, replace))
    return 0


def _say(mixture: "Mixture") -> None:
    for source in mixture.manifest["sources"]:
        print(
            f"{source['name']:<16}{source['train_documents']:>9,} documents {source['train_tokens']:>12,} tokens "
            f"{source['share']:7.2%} of them, {source['epochs']:.2f} epochs; left out {source['blank']:,} blank, "
            f"{source['duplicates']:,} duplicates"
        )
    for split, part in mixture.manifest["splits"].items():
        print(f"{split:<16}{part['documents']:>9,} documents {part['tokens']:>12,} tokens, {part['rows']:,} rows")


def _told(out: Path, stated: dict[str, dict[str, dict[str, object]]]) -> None:
    for split, part in stated["splits"].items():
        print(
            f"{out / split}_text_document  {part['documents']:,} documents, {part['tokens']:,} tokens, {part['dtype']}"
        )
