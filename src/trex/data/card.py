"""The dataset card of a folder of documents."""

from importlib import metadata
from pathlib import Path

from trex.data.documents import PACKAGE
from trex.data.engine import DOCUMENTS, Settings
from trex.data.statistics import Statistics
from trex.files import write_atomic

CARD = "README.md"


def write_card(folder: Path, settings: Settings, found: Statistics) -> None:
    """Write README.md: what the documents are, how they were made and proved, and how many of each kind there are."""
    write_atomic(folder / CARD, card(settings, found).encode())


def card(settings: Settings, found: Statistics) -> str:
    """The text of the card, with the front matter that dataset hubs read."""
    plan = settings.plan
    gates = "\n".join(f"| {gate} | {reached:,} | {refused:,} |" for gate, (reached, refused) in found.funnel.items())
    kinds = "\n".join(
        f"| {key} | {', '.join(f'{value} ({count:,})' for value, count in found.by[key].items())} |"
        for key in ("mode", "difficulty", "unique", "shown", "area", "family")
    )
    variables = ", ".join(f"{value:g} at difficulty {level}" for level, value in found.variables.items())
    runs = ", ".join(f"{share:.3f} of {size}-grams" for size, share in found.distinct.items())
    programs = "run in the sandbox" if settings.execute else "not run"
    kept_out = (
        f"Benchmarks with SHA-256 {settings.benchmarks} are kept out (runs of 13 words, isomorphic models)."
        if settings.benchmarks
        else "No benchmarks were kept out."
    )
    return f"""---
pretty_name: T-Rex operations-research documents
license: other
task_categories: [text-generation]
size_categories: [{_size(found.documents)}]
configs:
- config_name: default
  data_files: {DOCUMENTS}
---
# Operations-research documents with proved answers

{found.documents:,} documents, {found.characters:,} characters, made by `trex data generate` of {PACKAGE}
{metadata.version(PACKAGE)} with seed {plan.seed}. Each holds a problem, its mathematical model, programs for it and its
answer. Generated text: it carries the licence of the package that made it, and takes nothing from other sources.

Every optimum was found by two solvers and by a second formulation; programs were {programs}.
`trex data verify` proves every document again from its own record. {kept_out}

| gate | reached | refused |
|---|---:|---:|
{gates}

| kind | documents |
|---|---|
{kinds}

Variables, median: {variables}. Different runs of words in the problems' texts: {runs}.
"""


def _size(count: int) -> str:
    limits = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
    return next((name for limit, name in limits if count < limit), "1M<n<10M")
