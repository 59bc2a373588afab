"""The commands of `trex eval`: ask a model, run its programs in a sandbox, judge them, report."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from tyro.extras import SubcommandApp

if TYPE_CHECKING:
    from trex.data.endpoint import Endpoint
    from trex.eval.recorded_answers import Recorded

evaluation = SubcommandApp()
Run = tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="FOLDER")]]
Sets = Annotated[tuple[str, ...], tyro.conf.arg(metavar="SET [...]")]
Ids = Annotated[tuple[str, ...], tyro.conf.arg(metavar="SET/ROW [...]")]
Level = Literal["bubblewrap", "landlock", "none"] | None


@evaluation.command
def run(
    folder: Run,
    model: str = "",
    endpoint: str = "",
    answers: Path | None = None,
    checkpoint: Path | None = None,
    sets: Sets = ("families",),
    benchmarks: str = "",
    limit: int | None = None,
    items: Ids = (),
    families: int = 24,
    interface: Literal["pyomo", "gurobipy", "highspy"] = "pyomo",
    shots: int = 0,
    samples: int | None = None,
    seed: int = 0,
    temperature: float | None = None,
    top_p: float | None = None,
    max_tokens: int | None = None,
    api_key_variable: str = "",
    concurrency: int = 8,
    timeout_s: float = 600.0,
    attempts: int = 6,
    ask_only: bool = False,
    seconds: float = 30.0,
    memory_mb: int = 4096,
    gurobi: Literal["recorder", "gurobi"] = "recorder",
    unsafe: bool = False,
) -> int:
    """Ask a model for n programs per problem, then run, judge and report them.

    The same command goes on where it was stopped; what failed is asked again. Exits 1 where answers are missing still.

    Args:
        folder: Of the run; it is made if it is not there.
        model: Name of the model at the endpoint, or of whoever gave the recorded answers.
        endpoint: Address of an OpenAI-compatible server, up to and with /v1.
        answers: Recorded answers in place of an endpoint: JSON lines of item, sample, text.
        checkpoint: Folder of weights to serve and ask, in place of an endpoint.
        sets: nl4opt, optibench, b4o_feasible, b4o_orgeval, families (our own held-out problems, which need no folder).
        benchmarks: Folder of the published sets; $TREX_BENCHMARKS by default.
        limit: So many problems of each published set, the first ones; all by default.
        items: Only these problems, as nl4opt/nl4opt_168; their sets are taken where --sets is not given.
        families: How many problems of our own families.
        interface: What programs are to be written with.
        shots: Worked examples before each problem, never of related ones.
        samples: Answers per problem; all are asked for, all are run. 1 by default, with --answers what the file holds.
        seed: Of problems, examples and, where the endpoint takes one, of answers (plus the sample's number).
        temperature: Left to the endpoint by default, like the next two.
        top_p: Nucleus of the sampling.
        max_tokens: Longest answer.
        api_key_variable: Name of the environment's variable that holds the endpoint's key.
        concurrency: Requests at once.
        timeout_s: Seconds of one request.
        attempts: Requests for one answer, the later ones after growing pauses.
        ask_only: Stop when the answers are there.
        seconds: Of one program.
        memory_mb: Of one program, all its processes together.
        gurobi: What `import gurobipy` gives: our recorder over HiGHS and SCIP, or the real one.
        unsafe: Run programs even where no sandbox works.
    """
    from trex.data.endpoint import Settings
    from trex.eval import prompts, runs, selection
    from trex.eval.generate import check, generate
    from trex.eval.plan import Plan

    found = selection.items(sets, benchmarks, limit, items, families, seed)
    pool = selection.examples(interface, benchmarks, shots, seed)
    asked = {
        item.id: prompts.messages(item, interface, prompts.shots(item, pool, shots, seed) if shots else ())
        for item in found
    }
    settings = Settings(temperature, top_p, max_tokens, seed)
    with _source(model, endpoint, answers, checkpoint, api_key_variable, concurrency, timeout_s, attempts) as source:
        recorded = "" if hasattr(source, "base_url") else source.sha256
        plan = Plan.of(
            found, asked, interface=interface, shots=shots,
            samples=getattr(source, "samples", 1) if samples is None else samples,
            model=model or getattr(source, "model", "") or "recorded",
            base_url=("checkpoint" if checkpoint else getattr(source, "base_url", "")), recorded_sha256=recorded,
            settings=settings, prompt_version=prompts.version(interface)["name"],
        )  # fmt: skip
        check(plan, asked, folder, source)
        runs.keep_items(folder, found, asked)
        done = generate(plan, asked, folder, source)
        if not hasattr(source, "base_url") and (dropped := source.not_asked(plan.keys)):
            print(f"trex: {dropped}", file=sys.stderr)
    print(f"{done.answered} answers, {done.failed} failed, {done.requests} requests")
    for number, ((item, sample), reason) in enumerate(done.errors.items()):
        if number == 5:
            print(f"  and {len(done.errors) - 5} more")
            break
        print(f"  {item}, sample {sample}: {reason}"[:200])
    if not ask_only:
        execute(folder, seconds, memory_mb, gurobi=gurobi, unsafe=unsafe)
        judge(folder)
        report(folder)
    return 1 if done.failed else 0


@evaluation.command
def execute(
    folder: Run,
    seconds: float = 30.0,
    memory_mb: int = 4096,
    output_mb: float = 16.0,
    disk_mb: int = 64,
    files: int = 1024,
    processes: int = 64,
    level: Level = None,
    unsafe: bool = False,
    gurobi: Literal["recorder", "gurobi"] = "recorder",
    workers: int = 0,
) -> int:
    """Run the programs of a run's answers, each confined; what has been run is not run again.

    Args:
        folder: Of the run.
        seconds: Of one program.
        memory_mb: Of one program, all its processes together.
        output_mb: That it may print.
        disk_mb: That it may write into its own folder.
        files: That it may make there.
        processes: That it may have at once, threads among them.
        level: bubblewrap, landlock (weaker), none (with --unsafe); the strongest that works by default.
        unsafe: Run programs even where no sandbox works.
        gurobi: What `import gurobipy` gives: our recorder over HiGHS and SCIP, or the real one.
        workers: Programs side by side; one for each processor by default.
    """
    from trex.eval import rows
    from trex.eval.execute import EXECUTIONS, Executing
    from trex.eval.execute import execute as work
    from trex.solver.sandbox import Limits

    limits = Limits(seconds, memory_mb, output_mb, disk_mb, files, processes)
    done = work(folder, Executing(limits, level, unsafe, gurobi, workers))
    every = rows.latest(rows.read(folder / EXECUTIONS)).values()
    programs = sum(row["execution"] is not None for row in every)
    print(
        f"{done} answers now; of {len(every)} in all, {programs} programs run, {len(every) - programs} hold no program"
    )
    return 0


@evaluation.command
def judge(
    folder: Run,
    solve_s: float = 30.0,
    compare_s: float = 3.0,
    labels: int | None = None,
    workers: int = 0,
) -> int:
    """Solve the models of all executed programs again, and compare them with labels and reference models.

    Args:
        folder: Of the run.
        solve_s: Seconds for one model.
        compare_s: Seconds for one comparison with a reference model.
        labels: Version of the labels; 0 is as recorded, the newest by default.
        workers: Processes; one for each processor by default.
    """
    from trex.eval.judge import Judging
    from trex.eval.judging import judge_run as work

    def say(reason: str) -> None:
        print(f"trex: {reason}", file=sys.stderr)

    print(f"{work(folder, Judging(solve_s, compare_s, labels), workers, say)} answers judged")
    return 0


@evaluation.command
def report(
    folder: Run,
    k: tuple[int, ...] = (),
    against: Path | None = None,
    failures: int | None = None,
    json: bool = False,
) -> int:
    """Show pass@k with intervals, by current labels, by recorded ones and as published, and why answers fail.

    Args:
        folder: Of the run.
        k: Of pass@k beside 1; the number of samples by default. With --against one alone, 1 by default.
        against: Another run of the same problems, whose pass@k is subtracted, with interval and p-value.
        failures: List so many failed answers instead, with class and evidence.
        json: Print everything as JSON.
    """
    from trex.eval.rows import EvaluationError
    from trex.eval.summary import compare_folders, comparison_text, failed_answers, failures_text, summarise, text

    if against is not None:
        if len(k) > 1 or failures is not None:
            raise EvaluationError("--against takes one --k, and no --failures")
        compared = compare_folders(against, folder, *k)
        print(dumps(compared, indent=1) if json else comparison_text(compared, str(against), str(folder)))
        return 0
    if failures is not None:
        failed = failed_answers(folder, failures)
        print(dumps(failed, indent=1) if json else failures_text(failed))
        return 0
    found = summarise(folder, k)
    print(dumps(found, indent=1) if json else text(found))
    return 0


@contextmanager
def _source(
    model: str, endpoint: str, answers: Path | None, checkpoint: Path | None, api_key_variable: str, concurrency: int,
    timeout_s: float, attempts: int,
) -> "Iterator[Endpoint | Recorded]":  # fmt: skip
    from trex.data.endpoint import Endpoint
    from trex.eval.recorded_answers import Recorded
    from trex.eval.rows import EvaluationError

    named = {"--endpoint": endpoint, "--answers": answers, "--checkpoint": checkpoint}
    chosen = [name for name, value in named.items() if value]
    if len(chosen) != 1:
        if chosen:
            raise EvaluationError(f"{' and '.join(chosen)} are given; accepted: one of {', '.join(named)}")
        raise EvaluationError(f"no source of answers: give one of {', '.join(named)}")
    if endpoint and not model:
        raise EvaluationError("--endpoint needs --model NAME, as the endpoint calls its model")
    if answers is not None:
        yield Recorded.read(answers)
    elif checkpoint is not None:
        from trex.commands.serving import served

        with served(checkpoint, model, concurrency, timeout_s, attempts) as source:
            yield source
    else:
        yield Endpoint(endpoint, model, api_key_variable, concurrency, timeout_s, attempts)


__all__ = ["evaluation"]
