"""`trex data ingest`: a user's own documents, made ready for training."""

from pathlib import Path
from typing import Annotated

import tyro

Inputs = tyro.conf.Positional[Annotated[tuple[Path, ...], tyro.conf.arg(metavar="PATH [PATH ...]")]]
Folder = Annotated[Path, tyro.conf.arg(metavar="FOLDER")]


def ingest(
    inputs: Inputs,
    out: Folder,
    licence: str = "",
    languages: Annotated[tuple[str, ...], tyro.conf.arg(metavar="CODE [CODE ...]")] = ("en",),
    benchmarks: Path | None = None,
    near: float = 0.8,
    relevance: float = 0.0,
    processes: int = 0,
) -> int:
    """Collect documents: clean them, keep good ones in the languages asked for, drop duplicates and benchmarks.

    Text, Markdown, HTML, PDF and JSONL (a `text` per row) are read; nothing in them runs. FOLDER gets documents.jsonl,
    refusals.jsonl (with gate and reason) and settings.json; the same command goes on after an interruption. Exits 0, or
    1 where no document was let in.

    Args:
        inputs: Files and folders.
        out: Where the collection goes, outside of what is read.
        licence: Of documents that name none; without it they are refused. A row's `licence` and a file NAME.licence
            (or NAME.license) beside NAME come first.
        languages: Codes of ISO 639-1 that are let in; `any` for all.
        benchmarks: Folder of benchmarks; documents that share 13 words in a row with one are refused.
        near: Similarity from which documents are near-duplicates, above 0 up to 1.
        relevance: Least score for operations research (weighted terms per 1,000 words); it is recorded in any case.
        processes: How many work side by side; one per core for 0.
    """
    from trex.data.decontamination import Benchmarks
    from trex.data.ingest.prepare import Rules
    from trex.data.ingest.run import ingest as work

    kept_out = Benchmarks.read(benchmarks) if benchmarks is not None else Benchmarks()
    rules = Rules(licence=licence, languages=() if languages == ("any",) else languages, relevance=relevance)
    funnel = work(out, inputs, rules, kept_out, near, processes)
    print(funnel.text())
    return 0 if funnel.documents else 1
