"""Ask for n answers per item and write each down as it comes: a run may be stopped at any moment and goes on later.

inspect-ai's provider is asked directly, not through inspect's eval(): that writes a log per run which is no list of
samples to go on from, takes over the terminal, and does not say how often a sample was asked.
"""

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from trex.data.endpoint import ROLES, Ask, AskError, Endpoint, Messages, pause_s, run_apart
from trex.eval import plan as plans
from trex.eval.plan import ANSWERS, Plan
from trex.eval.recorded_answers import Recorded
from trex.eval.rows import EvaluationError, Key, Row, Writer, finished, writer

Prompts = Mapping[str, Messages]


@dataclass(frozen=True)
class Generated:
    """How many samples of the plan have an answer after a run, how many have none, and the requests of this run."""

    answered: int
    failed: int
    requests: int
    errors: Mapping[Key, str]  # of those that failed: why


def generate(plan: Plan, prompts: Prompts, folder: Path, source: Endpoint | Recorded) -> Generated:
    """Ask for every sample of the plan that `folder` has no answer of yet; samples that failed before are asked again.

    A sample that fails in spite of all attempts gets a row with status "error". Raises EvaluationError for a plan that
    is not the folder's, where another process writes there, and where the endpoint turns a request away as it would
    any other (status 401, 403, 404).
    """
    check(plan, prompts, folder, source)
    plans.start(folder, plan)
    with writer(folder / ANSWERS) as answers:
        missing = answers.missing(plan.keys)
        if isinstance(source, Recorded):
            rows = [source.row(found) for found in missing]
            answers.append(*(row for row in rows if row != answers.latest.get((row["item"], row["sample"]))))
            requests = 0
        else:
            requests = run_apart(_ask_all(plan, prompts, missing, answers, source)) if missing else 0
        rows = [answers.latest[found] for found in plan.keys]
    errors = {(row["item"], row["sample"]): str(row["error"]) for row in rows if not finished(row)}
    return Generated(len(rows) - len(errors), len(errors), requests, errors)


async def _ask_all(plan: Plan, prompts: Prompts, missing: Sequence[Key], answers: Writer, endpoint: Endpoint) -> int:
    """Ask for all missing samples, `concurrency` at a time; the number of requests."""
    todo, requests = iter(missing), 0

    async def work() -> None:
        nonlocal requests
        for found in todo:
            row = await _sample(plan, prompts[found[0]], found, ask, endpoint)
            requests += row["attempts"]
            stop = row.pop("stop", False)
            answers.append(row)
            bar.update()
            if stop:
                raise EvaluationError(f"{endpoint.base_url} turns requests away: {row['error']}")

    with tqdm(total=len(plan.keys), initial=len(plan.keys) - len(missing), unit=" answers", disable=None) as bar:
        async with endpoint.asking(plan.settings) as ask:
            workers = [asyncio.create_task(work()) for _ in range(min(endpoint.concurrency, len(missing)))]
            try:
                await asyncio.gather(*workers)
            finally:
                for worker in workers:
                    worker.cancel()
                await asyncio.gather(*workers, return_exceptions=True)
    return requests


async def _sample(plan: Plan, messages: Messages, found: Key, ask: Ask, endpoint: Endpoint) -> Row:
    """The row of one sample: its answer, or the last error after as many attempts as there may be."""
    seed = None if plan.settings.seed is None else plan.settings.seed + found[1]
    for attempt in itertools.count(1):
        head: Row = {"item": found[0], "sample": found[1], "attempts": attempt}
        try:
            return {**head, **await ask(messages, seed)}
        except AskError as error:
            row = {**head, "status": "error", "text": "", "error": str(error), "seconds": 0.0, "usage": None}
            asked_s = error.wait_s or 0.0
            if asked_s > endpoint.longest_wait_s:
                return {**row, "error": f"{error}; the endpoint asks to wait {asked_s:.0f} s"}
            if error.stop:
                return {**row, "stop": True}
            if not error.again or attempt == endpoint.attempts:
                return row
        await asyncio.sleep(pause_s(endpoint, attempt, asked_s))
    raise AssertionError("the loop only ends by returning")


def check(plan: Plan, prompts: Prompts, folder: Path, source: Endpoint | Recorded) -> None:
    """What `generate` looks at before it writes anything.

    Raises EvaluationError for prompts and sources that are not those of the plan, for recorded answers of which none is
    asked for, and, in a new run, for a key that is not there.
    """
    if lacking := [item for item in plan.items if not prompts.get(item)]:
        raise EvaluationError(f"{len(lacking)} items have no prompt, the first is {lacking[0]!r}")
    roles = {message.get("role") for item in plan.items for message in prompts[item]}
    if not roles <= set(ROLES):
        raise EvaluationError(f"roles of messages = {sorted(map(str, roles))}; accepted: {', '.join(ROLES)}")
    digest = plans.sha256([list(map(dict, prompts[item])) for item in plan.items])
    if digest != plan.prompts_sha256:
        raise EvaluationError(f"the prompts have sha256 {digest}, those of the plan {plan.prompts_sha256}")
    if isinstance(source, Recorded):
        source.not_asked(plan.keys)
        known, given = plan.recorded_sha256, source.sha256
    else:
        place = (
            source.base_url if "://" in plan.base_url else plan.base_url
        )  # a server of our own is at another each time
        known, given = f"{plan.model} at {plan.base_url}", f"{source.model} at {place}"
    if known != given:
        raise EvaluationError(f"answers come from {given}; the plan has {known or 'no recorded ones'}")
    if isinstance(source, Endpoint) and not (folder / plans.FILE).exists():
        source.api_key()
