"""What a model is asked: task, interface, data files, and worked examples that do not give the item away."""

import hashlib
import json
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from trex.data.documents import generate
from trex.data.rendering import DATA_FILE, literal
from trex.eval.clusters import related
from trex.eval.items import WORD, Item

NAME = "program-2"  # of the wording; changed with it
DEFAULT = "pyomo"
INTERFACES: Mapping[str, str] = {
    "pyomo": "Use Pyomo (`import pyomo.environ as pyo`) and solve with HiGHS: "
    "`pyo.SolverFactory('highs').solve(model)`.",
    "gurobipy": "Use gurobipy (`import gurobipy as gp`) and solve with the model's `optimize()`. Variables have a "
    "lower bound of 0 unless you give another one.",
    "highspy": "Use highspy (`import highspy`): build the model in a `highspy.Highs()` object and solve it with "
    "`run()`, `minimize(...)` or `maximize(...)`.",
}
TASK = (
    "You turn decision problems, told in words, into optimisation models and solve them with a Python program.\n\n"
    "{interface}\n\n"
    "Rules for the answer:\n"
    "- It holds the whole program, imports and data included, in exactly one block that begins with ```python and ends "
    "with ```. Parts in other blocks are not run.\n"
    "- The program runs as it is, without input from a user and without network.\n"
    "- It solves the model. What counts is the optimum of the model that it solved last; printed text is not read.\n"
    "- Variables, constraints and the model may have any names, and may stand in functions that the program calls.\n"
    "- Declare variables integer where the problem needs whole numbers; follow the problem's own words.\n"
    "- Before the block you may explain the model."
)
WITH_FILES = (
    "{question}\n\nThe program runs in a folder with {files}. Read the data from there by that name; do not copy "
    "numbers into the program."
)
NEAR = 0.9  # share of words from which two programs are one
VERSION = "trex prompt"  # what the hash is over begins with this


class PromptError(ValueError):
    """An interface that is unknown, or examples that do not suffice. Names what is accepted."""


@dataclass(frozen=True)
class Example:
    """An item with a program that answers it."""

    item: Item
    interface: str  # one of INTERFACES
    code: str


def messages(item: Item, interface: str = DEFAULT, shots: Sequence[Example] = ()) -> list[dict[str, str]]:
    """The conversation that ends with the item's question: {"role", "content"} each, examples as earlier turns.

    Raises PromptError for an unknown interface, and for an example of another interface or related to the item.
    """
    turns = [{"role": "system", "content": TASK.format(interface=_interface(interface))}]
    for shot in shots:
        if shot.interface != interface:
            raise PromptError(f"example {shot.item.id} uses {shot.interface!r}; accepted: {interface!r}")
        if related(shot.item, item):
            raise PromptError(f"example {shot.item.id} is related to {item.id}; accepted: other problems")
        turns.append({"role": "user", "content": _question(shot.item)})
        turns.append({"role": "assistant", "content": f"```python\n{shot.code.strip()}\n```"})
    return [*turns, {"role": "user", "content": _question(item)}]


def version(interface: str = DEFAULT) -> dict[str, str]:
    """Name and SHA-256 of all words around questions, for a run's plan. Raises PromptError for unknown interfaces."""
    words = json.dumps([VERSION, NAME, TASK.format(interface=_interface(interface)), WITH_FILES])
    return {"name": NAME, "interface": interface, "sha256": hashlib.sha256(words.encode()).hexdigest()}


def shots(item: Item, pool: Iterable[Example], k: int, seed: int = 0) -> tuple[Example, ...]:
    """k examples for an item, drawn from the pool by seed and item, no two of them related.

    None is the item, a copy of its text, a row with its data, program or model, of its cluster, or of its family; nor
    is its program that of the item but for a few words (`near`).
    Raises PromptError where the pool does not hold as many, and for k below 0.
    """
    if isinstance(k, bool) or not isinstance(k, int) or k < 0:
        raise PromptError(f"{k!r} examples; accepted: whole numbers from 0")
    if k == 0:
        return ()
    groups: dict[str, list[Example]] = defaultdict(list)
    every = list(pool)
    for example in every:
        if not related(example.item, item) and not near(example.code, item.reference_code):
            groups[example.item.cluster or example.item.id].append(example)
    rng = random.Random(f"{seed}/{item.id}")
    names = sorted(groups)
    rng.shuffle(names)
    chosen: list[Example] = []
    for name in names:
        example = rng.choice(sorted(groups[name], key=lambda each: each.item.id))
        if not any(related(example.item, other.item) and not _one_family(example, other) for other in chosen):
            chosen.append(example)
        if len(chosen) == k:
            return tuple(chosen)
    raise PromptError(
        f"{k} examples for {item.id}: the pool of {len(every)} holds {len(chosen)} problems that are unrelated to it "
        "and to each other; accepted: up to that, or a larger pool"
    )


def near(a: str, b: str) -> bool:
    """Whether of all words and numbers of two programs at least 9 in 10 stand in both."""
    one, other = _words(a), _words(b)
    return bool(one and other) and len(one & other) >= NEAR * len(one | other)


@lru_cache(maxsize=4096)
def _words(code: str) -> frozenset[str]:
    return frozenset(WORD.findall(code))


def family_examples(count: int, seed: int = 0) -> tuple[Example, ...]:
    """Pyomo programs of generated documents, by the plans that training data have: never an item of `family_items`."""
    found = []
    for document in generate(count, seed):
        origin = document.provenance
        item = Item(
            id=f"examples/{document.family}_{document.mode}_{origin['difficulty']}_{origin['seed']}",
            set="families",
            question=document.problem,
            answer=document.objective,
            files={DATA_FILE: literal(document.data)} if document.mode == "DPS" else {},
            family=document.family,
        )
        found.append(Example(item, "pyomo", document.program))
    return tuple(found)


def benchmark_examples(items: Iterable[Item]) -> tuple[Example, ...]:
    """Reference programs of Bench4Opt rows with gurobipy; they write their model, so solving it is added.

    Items without a reference program are left out.
    """
    found = []
    for item in items:
        code = item.reference_code.strip()
        if code and ".optimize(" not in code:
            code += "\n\n# Solve it\nmodel.optimize()"
        if code:
            found.append(Example(item, "gurobipy", code))
    return tuple(found)


def _interface(name: str) -> str:
    if name not in INTERFACES:
        raise PromptError(f"interface {name!r}; accepted: {', '.join(INTERFACES)}")
    return INTERFACES[name]


def _question(item: Item) -> str:
    question = item.question.strip()
    if not item.files:
        return question
    names = " and ".join(f"`{name}`" for name in sorted(item.files))
    return WITH_FILES.replace("{files}", names).replace("{question}", question)


def _one_family(a: Example, b: Example) -> bool:
    """Two problems of one family may both be examples: families are few."""
    return bool(a.item.family) and a.item.family == b.item.family and a.item.question != b.item.question
