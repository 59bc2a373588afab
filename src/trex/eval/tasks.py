"""The benchmarks as tasks of inspect-ai: `inspect eval trex/nl4opt --model openai-api/…`, with inspect's own logs.

`trex eval run` asks the same prompts and gives the same verdicts, as resumable steps with more to report.
"""

import asyncio
import weakref
from collections.abc import Sequence
from pathlib import Path

from inspect_ai import Epochs, Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessage, ChatMessageAssistant, ChatMessageSystem, ChatMessageUser
from inspect_ai.scorer import CORRECT, INCORRECT, Score, Scorer, Target, accuracy, scorer, stderr
from inspect_ai.solver import TaskState, generate

from trex.eval import benchmarks as folders
from trex.eval import prompts, selection, sets
from trex.eval.items import Item
from trex.eval.judge import counted, judge_answer
from trex.eval.rows import EvaluationError
from trex.solver.sandbox import Sandbox

CHAT = {"system": ChatMessageSystem, "user": ChatMessageUser, "assistant": ChatMessageAssistant}


@task
def nl4opt(
    benchmarks: str = "",
    interface: str = "pyomo",
    shots: int = 0,
    samples: int = 1,
    seed: int = 0,
    unsafe: bool = False,
) -> Task:
    """NL4OPT. benchmarks: their folder, $TREX_BENCHMARKS by default. samples: answers per problem. See `published`."""
    return published("nl4opt", benchmarks, interface, shots, samples, seed, unsafe)


@task
def optibench(
    benchmarks: str = "",
    interface: str = "pyomo",
    shots: int = 0,
    samples: int = 1,
    seed: int = 0,
    unsafe: bool = False,
) -> Task:
    """OptiBench; parameters as of `nl4opt`."""
    return published("optibench", benchmarks, interface, shots, samples, seed, unsafe)


@task
def b4o_feasible(
    benchmarks: str = "",
    interface: str = "pyomo",
    shots: int = 0,
    samples: int = 1,
    seed: int = 0,
    unsafe: bool = False,
) -> Task:
    """Bench4Opt, problems with an optimum; parameters as of `nl4opt`."""
    return published("b4o_feasible", benchmarks, interface, shots, samples, seed, unsafe)


@task
def b4o_orgeval(
    benchmarks: str = "",
    interface: str = "pyomo",
    shots: int = 0,
    samples: int = 1,
    seed: int = 0,
    unsafe: bool = False,
) -> Task:
    """Bench4Opt, judged by the model; parameters as of `nl4opt`."""
    return published("b4o_orgeval", benchmarks, interface, shots, samples, seed, unsafe)


@task
def families(
    count: int = 24, interface: str = "pyomo", shots: int = 0, samples: int = 1, seed: int = 0, unsafe: bool = False
) -> Task:
    """Held-out problems of our own families, `count` of them; the other parameters as of `nl4opt`."""
    pool = selection.examples(interface, "", shots, seed)
    return build("families", sets.family_items(count, seed), pool, interface, shots, samples, seed, unsafe)


def published(name: str, benchmarks: str, interface: str, shots: int, samples: int, seed: int, unsafe: bool) -> Task:
    """The task of a published set. unsafe: run programs even where no sandbox works.

    Raises EvaluationError or BenchmarkError where the folder or the set in it is missing, EvaluationError where an
    interface has no examples, PromptError for an unknown one and for too few examples.
    """
    folder = folders.locate(benchmarks)
    if folder is None:
        raise EvaluationError(f"{name} needs the benchmarks' folder: -T benchmarks=FOLDER or ${folders.VARIABLE}")
    read = folders.read(Path(folder))
    pool = selection.examples(interface, benchmarks, shots, seed)
    return build(name, sets.items(read, [name]), pool, interface, shots, samples, seed, unsafe)


def build(
    name: str, items: Sequence[Item], pool: Sequence[prompts.Example], interface: str, shots: int, samples: int,
    seed: int, unsafe: bool,
) -> Task:  # fmt: skip
    """A task over items; those whose current label tells nothing are left out, as everywhere."""
    if isinstance(samples, bool) or not isinstance(samples, int) or samples < 1:
        raise EvaluationError(f"samples = {samples!r}; accepted: whole numbers from 1")
    chosen = {item.id: item for item in items if counted(item)}
    dataset = MemoryDataset(
        [
            Sample(
                id=item.id,
                input=chat(prompts.messages(item, interface, prompts.shots(item, pool, shots, seed))),
                target="" if item.answer is None else repr(item.answer),
                metadata={"cluster": item.cluster or item.id},
            )
            for item in chosen.values()
        ],
        name=name,
    )
    epochs = Epochs(samples, ["mean", f"pass_at_{samples}"] if samples > 1 else "mean")
    return Task(dataset=dataset, solver=generate(), scorer=solved_again(chosen, unsafe), epochs=epochs, name=name)


@scorer(metrics=[accuracy(), stderr(cluster="cluster")])
def solved_again(items: dict[str, Item], unsafe: bool) -> Scorer:
    """Runs an answer's program in the sandbox and solves its model again; nothing that it prints counts.

    Standard errors are over clusters of related problems.
    """
    sandboxes: list[Sandbox] = []
    alone = asyncio.Lock()  # a sandbox runs one program after the other

    def judged(item: Item, text: str) -> Score:
        if not sandboxes:  # at the first answer: reading the task must not start one
            sandboxes.append(Sandbox(unsafe=unsafe))
            weakref.finalize(score, sandboxes[0].close)
        found = judge_answer(item, text, sandboxes[0])
        details = {"failure": found.failure, "optimum": found.optimum, "recorded": found.recorded}
        return Score(
            value=CORRECT if found.correct else INCORRECT,
            answer=None if found.optimum is None else repr(found.optimum),
            explanation=found.explanation,
            metadata={**details, "as_published": found.as_published, "isolation": found.isolation},
        )

    async def score(state: TaskState, target: Target) -> Score:
        async with alone:
            return await asyncio.to_thread(judged, items[str(state.sample_id)], state.output.completion)

    return score


def chat(messages: Sequence[dict[str, str]]) -> list[ChatMessage]:
    """Messages as inspect has them."""
    return [CHAT[message["role"]](content=message["content"]) for message in messages]


for _made in (nl4opt, optibench, b4o_feasible, b4o_orgeval, families):
    # inspect puts the package's name before a task's only where the distribution has that name too, or lies among
    # the installed ones; ours, from a checkout, is the other case
    if "/" not in getattr(_made, "__registry_info__").name:  # noqa: B009
        task(name=f"trex/{_made.__name__}")(_made)
