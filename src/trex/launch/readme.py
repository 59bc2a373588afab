"""The README's generated parts, written from `results/*.json`, `trex.published` and the notebooks, between marks.

A part stands between `<!-- trex: NAME -->` and `<!-- /trex -->`; `trex publish` rewrites them and a test compares them.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trex import paths
from trex.files import write_atomic
from trex.labels import ResultError
from trex.launch import notebooks
from trex.published import load as published
from trex.results import Record, load

PART = re.compile(r"<!-- trex: (\w+) -->\n.*?<!-- /trex -->", re.DOTALL)


@dataclass(frozen=True)
class Line:
    """One line of the results table: a claim, our value from a record, and the published value it stands beside."""

    claim: str
    chapter: str
    record: str
    value: Callable[[dict[str, Any]], str]  # the record's values → text
    reported: str = "—"
    command: str = ""  # where repeating the chapter alone does not give it


def update(readme: Path | None = None, results: Path | None = None) -> bool:
    """Rewrite the generated parts in place; returns whether anything changed."""
    path = readme or paths.CHECKOUT / "README.md"
    old = path.read_text(encoding="utf-8")
    new = rendered(old, results or paths.results())
    if new != old:
        write_atomic(path, new.encode())
    return new != old


def rendered(text: str, results: Path) -> str:
    """`text` with every generated part as it should be. Raises ResultError for an unknown part or a missing record."""

    def fill(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in PARTS:
            raise ResultError(f"README part {name!r}; there are: {', '.join(PARTS)}")
        try:
            return f"<!-- trex: {name} -->\n{PARTS[name](results)}\n<!-- /trex -->"
        except KeyError as error:
            raise ResultError(f"README part {name!r}: a record lacks {error}; publish a new run") from None

    return PART.sub(fill, text)


def claims(results: Path) -> str:
    """What the paper claims of itself, in a sentence."""
    ladder, scores = load("06_eval", "mfu_ladder", results).values, load("06_eval", "or_scores", results).values
    sizes = {name: _number("model_facts", "total", name, "{:,.0f}") for name in ("flash", "pro")}
    return (
        "*SLAI T-Rex* ([arXiv 2607.20145](https://arxiv.org/abs/2607.20145)) post-trained every parameter of "
        f"DeepSeek-V4 (Flash {sizes['flash']}, Pro {sizes['pro']}) on Ascend 910C SuperPODs. It reports "
        f"{ladder['kernels']:.2f} % model-FLOP utilisation on Pro, {ladder['gain']:.2f} times the open recipe, and an "
        f"operations-research specialist with {scores['flash_trex']['average']:.2f} % average Pass@1. These numbers "
        "are self-reported, and running the released code takes a cluster and a commercial solver."
    )


def headline(results: Path) -> str:
    """The paper's two headline figures, redrawn: PNG on the page, HTML to read the numbers."""
    blocks = []
    for name, text in (
        ("mfu_ladder", "MFU of DeepSeek-V4-Pro training (published), and the step times that follow (derived)"),
        ("or_scores", "Pass@1 on four operations-research benchmarks (published)"),
    ):
        if f"{name}.png" not in load("06_eval", name, results).files:
            raise ResultError(f"record 06_eval/{name} has no PNG: publish a run made with Chromium")
        image, page = f"results/06_eval/{name}.png", f"results/06_eval/{name}.html"
        blocks.append(f"[![{text}]({image})]({page})\n\n*{text}; [interactive]({page})*")
    return "\n\n".join(blocks)


def results_table(results: Path) -> str:
    """What the notebooks showed, one line per claim, with label, device and the command that repeats it."""
    rows = ["| claim | published by others | here | label (here) | command |", "|---|---|---|---|---|"]
    for line in lines():
        record = load(line.chapter, line.record, results)
        command = line.command or f"trex reproduce --chapter {line.chapter.split('_')[0]}"
        rows.append(f"| {line.claim} | {line.reported} | {line.value(record.values)} | {record.label} | `{command}` |")
    return "\n".join([*rows, "", f"Measured on: {'; '.join(sorted(_devices(results)))}."])


def notebook_table(results: Path) -> str:
    """Every notebook with its title."""
    rows = ["| notebook | what it shows |", "|---|---|"]
    for path in notebooks.find():
        name = notebooks.name(path)
        rows.append(f"| [{name}](notebooks/{name}.ipynb) | {_title(path)} |")
    return "\n".join(rows)


def lines() -> tuple[Line, ...]:
    """The claims of the results table, in the chapters' order."""
    model, speed = "01_parallelism", "speedup"
    unstated = " (910C, baseline not stated)"
    norm, swiglu = "RMSNorm without weight, forward", "limited SwiGLU, forward"
    return (
        Line("parameters of Flash, without MTP", model, "parameters", lambda v: f"{v['Flash']['total']:,}",
             _number("model_facts", "total", "flash")),
        Line("parameters of Pro, without MTP", model, "parameters", lambda v: f"{v['Pro']['total']:,}",
             _number("model_facts", "total", "pro")),
        Line("training FLOPs per token, Pro with MTP, 4K", model, "flops",
             lambda v: f"{v['Pro']['4096']['training_with_mtp'] / 1e9:.1f} GFLOP/token",
             _number("flop_formulas", "pro_bridge", "gflop_per_token") + " (Megatron-Bridge)"),
        Line("memory left on the fullest die, Pro SFT layout, optimizer in host memory / on the die", model,
             "static_memory", lambda v: " / ".join(
                 f"{v['T-Rex Pro SFT'][key] / 2**30:.1f} GiB" for key in ("margin", "margin_without_swap"))),
        Line("layouts on four ranks: farthest gradient from one process, float64 / float32; bytes sent as by formula",
             model, "parallel_parity",
             lambda v: f"{v['layouts']} layouts: {v['worst_float64']:.0e} / {v['worst_float32']:.0e}; "
             + ("yes" if v["bytes_equal_formula"] else "no")),
        Line("two torchruns of two ranks: losses as one process has them, greatest relative gap", model, "on_npu_nodes",
             lambda v: f"{v['loss_gap']:.0e}"),
        Line("bubble of 1F1B / interleaved / ZB-V / DualPipe-V, 4 ranks, 8 micro-batches, F = B = W", "02_overlap",
             "pipeline_schedules", lambda v: " / ".join(
                 f"{v[name]['bubble_fraction']:.1%}" for name in ("1f1b", "interleaved", "zb-v", "dualpipe-v"))),
        Line("fused RMSNorm without weight, forward, speed-up", "03_kernels", "operator_gallery",
             lambda v: _spread(v, norm), _number("kernel_speedups", "rmsnorm_forward", speed) + unstated),
        Line("fused limited SwiGLU, forward, speed-up", "03_kernels", "operator_gallery",
             lambda v: _spread(v, swiglu), _number("kernel_speedups", "swiglu_forward", speed) + unstated),
        Line("problem families; programs with one broken clause that the gates notice (that the optimum tells)",
             "04_data", "or_families", lambda v: f"{v['families']}; {v['breaches_caught']} of {v['breaches']} "
             f"({v['breaches_told_by_optimum']})"),
        Line("documents proved by two solvers, two formulations and the sandbox, and proved again", "04_data",
             "cpt_engine", lambda v: f"{v['verified']} of {v['documents']}; {v['refused']} instances refused"),
        Line("dialogues of the embedded author that all gates let through; attempts", "04_data", "sft_flywheel",
             lambda v: f"{v['dialogues']} in {v['attempts']} attempts"),
        Line("planted faults of 15 kinds that the gates refuse; good dialogues that they refuse", "04_data",
             "gates_and_cleaning", lambda v: f"{v['caught']} of {v['faults']}; {v['good_refused']} of {v['good']}",
             command="trex reproduce --chapter 04_data/04_gates_and_cleaning --set rows=1000 --set faults=300"),
        Line("public seeds at hand: refused by the audit; accepted and read as right / wrong / doubtful", "04_data",
             "seed_audit", _seeds, command="trex reproduce --chapter 04_data/05_audit_public_seeds --set seeds=FILE"),
        Line("held-out loss of the tiny model, before → after CPT (unigram; bigram frequencies)", "05_cpt_sft", "cpt",
             lambda v: f"{v['parameters']:,} parameters, {v['tokens']:,} tokens: {v['held_out_before']:.2f} → "
                       f"{v['held_out_after']:.2f} nats ({v['unigram_held_out']:.2f}; {v['bigram_held_out']:.2f})"),
        Line("B4O-Feasible: recorded optima found again with HiGHS and SCIP", "06_eval", "benchmarks",
             lambda v: f"{v['agree']} of {v['rows']} rows at hand, {v['models_agree']} of {v['models']} models"
                       f"{_reasons(v['disagree_by_reason'])}",
             _number("benchmark_sets", "b4o_feasible", "rows") + " released",
             "trex reproduce --chapter 06 --set benchmarks=FOLDER"),
        Line("B4O-ORGEval: linear reference models equal to themselves, rewritten (published checker)", "06_eval",
             "structural_equivalence",
             lambda v: f"{v['rewritten_equal']} of {v['rewritten']} ({v['rewritten_equal_as_published']}); "
                       f"only renamed {v['only_renamed_equal']} ({v['only_renamed_equal_as_published']})",
             command="trex reproduce --chapter 06 --set benchmarks=FOLDER"),
        Line("the same with one change: shown equal or different; infeasible before and after; else unknown",
             "06_eval", "structural_equivalence",
             _changed,
             command="trex reproduce --chapter 06 --set benchmarks=FOLDER"),
        Line("B4O-ORGEval: the set's own programs judged right as recorded (published judging of the same models)",
             "06_eval", "own_programs", _own_programs, command="trex reproduce --chapter 06 --set benchmarks=FOLDER"),
        Line("hostile programs stopped; forged results refused; models found wherever they are", "06_eval", "sandbox",
             lambda v: f"{v['attacks_stopped']} of {v['attacks']}; {v['forgeries_refused']} of {v['forgeries']}; "
                       f"{v['places_found']} of {v['places']} ({v['isolation']})"),
        Line("planted failures whose class is found, with a reference model / with the label alone", "06_eval",
             "failure_taxonomy",
             lambda v: f"{v['class_found_by_models']} / {v['class_found_by_values']} of {v['failures']}; "
                       f"{v['failures_called_right']} called right"),
        Line("published OR scores that are no count over the released sets", "06_eval", "impossible_scores",
             lambda v: f"{v['impossible']} of {v['of']}"),
    )  # fmt: skip


def _spread(values: dict[str, Any], operator: str) -> str:
    """Median of the repeats with the smallest and largest."""
    gain = values["operators"][operator]["speedup"]["cpu"]
    return f"{gain['median']:.1f} × over eager [{gain['low']:.1f}, {gain['high']:.1f}] on the CPU below"


def _changed(values: dict[str, Any]) -> str:
    """Changed models by what was shown, and those that differ and are equal to the published checker."""
    unknown, infeasible = values["changed_verdicts"].get("unknown", 0), values["changed_both_infeasible"]
    shown = f"{values['changed'] - unknown}; {infeasible}; {unknown - infeasible} of {values['changed']}"
    different, missed = values["changed_verdicts"].get("different", 0), values["different_called_equal_as_published"]
    return f"{shown} (published checker: {missed} of {different} different ones equal)"


def _own_programs(values: dict[str, Any]) -> str:
    """pass@1 of the reference programs in the structural set, by two ways of counting."""
    recorded, published_way = (values["pass@1"][way]["b4o_orgeval"]["estimate"] for way in ("recorded", "as published"))
    return f"{recorded:.1%} of the rows at hand ({published_way:.1%})"


def _seeds(values: dict[str, Any]) -> str:
    """Rows that the audit refused, and how a reader read those that it accepted."""
    read = values["seeds_read"]["accepted"]
    accepted = " / ".join(str(read[name]) for name in ("right", "wrong", "doubtful"))
    return f"{values['verdicts']['refused']} of {values['rows']}; {accepted}"


def _reasons(counts: dict[str, int]) -> str:
    """Rows by reason, each reason without what follows its colon; nothing where there are none."""
    reasons = ", ".join(f"{count}: {reason.split(':')[0]}" for reason, count in sorted(counts.items()))
    return f"; not these: {reasons}" if reasons else ""


def _devices(results: Path) -> set[str]:
    records: list[Record] = [load(line.chapter, line.record, results) for line in lines()]
    return {record.provenance["device"] for record in records if record.label == "measured"}


def _title(path: Path) -> str:
    first = next(cell for cell in notebooks.read(path).cells if cell.cell_type == "markdown")
    return str(first.source.splitlines()[0].lstrip("# "))


def _number(table: str, row: str, column: str, form: str = "{:g}") -> str:
    number = published(table)[row][column]
    if number.label != "published":
        raise ResultError(f"{table}.{row}.{column} is {number.label}; the README's column is for published numbers")
    return f"{form.format(number.value)} {number.unit}".strip()


PARTS: dict[str, Callable[[Path], str]] = {
    "claims": claims,
    "headline": headline,
    "results": results_table,
    "notebooks": notebook_table,
}
