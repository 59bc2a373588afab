"""`trex data dialogues`: dialogues of a run of the flywheel as files to fine-tune on."""

from pathlib import Path
from typing import Annotated, Literal

import tyro

Run = tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="SOURCE")]]
Out = tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="OUT")]]


def dialogues(
    source: Run,
    out: Out,
    format: Literal["openai", "sharegpt", "datasets"] = "openai",
    stage: Literal["all", "code-only", "clean-cot"] = "all",
    validation: float = 0.05,
    seed: int = 0,
    general: Path | None = None,
    general_share: float | None = None,
    late: float = 0.5,
    repeat: bool = False,
    tokenizer: str | None = None,
    max_tokens: int | None = None,
    replace: bool = False,
) -> int:
    """Write the dialogues of a run to fine-tune on: split by lineage, in order, with general dialogues mixed in late.

    The same source, settings and versions give the same bytes; README.md says what is in them and how to read them.

    Args:
        source: Folder of a run, with dialogues.jsonl.
        out: The folder to write; it appears whole or not at all.
        format: openai (lines with `messages`), sharegpt (lines with `conversations`, for MindSpeed-LLM), or datasets
            (parquet that `load_dataset` reads).
        stage: Which style of answers: code-only for stage I of progressive fine-tuning, clean-cot for stage II.
            Stages of one source and seed have the same lineages held out.
        validation: Share of the rows to hold out, in whole lineages with all that is connected to them; 0 for none.
        seed: Of the split, the order, and the general dialogues drawn.
        general: Dialogues of other kinds, lines of OpenAI's or ShareGPT's form.
        general_share: What part of all training rows they are; 0.12 where they are given.
        late: The last part of the training rows, where all of them are.
        repeat: Draw them more than once where there are too few.
        tokenizer: Count tokens with `deepseek`, a tokenizer's file or a folder; characters are counted without.
        max_tokens: Leave longer rows out; needs a tokenizer.
        replace: Put it in the place of an earlier export of dialogues; any other folder is left alone.
    """
    from trex.data.flywheel.export import Settings, export

    settings = Settings(format, stage, validation, seed, general, general_share, late, repeat, tokenizer, max_tokens)
    manifest = export(source, out, settings, replace)
    for split, part in manifest["splits"].items():
        size = sum(part["size"].values())
        print(
            f"{split:<11}{part['own']:>9,} dialogues of {part['lineages']:,} lineages, {part['general']:,} general, "
            f"{size:,} {manifest['unit']}"
        )
    held, left = manifest["held_out"], manifest["left_out"]
    print(f"held out   {held['of_source']:>9.2%} of the source's rows; {held['wanted']:.2%} wanted")
    if manifest["general"]:
        print(f"general    {manifest['general']['share']:>9.2%} of the training rows; {settings.share:.2%} wanted")
    print(f"left out   {left['other stages']:>9,} of other stages, {left['longer']:,} too long")
    return 0
