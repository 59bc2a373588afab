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
    from trex.eval.endpoint import Endpoint, Recorded
    from trex.eval.items import Item

evaluation = SubcommandApp()
Run = tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="FOLDER")]]
Sets = Annotated[tuple[str, ...], tyro.conf.arg(metavar="SET [...]")]
Level = Literal["bubblewrap", "landlock", "none"] | None
FAMILIES = "families"


@evaluation.command
def run(
    folder: Run,
    model: str = "",
    endpoint: str = "",
    answers: Path | None = None,
    checkpoint: Path | None = None,
    sets: Sets = (FAMILIES,),
    benchmarks: str = "",
    limit: int | None = None,
    families: int = 24,
    interface: Literal["pyomo", "gurobipy", "highspy"] = "pyomo",
    shots: int = 0,
    samples: int = 1,
    seed: int = 0,
    temperature: float | None = None,
    top_p: float | None = None,
    max_tokens: int | None = None,
    api_key_variable: str = "",
    concurrency: int = 8,
    timeout_s: float = 600.0,
    attempts: int = 6,
    ask_only: bool = False,
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
        families: How many problems of our own families.
        interface: What programs are to be written with.
        shots: Worked examples before each problem, never of related ones.
        samples: Answers per problem; all are asked for, all are run.
        seed: Of problems, examples and, where the endpoint takes one, of answers (plus the sample's number).
        temperature: Left to the endpoint by default, like the next two.
        top_p: Nucleus of the sampling.
        max_tokens: Longest answer.
        api_key_variable: Name of the environment's variable that holds the endpoint's key.
        concurrency: Requests at once.
        timeout_s: Seconds of one request.
        attempts: Requests for one answer, the later ones after growing pauses.
        ask_only: Stop when the answers are there.
        unsafe: Run programs even where no sandbox works.
    """
    from trex.eval import prompts, runs
    from trex.eval.generate import generate
    from trex.eval.plan import Plan, Settings

    items = _items(sets, benchmarks, limit, families, seed)
    pool = _examples(interface, items, benchmarks, shots, seed)
    asked = {
        item.id: prompts.messages(item, interface, prompts.shots(item, pool, shots, seed) if shots else ())
        for item in items
    }
    settings = Settings(temperature, top_p, max_tokens, seed)
    with _source(model, endpoint, answers, checkpoint, api_key_variable, concurrency, timeout_s, attempts) as source:
        recorded = "" if hasattr(source, "base_url") else source.sha256
        plan = Plan.of(
            items, asked, interface=interface, shots=shots, samples=samples,
            model=model or getattr(source, "model", "") or "recorded",
            base_url=("checkpoint" if checkpoint else getattr(source, "base_url", "")), recorded_sha256=recorded,
            settings=settings, prompt_version=prompts.version(interface)["name"],
        )  # fmt: skip
        runs.keep_items(folder, items)
        found = generate(plan, asked, folder, source)
    print(f"{found.answered} answers, {found.failed} failed, {found.requests} requests")
    for number, ((item, sample), reason) in enumerate(found.errors.items()):
        if number == 5:
            print(f"  and {len(found.errors) - 5} more")
            break
        print(f"  {item}, sample {sample}: {reason}"[:200])
    if not ask_only:
        execute(folder, unsafe=unsafe)
        judge(folder)
        report(folder)
    return 1 if found.failed else 0


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
    from trex.eval.execute import Executing
    from trex.eval.execute import execute as work
    from trex.solver.sandbox import Limits

    limits = Limits(seconds, memory_mb, output_mb, disk_mb, files, processes)
    print(f"{work(folder, Executing(limits, level, unsafe, gurobi, workers))} programs run")
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

    print(f"{work(folder, Judging(solve_s, compare_s, labels), workers)} answers judged")
    return 0


@evaluation.command
def report(
    folder: Run,
    k: tuple[int, ...] = (),
    against: Path | None = None,
    json: bool = False,
) -> int:
    """Show pass@k with intervals, by current labels, by recorded ones and as published, and why answers fail.

    Args:
        folder: Of the run.
        k: Of pass@k beside 1; the number of samples by default.
        against: Another run of the same problems, whose pass@1 is subtracted, with interval and p-value.
        json: Print everything as JSON.
    """
    from trex.eval.summary import compare_folders, comparison_text, summarise, text

    if against is not None:
        compared = compare_folders(against, folder)
        print(dumps(compared, indent=1) if json else comparison_text(compared))
        return 0
    found = summarise(folder, k)
    print(dumps(found, indent=1) if json else text(found))
    return 0


def _items(sets: tuple[str, ...], benchmarks: str, limit: int | None, families: int, seed: int) -> "tuple[Item, ...]":
    from trex.eval import benchmarks as published
    from trex.eval.rows import EvaluationError
    from trex.eval.sets import family_items, items

    if limit is not None and limit < 1:
        raise EvaluationError(f"limit = {limit}; accepted: a whole number from 1")
    found: list[Item] = []
    if named := [name for name in sets if name != FAMILIES]:
        place = published.locate(benchmarks)
        if place is None:
            raise EvaluationError(f"sets = {', '.join(named)} need --benchmarks FOLDER or ${published.VARIABLE}")
        read = items(published.read(place), named)
        for name in dict.fromkeys(named):
            found += [item for item in read if item.set == name][:limit]
    if FAMILIES in sets:
        found += family_items(families, seed)
    return tuple(found)


def _examples(interface: str, items: "tuple[Item, ...]", benchmarks: str, shots: int, seed: int) -> tuple:
    """Where worked examples come from: our families' programs with Pyomo, the published ones with gurobipy."""
    from trex.eval import benchmarks as published
    from trex.eval import prompts, sets
    from trex.eval.rows import EvaluationError

    if not shots:
        return ()
    if interface == "pyomo":
        return prompts.family_examples(max(30, 6 * shots), seed)
    place = published.locate(benchmarks)
    if interface == "gurobipy" and place is not None:
        read = published.read(place)
        named = [name for name in published.PROBLEM_SETS if name in read.found]
        return prompts.benchmark_examples(sets.items(read, named)) if named else ()
    raise EvaluationError(f"shots = {shots} with {interface}: there are no examples; accepted: 0, or pyomo")


@contextmanager
def _source(
    model: str, endpoint: str, answers: Path | None, checkpoint: Path | None, api_key_variable: str, concurrency: int,
    timeout_s: float, attempts: int,
) -> "Iterator[Endpoint | Recorded]":  # fmt: skip
    from trex.eval.endpoint import Endpoint, Recorded
    from trex.eval.rows import EvaluationError

    named = {"--endpoint": endpoint, "--answers": answers, "--checkpoint": checkpoint}
    chosen = [name for name, value in named.items() if value]
    if len(chosen) != 1:
        raise EvaluationError(f"{' and '.join(chosen) or 'nothing'} to ask; accepted: one of {', '.join(named)}")
    if answers is not None:
        yield Recorded.read(answers)
    elif checkpoint is not None:
        from trex.serve.local import serving

        print(f"trex: serving {checkpoint}", file=sys.stderr)
        with serving(str(checkpoint), model or checkpoint.name) as address:
            yield Endpoint(address, model or checkpoint.name, "", concurrency, timeout_s, attempts)
    else:
        yield Endpoint(endpoint, model, api_key_variable, concurrency, timeout_s, attempts)


__all__ = ["evaluation"]
