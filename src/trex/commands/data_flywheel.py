"""`trex data flywheel`: training dialogues, from seeds through authors and gates."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

if TYPE_CHECKING:
    from trex.data.flywheel.ledger import Priced

Folder = tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="FOLDER")]]
Several = Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME [NAME ...]")]


def flywheel(
    folder: Folder,
    count: int = 1000,
    seed: int = 0,
    structures: Several = (),
    modes: Several = (),
    difficulty: tuple[int, ...] = (),
    tasks: Several = (),
    styles: Several = (),
    domains: Several = (),
    growth: Literal["seed-only", "hybrid", "snowball"] = "snowball",
    rounds: int = 4,
    most_rounds: int | None = None,
    oversampling: float = 1.0,
    seeds: Path | None = None,
    endpoints: Path | None = None,
    checkpoint: Path | None = None,
    budget_tokens: int | None = None,
    budget_money: float | None = None,
    budget_requests: int | None = None,
    max_tokens: int = 8192,
    temperature: float | None = None,
    repairs: int = 2,
    reviewed: bool = True,
    benchmarks: Path | None = None,
    near: float = 0.9,
    processes: int = 0,
    dry_run: bool = False,
    json: bool = False,
) -> int:
    """Make training dialogues: a new problem from each seed, its answer, and gates that let it through or not.

    The author is the embedded one, which recombines the problem families and asks nobody, or a model: --endpoints or
    --checkpoint. The same command goes on after an interruption. Exits 1 where dialogues are missing still.

    Args:
        folder: Where it goes: dialogues.jsonl, candidates.jsonl with every attempt, plan, summary and card.
        count: Dialogues, over all combinations of structures, modes, difficulties, tasks and styles.
        seed: From 0 to 99,999. Other seeds share no instance, with each other, with documents or with evaluation.
        structures: Kinds of problems; all families by default, with --seeds those of the seeds.
        modes: DP (data in the problem), DT (in tables), DPS (in a file); all by default.
        difficulty: 1 to 4; all by default.
        tasks: formulate, implement, formulate-and-implement, find-and-repair; all by default.
        styles: code-only, clean-cot, explained; all by default.
        domains: Businesses that the problems are set in, such as "air freight"; by default all that the families have,
            for an author that is asked any.
        growth: What new problems are made from: the seeds; dialogues of earlier rounds; or each in turn.
        rounds: Over which the dialogues are spread.
        most_rounds: With those that follow for what the gates refuse; 20 by default, or as many as --rounds.
        oversampling: Attempts per dialogue in a round, from 1.
        seeds: JSONL of problems with programs, or of representations, for an author that is asked.
        endpoints: YAML list of OpenAI-compatible endpoints: base_url, model, api_key_variable, concurrency, timeout_s,
            attempts, input_price and output_price per million tokens.
        checkpoint: Folder of weights to serve and ask: self-distillation.
        budget_tokens: Most tokens, input and output, of all runs in the folder; no limit by default.
        budget_money: Most money, in the prices' unit.
        budget_requests: Most requests, failed ones included.
        max_tokens: Longest reply.
        temperature: Left to the endpoint by default.
        repairs: Requests again for a reply that cannot be used, for each step.
        reviewed: Ask a cleaner and a reviewer too; otherwise the rule-based ones clean and review.
        benchmarks: Folder of texts and models that no dialogue may be taken from.
        near: Similarity of problems, to each other and to the seeds, from which the later one is left out.
        processes: Side by side; one per core for 0.
        dry_run: Show the plan: attempts per bucket, requests, tokens and cost. Nothing is asked and nothing written.
        json: Print the plan, or the summary, as JSON.
    """
    from trex.data.decontamination import Benchmarks
    from trex.data.endpoint import Settings
    from trex.data.flywheel import planning, report
    from trex.data.flywheel.asked_jobs import AskedJobs, Author
    from trex.data.flywheel.asked_seeds import digest, from_file
    from trex.data.flywheel.asking import asking as open_asking
    from trex.data.flywheel.bucket import Wanted, every_domain
    from trex.data.flywheel.ledger import Budget, BudgetSpent
    from trex.data.flywheel.rounds import Rounds
    from trex.data.flywheel.run import Settings as RunSettings
    from trex.data.flywheel.run import run
    from trex.data.flywheel.seeds import embedded_seeds, holds_representations, read_seeds
    from trex.data.near_duplicates import signature
    from trex.data.plan import FLYWHEEL, HELD_OUT
    from trex.data.problem import DataError

    if not 0 <= seed < HELD_OUT - FLYWHEEL:
        raise DataError(f"seed {seed}; accepted: whole numbers from 0 to {HELD_OUT - FLYWHEEL - 1:,}")
    if endpoints is not None and checkpoint is not None:
        raise DataError("--endpoints and --checkpoint; accepted: one of them, or neither for the embedded author")
    if checkpoint is not None and not checkpoint.is_dir():
        raise DataError(f"--checkpoint {checkpoint} is no folder; accepted: a folder of weights")
    if most_rounds is not None and most_rounds < rounds:
        raise DataError(f"--most-rounds {most_rounds}; accepted: as many as --rounds {rounds}, or more")
    if processes < 0:
        raise DataError(f"--processes {processes}; accepted: whole numbers from 0")
    asked = endpoints is not None or checkpoint is not None
    if seeds is not None and not asked:
        raise DataError(
            f"--seeds {seeds}: the embedded author knows its own families alone; accepted: with --endpoints or "
            "--checkpoint"
        )
    cut = Rounds(rounds, oversampling, max(rounds, 20) if most_rounds is None else most_rounds)
    sampling = Settings(temperature, None, max_tokens, seed)
    budget = Budget(budget_tokens, budget_money, budget_requests)
    # rows of anyone's file have structures that nobody knows before they are asked for
    foreign = seeds is not None and not holds_representations(seeds)

    def chosen(known: tuple[str, ...] | None) -> Wanted:
        return Wanted.of(
            count, seed, structures or known, modes or None, difficulty or None, tasks or None, styles or None, known,
            domains or (() if asked else every_domain(structures)),
        )  # fmt: skip

    wanted = chosen(structures or None if seeds is not None else None)
    RunSettings(wanted, cut, growth, near=near)  # all is checked before anything is asked
    kept_out = None if benchmarks is None else Benchmarks.read(benchmarks)
    with _asked(endpoints, checkpoint, max_tokens, dry_run) as priced:
        author = Author(repairs, reviewed, len(priced) > 1) if asked else None
        asking = partial(open_asking, priced, sampling, budget, folder / "asked")
        name = ", ".join(one.name for one in priced) or "embedded"
        try:
            if seeds is not None and not (foreign and dry_run):
                parents = from_file(seeds, folder, asking, repairs)
                wanted = chosen(tuple(dict.fromkeys(parent.bucket.structure for parent in parents)))
            else:
                parents = [] if foreign else embedded_seeds(structures or None)
        except BudgetSpent as error:
            return _stopped(error)
        if dry_run:
            plan = planning.forecast(wanted, cut, priced, author, read_seeds(seeds) if seeds and foreign else ())
            print(dumps(plan.row(), indent=1) if json else planning.text(plan, name))
            return 0
        made_by = RunSettings(
            wanted, cut, growth, name, digest(parents) if seeds else "", near,
            kept_out.sha256 if kept_out is not None else "",
        )  # fmt: skip
        jobs = None
        if author is not None:
            ahead = 2 * sum(one.endpoint.concurrency for one in priced)
            jobs = partial(AskedJobs, asking, author, ahead, processes or os.cpu_count() or 1)
        texts = [signature(parent.problem).tobytes() for parent in parents if parent.problem]
        try:
            summary = run(folder, made_by, parents, kept_out, texts, processes, jobs).row()
        except BudgetSpent as error:
            return _stopped(error)
    print(dumps(summary, indent=1) if json else report.text(summary))
    return 1 if summary["missing"] else 0


def _stopped(error: Exception) -> int:
    """Say that the budget is spent, beside what a script reads."""
    print(f"trex: stopped: {error}; the same command with a larger budget goes on", file=sys.stderr)
    return 1


@contextmanager
def _asked(
    endpoints: Path | None, checkpoint: Path | None, max_tokens: int, dry_run: bool
) -> "Iterator[list[Priced]]":  # fmt: skip
    """The endpoints that are asked; none for the embedded author. A dry run serves no weights."""
    from trex.data.endpoint import Endpoint
    from trex.data.flywheel.endpoints_file import read_endpoints
    from trex.data.flywheel.ledger import Priced

    if checkpoint is not None and dry_run:
        yield [Priced(Endpoint("http://localhost/v1", checkpoint.resolve().name), address="checkpoint")]
    elif checkpoint is not None:
        from trex.commands.serving import served

        with served(checkpoint.resolve(), max_tokens_limit=max_tokens) as endpoint:
            yield [Priced(endpoint, address="checkpoint")]
    else:
        found = [] if endpoints is None else read_endpoints(endpoints)
        for one in found if not dry_run else ():
            one.endpoint.api_key()  # told before a folder is made
        yield found
