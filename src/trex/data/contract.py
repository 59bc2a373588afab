"""A family's contract: what any model of its problem must hold, in words, formulas and names of components.

The components of the family's Pyomo model carry the contract's names, so that each clause can be found in it, taken
out and put to the test.
"""

from dataclasses import dataclass

CONTINUOUS, INTEGER, BINARY, FREE = "continuous", "integer", "binary", "free"  # all but the last are not negative
DOMAINS = {CONTINUOUS: r"\ge 0", INTEGER: r"\in \mathbb{Z}_{\ge 0}", BINARY: r"\in \{0, 1\}", FREE: r"\in \mathbb{R}"}


@dataclass(frozen=True)
class Variables:
    """One family of variables: component `name` of the model.

    symbol: in formulas, with its indices. meaning: what a variable stands for, its unit within. says: how a variable
    that is not zero is told in the answer (`{0} to {1}: {value} crates`); empty for those that are not told. All but
    the symbol are templates over the scenario's words.
    """

    name: str
    domain: str  # a key of DOMAINS
    symbol: str
    meaning: str
    says: str = ""


@dataclass(frozen=True)
class Term:
    """One term of the objective: the Expression `name` of the model. says: alternatives, where the text tells it."""

    name: str
    formula: str
    says: tuple[str, ...] = ()


@dataclass(frozen=True)
class Clause:
    """One family of constraints: component `name` of the model.

    formula: in LaTeX; over: what it holds for, empty for a single row. says: alternatives for the sentence that states
    it in the problem's text; templates over the scenario's words.
    """

    name: str
    formula: str
    over: str
    says: tuple[str, ...]


@dataclass(frozen=True)
class Mistake:
    """A typical wrong model: `old`, which is once in the source of the family's model, replaced by `new`."""

    what: str
    old: str
    new: str


@dataclass(frozen=True)
class Contract:
    """What a model of the family must hold.

    sense: minimize or maximize. goal: what the objective's value is called, with unit (`total freight cost`, `euros`).
    integrality: alternatives for the sentence that tells which decisions are continuous, whole or yes-or-no.
    fixed: what nobody who rewrites the problem may change. mistakes: typical ones, each with its code.
    """

    variables: tuple[Variables, ...]
    sense: str
    goal: tuple[str, str]
    objective: tuple[Term, ...]
    constraints: tuple[Clause, ...]
    integrality: tuple[str, ...]
    fixed: tuple[str, ...]
    mistakes: tuple[Mistake, ...]
