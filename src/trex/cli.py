"""Run, publish and refresh the notebooks of the T-Rex reproduction; train, serve and evaluate models."""

import os
import shlex
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Annotated

import tyro
from tyro.extras import SubcommandApp

from trex.commands import solver
from trex.commands.checkpoint import checkpoint
from trex.commands.data import data
from trex.commands.errors import told
from trex.commands.evaluation import evaluation
from trex.commands.train import RESUME, train

app = SubcommandApp()
app.command(checkpoint, name="checkpoint", help="Look at weights, fetch, convert and check them.")
app.command(data, name="data", help="Documents with proved answers: make, prove again, count, collect, export.")
app.command(evaluation, name="eval", help="Ask models for programs, run them confined, judge them, report.")
app.command(train)
app.command(solver.solve)
app.command(solver.compare)
SHOWN = 12  # changed values of one record that `trex publish` lists
# commands that keep what they have finished, and options that take several values
RESUMED = {
    "reproduce",
    "download",
    "dequantize",
    "convert",
    "eval",
    "generate",
    "ingest",
    "rewrite",
    "audit",
    "flywheel",
}
MANY = (
    "--chapter", "--set", "--sets", "--k", "--modes", "--difficulty", "--languages", "--structures", "--tasks",
    "--styles", "--domains",
)  # fmt: skip


@app.command
def reproduce(
    profile: str = "embedded",
    chapter: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NN [NN ...]")] = (),
    set: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE [...]")] = (),
    fresh: bool = False,
    cell_timeout_s: int = 3600,
) -> int:
    """Run the chapters' notebooks; executed notebooks, records and a manifest go below runs/.

    A notebook that already ran with the same source, trex sources and parameters is taken from that run.
    Exits 0 when all succeeded, 1 when a notebook failed, 2 for an unknown profile, chapter or parameter.

    Args:
        profile: embedded, gpu, ascend, or a YAML file of parameters.
        chapter: Chapters (01, 01_parallelism) or notebooks (01_parallelism/01_model_and_flops); all by default.
        set: Parameters for every chosen notebook that has them; they override the profile.
        fresh: Run even what an earlier run already has.
        cell_timeout_s: Seconds that one cell may take.
    """
    from trex.launch import notebooks, profiles
    from trex.launch.reproduce import reproduce as run_notebooks

    known = notebooks.find()
    chosen = profiles.select(chapter, known)
    parameters = profiles.resolve(profiles.load(profile), profiles.assignments(set), chosen, known)
    command = shlex.join(["trex", *sys.argv[1:]])
    run = run_notebooks(
        chosen, parameters, profile=profile, command=command, fresh=fresh, cell_timeout_s=cell_timeout_s
    )
    done, name = len(run.outcomes) - len(run.failed), run.folder.name
    hint = f"; publish with: trex publish {name}" if done else ""
    print(f"{done} of {len(run.outcomes)} notebooks in runs/{name}{hint}")
    return 1 if run.failed else 0


@app.command
def publish(run: tyro.conf.Positional[str] = "latest", dry_run: bool = False) -> int:
    """Copy a run's records and figures into results/ and rewrite the README's generated parts, showing what changes.

    Args:
        run: The run's id below runs/, or latest.
        dry_run: Show what would change and write nothing.
    """
    from trex.launch import publish as work
    from trex.launch import readme

    folder = work.find_run(run)
    changes = work.publish(folder, dry_run=dry_run)
    for change in changes:
        shown, more = change.values[:SHOWN], len(change.values[SHOWN:])
        rest = [f"and {more} more"] if more else []
        print(f"{change.kind:>8}  {change.chapter}/{change.name}", *shown, *rest, sep="\n            ")
    if any(record.provenance["dirty"] for record in work.records(folder)):
        print("trex: this run was made with uncommitted changes; its records say so", file=sys.stderr)
    if not dry_run and readme.update():
        print(" changed  README.md")
    return 0


@app.command
def notebooks(refresh: tyro.conf.Positional[tuple[str, ...]] = ()) -> int:
    """Execute notebooks in place with their default parameters, ready to commit; all of them by default.

    Args:
        refresh: Notebooks by name (01_parallelism/01_model_and_flops), or chapters.
    """
    from trex.launch import notebooks as files
    from trex.launch import profiles

    for path in profiles.select(refresh, files.find()):
        files.refresh(path)
        found = list(files.problems(path))
        print(f"{files.name(path)}  {path.stat().st_size:,} bytes", *found, sep="\n    ")
        if found:
            return 1
    return 0


@app.command
def serve(
    folder: tyro.conf.Positional[Annotated[str, tyro.conf.arg(metavar="FOLDER")]],
    host: str = "127.0.0.1",
    port: int = 8000,
    name: str | None = None,
    max_tokens_limit: int = 4096,
    max_running: int = 8,
    max_waiting: int = 64,
) -> int:
    """Serve a checkpoint behind an OpenAI-compatible endpoint, on the accelerator where there is one.

    Args:
        folder: config.json, safetensors, and tokenizer.json or trex_tokenizer.json.
        host: Address to listen at.
        port: Port to listen at, up to 65535; 0 takes a free one.
        name: What clients call the model; the folder's name by default.
        max_tokens_limit: Tokens that prompt and answer of a request may have together.
        max_running: Requests that are answered at the same time, a token each in turn.
        max_waiting: Requests that may wait beside them; more are refused.
    """
    from trex.serve.load import serve as work

    work(
        folder, host=host, port=port, name=name,
        max_tokens_limit=max_tokens_limit, max_running=max_running, max_waiting=max_waiting,
    )  # fmt: skip
    return 0


def join_repeated(arguments: Sequence[str]) -> list[str]:
    """`--set a=1 --set b=2` as `--set a=1 b=2`: otherwise the parser would keep the last and drop the others unsaid."""
    rest: list[str] = []
    values: dict[str, list[str]] = {}
    target = rest
    for argument in arguments:
        flag, equals, value = argument.partition("=")
        if flag in MANY:
            target = values.setdefault(flag, [])
            if equals:
                target.append(value)
                target = rest
        elif argument.startswith("-"):
            target = rest
            rest.append(argument)
        else:
            target.append(argument)
    return rest + [word for flag, words in values.items() for word in (flag, *words)]


def main() -> int:
    """Parse the command line and run; every error of ours is told on standard error, with exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # names in a file may have letters that the terminal's encoding lacks
            stream.reconfigure(errors="backslashreplace")
    try:
        return int(app.cli(prog="trex", description=__doc__, args=join_repeated(sys.argv[1:])) or 0)
    except BrokenPipeError:  # the reader of our output, `head` say, has left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (ValueError, OSError) as error:
        line = told(error)
        if line is None:
            raise
        print(line, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        goes_on = "; the same command goes on from there" if RESUMED & set(sys.argv[1:3]) else ""
        goes_on = RESUME if sys.argv[1:2] == ["train"] else goes_on
        print(f"trex: interrupted{goes_on}", file=sys.stderr)
        return 130
