"""Tasks of inspect-ai: read from a folder, asked through inspect, judged by the model that is solved again."""

import json
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

pytest.importorskip("inspect_ai")

from inspect_ai import eval as evaluate
from inspect_ai._util.registry import registry_lookup
from inspect_ai.model import ModelOutput, ModelUsage, get_model

from trex import paths
from trex.eval import prompts, tasks
from trex.eval.benchmarks import BenchmarkError
from trex.eval.plan import INTERFACES
from trex.eval.rows import EvaluationError
from trex.solver.sandbox import SandboxError

PROGRAM = """Here it is.
```python
import pyomo.environ as pyo
m = pyo.ConcreteModel()
m.x = pyo.Var(bounds=(0, {bound}))
m.o = pyo.Objective(expr=2 * m.x, sense=pyo.maximize)
pyo.SolverFactory("highs").solve(m)
print("the optimum is 14")
```
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two questions, whose answers are 14 and 6."""
    rows = [
        {"id": "p1", "question": "Bread sells at 2 each; at most 7 are baked. Largest revenue?", "answer": 14.0},
        {"id": "p2", "question": "A boat earns 3 a trip and makes at most 2 trips. Largest earnings?", "answer": 6.0},
    ]
    for name in ("nl4opt", "optibench"):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def test_plans_and_prompts_know_the_same_interfaces() -> None:
    assert tuple(prompts.INTERFACES) == INTERFACES


def test_the_command_of_inspect_finds_the_tasks() -> None:
    known = tomllib.loads((paths.CHECKOUT / "pyproject.toml").read_text())["project"]["entry-points"]["inspect_ai"]
    module = import_module(known["trex"])
    assert module is tasks
    for name in ("nl4opt", "optibench", "b4o_feasible", "b4o_orgeval", "families"):
        assert registry_lookup("task", f"trex/{name}") is not None and hasattr(module, name)


def test_a_task_asks_the_prompts_of_the_evaluation(folder: Path) -> None:
    made = tasks.nl4opt(benchmarks=str(folder), interface="highspy", samples=3)
    assert [sample.id for sample in made.dataset] == ["nl4opt/p1", "nl4opt/p2"]
    assert (made.name, made.epochs) == ("nl4opt", 3)
    item = next(iter(tasks.sets.items(tasks.folders.read(folder), ["nl4opt"])))
    said = [{"role": message.role, "content": message.content} for message in made.dataset[0].input]
    assert said == prompts.messages(item, "highspy")
    assert "14" not in str(said)


@pytest.mark.filterwarnings("ignore:The 'initial' parameter:DeprecationWarning")  # of inspect for tenacity
def test_answers_are_scored_by_their_models(folder: Path, tmp_path: Path) -> None:
    """Both programs print 14; one of them says so of a model whose optimum is 6."""
    try:
        tasks.Sandbox().close()
    except SandboxError as error:
        pytest.skip(str(error))
    texts = {"Bread": [PROGRAM.format(bound=7), PROGRAM.format(bound=3)], "boat": [PROGRAM.format(bound=3), "No idea."]}

    def answer(messages: list, *_: object) -> ModelOutput:
        name = next(name for name in texts if name in messages[-1].text)
        output = ModelOutput.from_content("mockllm/model", texts[name].pop(0))
        return output.model_copy(update={"usage": ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)})

    hook = sys.excepthook
    (log,) = evaluate(
        tasks.nl4opt(benchmarks=str(folder), samples=2), model=get_model("mockllm/model", custom_outputs=answer),
        log_dir=str(tmp_path / "logs"), display="none",
    )  # fmt: skip
    sys.excepthook = hook
    assert log.status == "success" and log.samples is not None
    scores = [sample.scores["solved_again"] for sample in log.samples if sample.scores]
    assert sorted((str(score.value), str(score.answer)) for score in scores) == [
        ("C", "14.0"), ("C", "6.0"), ("I", "6.0"), ("I", "None"),
    ]  # fmt: skip
    assert log.results is not None
    found = {score.reducer: score.metrics["accuracy"].value for score in log.results.scores}
    assert found == {"mean": 0.5, "pass_at_2": 1.0}


def test_what_tasks_do_not_accept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TREX_BENCHMARKS", raising=False)
    with pytest.raises(EvaluationError, match="nl4opt needs the benchmarks' folder"):
        tasks.nl4opt()
    with pytest.raises(BenchmarkError, match="b4o_feasible"):
        tasks.b4o_feasible(benchmarks=str(folder))
    with pytest.raises(EvaluationError, match="samples = 0"):
        tasks.optibench(benchmarks=str(folder), samples=0)
    with pytest.raises(ValueError, match="gams"):
        tasks.nl4opt(benchmarks=str(folder), interface="gams")
