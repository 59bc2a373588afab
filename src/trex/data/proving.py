"""One instance through the gates that need nothing but itself: what each process of the engine does."""

import os
from dataclasses import dataclass
from functools import cache
from typing import Any

from trex.data import families, gates
from trex.data.documents import Document, write_up
from trex.data.near_duplicates import signature
from trex.data.plan import Item
from trex.solver.sandbox.host import Sandbox


@dataclass(frozen=True)
class Outcome:
    """A document's line, or the gate that refused the instance, why, and the instance."""

    line: str = ""
    origin: tuple[str, int, int] = ("", 0, 0)  # family, seed, difficulty
    fingerprint: str = ""  # of the model
    statement: str = ""  # problem, with the data file in mode DPS
    signature: bytes = b""  # of the statement
    gate: str = ""
    reason: str = ""
    data: dict[str, Any] | None = None


def prove(item: Item, execute: bool = True) -> Outcome:
    """Draw the instance of an item and take it through the gates; `execute`: run its programs in the sandbox."""
    problem = families.get(item.family).problem(item.seed, item.difficulty)
    try:
        document = write_up(problem, item.mode, sandbox() if execute else None)
    except gates.Refused as error:
        return Outcome(gate=error.gate, reason=error.reason, data=problem.data)
    return written(document)


def written(document: Document) -> Outcome:
    """The outcome that a document is."""
    statement, made = document.statement, document.provenance
    return Outcome(
        document.line,
        (document.family, made["seed"], made["difficulty"]),
        made["model_fingerprint"],
        statement,
        signature(statement).tobytes(),
    )


def sandbox() -> Sandbox:
    """This process' sandbox, which is started when it is first needed."""
    return _sandbox(os.getpid())


@cache
def _sandbox(process: int) -> Sandbox:
    return Sandbox()
