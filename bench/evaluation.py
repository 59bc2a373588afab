"""A whole evaluation from recorded answers, timed step by step: JSON lines.

    python bench/evaluation.py --items 100 --samples 4 --output evaluation.jsonl

Items are held-out family problems, or the first rows of the sets below `--benchmarks`. Of the answers to family items
one in four is right and the others have planted failures in turn, but for those that run into a limit of time or
memory, which take as long as the limit is; the answers to benchmark rows are the reference programs as they are and
with a line changed. Making items and answers is not timed. One line per step, then one for all, with the provenance.
"""

import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import tyro

from trex import paths
from trex.eval import benchmarks, prompts, runs
from trex.eval.execute import Executing, execute
from trex.eval.generate import generate
from trex.eval.items import Item
from trex.eval.judging import judge_run
from trex.eval.plan import Plan
from trex.eval.planted import KINDS, planted
from trex.eval.recorded_answers import Recorded
from trex.eval.rows import Key
from trex.eval.sets import family_items, items
from trex.eval.summary import summarise
from trex.files import write_atomic
from trex.results import provenance_block

LIMITED = ("endless loop", "memory")


@dataclass(frozen=True)
class Options:
    """Measure execution, judging and the report on this machine's CPU."""

    output: Path = paths.runs() / "bench" / "evaluation.jsonl"
    """JSONL file, rewritten whole"""
    items: int = 100
    samples: int = 4
    benchmarks: Path | None = None
    """folder of published sets, whose reference programs are the answers"""
    workers: int = 2
    seed: int = 0


def family_answers(found: tuple[Item, ...], samples: int, seed: int) -> dict[Key, str]:
    """Right answers and planted failures in turn."""
    kinds = [kind for kind in KINDS if kind not in LIMITED]
    answers, turn = {}, 0
    for item in found:
        for sample in range(samples):
            text = planted(item, "right", seed) if sample == 0 else None
            while text is None:
                text, turn = planted(item, kinds[turn % len(kinds)], seed), turn + 1
            answers[item.id, sample] = text[0]
    return answers


def reference_answers(found: tuple[Item, ...], samples: int) -> dict[Key, str]:
    """Reference programs: as they are, with the sense turned, with everything continuous, with a row less."""
    answers = {}
    for item in found:
        code = item.reference_code
        lines = code.splitlines()
        row = next((k for k, line in enumerate(lines) if line.startswith("model.addConstr(")), len(lines))
        changed = (
            code,
            code.replace("GRB.M", "-GRB.M"),
            code.replace("GRB.BINARY", "GRB.CONTINUOUS").replace("GRB.INTEGER", "GRB.CONTINUOUS"),
            "\n".join(lines[:row] + lines[row + 1 :]),
        )
        for sample in range(samples):
            answers[item.id, sample] = f"```python\n{changed[sample % len(changed)]}\n```\n"
    return answers


def main(options: Options) -> None:
    """Make the answers, run the steps, write the lines."""
    if options.benchmarks is None:
        found = family_items(options.items, options.seed)
        answers, interface = family_answers(found, options.samples, options.seed), "pyomo"
    else:
        read = benchmarks.read(options.benchmarks)
        named = [name for name in benchmarks.PROBLEM_SETS if name in read.found]
        found = items(read, named)[: options.items]
        answers, interface = reference_answers(found, options.samples), "gurobipy"
    source = Recorded(answers, "bench")
    asked = {item.id: prompts.messages(item, interface) for item in found}
    plan = Plan.of(
        found, asked, interface=interface, shots=0, samples=options.samples, model="recorded", recorded_sha256="bench",
        prompt_version=prompts.NAME,
    )  # fmt: skip
    seconds: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, "run")
        runs.keep_items(folder, found)
        steps = {
            "answers": lambda: generate(plan, asked, folder, source),
            "execute": lambda: execute(folder, Executing(workers=options.workers)),
            "judge": lambda: judge_run(folder, workers=options.workers),
            "report": lambda: summarise(folder),
        }
        for name, step in steps.items():
            begin = time.perf_counter()
            result = step()
            seconds[name] = time.perf_counter() - begin
        summary = result
    assert isinstance(summary, dict) and summary["judged"] == len(found) * options.samples
    lines: list[dict] = [{"step": name, "seconds": value} for name, value in seconds.items()]
    lines.append(
        {
            "items": len(found), "samples": options.samples, "seconds": sum(seconds.values()),
            "failures": next(iter(summary["sets"].values()))["failures"], "workers": options.workers,
            "provenance": provenance_block(),
        }
    )  # fmt: skip
    options.output.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(options.output, "".join(json.dumps(line) + "\n" for line in lines).encode())
    for line in lines:
        print(json.dumps({key: value for key, value in line.items() if key != "provenance"}))
    print(options.output)


if __name__ == "__main__":
    main(tyro.cli(Options))
