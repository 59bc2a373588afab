"""The commands of `trex checkpoint`: look at weights, fetch them, turn them into others, check them."""

import sys
from json import dumps
from pathlib import Path
from typing import Annotated, Literal

import tyro
from tyro.extras import SubcommandApp

checkpoint = SubcommandApp()
Patterns = tyro.conf.UseAppendAction[tuple[str, ...]]
Repo = tyro.conf.Positional[Annotated[str, tyro.conf.arg(metavar="REPO")]]
Folder = tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="FOLDER")]]
Source = tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="SOURCE")]]
StepFolder = tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="STEP_FOLDER")]]
Target = tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="TARGET")]]


@checkpoint.command
def inspect(folder: Folder, json: bool = False) -> int:
    """Show model, names, dtypes and parameters of a folder of weights, from headers alone; no weight is read.

    Exits 1 when something is missing, extra, misshapen or not where the index says.

    Args:
        folder: config.json and safetensors files, or a part of them.
        json: Print everything as JSON; the table names only the first of each kind of problem.
    """
    from trex.checkpoint.inspect import inspect as work
    from trex.checkpoint.inspect import report

    found = work(folder)
    print(dumps(found.to_dict(), indent=1) if json else report(found))
    return 1 if found.problems else 0


@checkpoint.command
def download(
    repo: Repo,
    folder: Folder,
    hub: Literal["huggingface", "modelscope"] = "huggingface",
    revision: str | None = None,
    include: Patterns = (),
    exclude: Patterns = (),
) -> int:
    """Download weights and tokenizer, compare every file with the hub's hashes, and write the folder's manifest.

    Call it again after an interruption: what is whole is not fetched again. Pickled files are never fetched.

    Args:
        repo: owner/name.
        folder: Where to; it is made if it is not there.
        hub: HF_ENDPOINT or MODELSCOPE_ENDPOINT in the environment replaces its address.
        revision: Branch, tag or commit; the main branch by default.
        include: Pattern of files to fetch, in place of weights, tokenizer and text; may be repeated.
        exclude: Pattern of files not to fetch; may be repeated.
    """
    from trex.checkpoint.download import download as work
    from trex.checkpoint.hubs import open_hub

    got = work(open_hub(hub, repo, revision), folder, include, exclude)
    print(f"{len(got.files)} files, {got.bytes:,} bytes in {folder}, hashes compared; trex_manifest.json written")
    if got.unhashed:
        print(f"trex: the hub gives no hash of {', '.join(got.unhashed)}", file=sys.stderr)
    return 0


@checkpoint.command
def dequantize(
    source: Source,
    target: Target,
    allow_nan: bool = False,
    workers: int | None = None,
) -> int:
    """Write FP8 and FP4 weights as BF16; the same as `convert --precision bf16`.

    Args:
        source: Folder of weights.
        target: New folder. Call again after an interruption: it goes on with the files that are missing.
        allow_nan: Let numbers that are not finite through.
        workers: Files written at once; one per core by default.
    """
    return convert(source, target, precision="bf16", allow_nan=allow_nan, workers=workers)


@checkpoint.command
def convert(
    source: Source,
    target: Target,
    names: Literal["official", "transformers"] | None = None,
    precision: Literal["keep", "bf16", "fp32", "fp8", "fp4"] = "keep",
    allow_nan: bool = False,
    workers: int | None = None,
) -> int:
    """Write weights under other names or in another precision, in bounded memory.

    Args:
        source: Folder of weights.
        target: New folder. Call again after an interruption: it goes on with the files that are missing.
        names: Those of the released files, or those of transformers' state dict; the source's by default.
        precision: bf16 or fp32 dequantise; fp4 is as published, FP8 with routed experts in FP4; fp8 is all FP8, as
            in the base models.
        allow_nan: Let numbers that are not finite through.
        workers: Files written at once; one per core by default.
    """
    from trex.checkpoint.convert import convert as work

    print(work(source, target, names=names, precision=precision, allow_nan=allow_nan, workers=workers))
    return 0


@checkpoint.command
def export(step_folder: StepFolder, target: Target, names: Literal["official", "transformers"] = "official") -> int:
    """Write the model of a training checkpoint as a folder that `serve`, transformers and others read.

    In bounded memory, whatever the number of ranks that saved it. With the checkpoint's tokenizer, if it has one.

    Args:
        step_folder: step-… of a run's folder.
        target: New folder.
        names: Those of the released files, or those of transformers' state dict.
    """
    from trex.checkpoint.export import export_hf as work
    from trex.checkpoint.training import read_documents

    tokenizer = read_documents(step_folder).get("tokenizer")
    print(work(step_folder, target, names=names, extra={"trex_tokenizer.json": tokenizer} if tokenizer else None))
    return 0


@checkpoint.command
def verify(folder: Folder) -> int:
    """Compare every file and tensor with the folder's manifest; without one, names, shapes and lengths alone.

    Exits 1 when anything differs, with a line for each difference.

    Args:
        folder: Folder with a trex_manifest.json, or a folder of weights.
    """
    from tqdm import tqdm

    from trex.checkpoint.inspect import inspect as look
    from trex.checkpoint.manifest import MANIFEST, problems, read_manifest

    files = read_manifest(folder)
    if files is None:
        found = look(folder).problems
        print(f"trex: {folder} has no {MANIFEST}: names, shapes and lengths are compared, no hashes", file=sys.stderr)
    else:
        total = sum(file["bytes"] for file in files.values())
        with tqdm(total=total, unit="B", unit_scale=True, disable=None) as bar:
            found = list(problems(folder, bar.update))
    print(*found or [f"{folder}: no problems"], sep="\n")
    return 1 if found else 0
