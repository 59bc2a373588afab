"""Recorded answers judged from the first step to the last: what `trex eval run --answers` does, as a function."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from trex.data.program import program
from trex.eval import prompts, runs
from trex.eval.execute import Executing, execute
from trex.eval.generate import check, generate
from trex.eval.items import Item
from trex.eval.judge import Judging
from trex.eval.judging import judge_run
from trex.eval.plan import Plan
from trex.eval.recorded_answers import Recorded
from trex.eval.rows import Key
from trex.eval.sets import family_items, problem_of
from trex.eval.summary import summarise


def judge_recorded(
    folder: Path,
    items: Sequence[Item],
    answers: Mapping[Key, str],
    interface: str = "pyomo",
    model: str = "recorded",
    executing: Executing | None = None,
    judging: Judging | None = None,
) -> dict[str, Any]:
    """Run and judge answers by (item id, sample); the summary of `trex.eval.summary`. It goes on where it was stopped.

    Every item has as many samples as the one with most; missing ones count as wrong. Raises EvaluationError where the
    folder holds another run.
    """
    samples = 1 + max((sample for _, sample in answers), default=0)
    text = json.dumps(sorted((item, sample, answer) for (item, sample), answer in answers.items()))
    source = Recorded(answers, hashlib.sha256(text.encode()).hexdigest())
    asked = {item.id: prompts.messages(item, interface) for item in items}
    plan = Plan.of(
        items, asked, interface=interface, shots=0, samples=samples, model=model, recorded_sha256=source.sha256,
        prompt_version=prompts.NAME,
    )  # fmt: skip
    check(plan, asked, folder, source)
    runs.keep_items(folder, items, asked)
    generate(plan, asked, folder, source)
    execute(folder, executing)
    judge_run(folder, judging, executing.workers if executing else 0)
    return summarise(folder)


def reference_programs(items: Iterable[Item]) -> dict[Key, str]:
    """The sets' own gurobipy programs as answers, for the items that have one."""
    return {(item.id, 0): _block(item.reference_code) for item in items if item.reference_code}


def family_programs(count: int, seed: int = 0) -> tuple[tuple[Item, ...], dict[Key, str]]:
    """Held-out family problems, and the families' own programs as answers."""
    items = family_items(count, seed)
    return items, {(item.id, 0): _block(program(*problem_of(item))) for item in items}


def _block(code: str) -> str:
    return f"```python\n{code.strip()}\n```\n"
