"""One attempt from its author through the gates that need nothing but itself: what each process of a run does."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from trex.data.flywheel import embedded
from trex.data.flywheel.bucket import CLEAN_COT
from trex.data.flywheel.cleaner import clean
from trex.data.flywheel.dialogue import Dialogue
from trex.data.flywheel.embedded import Attempt
from trex.data.flywheel.judging import judge
from trex.data.flywheel.looking import Facts
from trex.data.flywheel.recombine import recombine
from trex.data.flywheel.representation import as_origin
from trex.data.flywheel.reviewer import reviewed
from trex.data.gates import Refused
from trex.data.near_duplicates import signature
from trex.data.problem import DataError
from trex.data.proving import sandbox
from trex.solver.equivalence.fingerprint import fingerprint
from trex.solver.model import Model, ModelError
from trex.solver.pyomo_model import from_pyomo


@dataclass(frozen=True)
class Made:
    """What became of an attempt. line: of the dialogue, also of one that was refused; "" where none was written."""

    line: str = ""
    fingerprint: str = ""  # of the model
    statement: str = ""  # the problem's text with its files
    signature: bytes = b""  # of the statement
    gate: str = ""  # that refused it, "" where none did
    reason: str = ""

    @property
    def row(self) -> Dialogue:
        """The dialogue. Raises DataError where none was written."""
        return Dialogue.from_line(self.line)

    @property
    def origin(self) -> tuple[str, ...]:
        """What the model can be built from again: the program with its files."""
        row = self.row
        origin = row.representation.origin
        return (json.dumps(asdict(origin)),) if origin else (row.program, json.dumps(row.files))


def make(attempt: Attempt) -> Made:
    """Write a dialogue with the embedded author and take it through the gates."""
    try:
        row = embedded.write(attempt)
    except Refused as error:
        return Made(gate="author", reason=str(error))
    return finish(row)


def finish(row: Dialogue) -> Made:
    """Clean an answer that is to be Clean-CoT, have it reviewed, and judge the dialogue."""
    try:
        if row.bucket.style == CLEAN_COT and row.cleaning is None:
            row = clean(row)
        if row.cleaning is not None:
            row = reviewed(row)
        row, facts = judge(row)
    except Refused as error:
        return Made(line=row.line, gate=error.gate, reason=error.reason)
    return made(row, facts)


def made(row: Dialogue, facts: Facts) -> Made:
    """The outcome that an accepted dialogue is."""
    statement = _statement(row)
    return Made(row.line, fingerprint(facts.model), statement, signature(statement).tobytes())


def made_again(row: Mapping[str, Any], number: int) -> Made:
    """The outcome that a run has written down. Raises DataError where it is not that of the attempt."""
    if row["candidate"] != number:
        raise DataError(f"candidate {row['candidate']} stands where {number} should; accepted: rows of an earlier run")
    line = "" if row["row"] is None else Dialogue.of(row["row"]).line
    if row["gate"]:
        return Made(line, gate=row["gate"], reason=row["reason"])
    found = Dialogue.from_line(line)
    statement = _statement(found)
    return Made(line, row["fingerprint"], statement, signature(statement).tobytes())


def model_of(*origin: str) -> Model:
    """The model of a dialogue from its `Made.origin`. Raises ModelError where its program builds none now."""
    if len(origin) == 1:
        return from_pyomo(recombine(as_origin(json.loads(origin[0]))).model())
    found = sandbox().run(origin[0], json.loads(origin[1]))
    if found.model is None:
        raise ModelError(f"a program that was let through builds no model now: {found.message or found.unread}")
    return found.model


def _statement(row: Dialogue) -> str:
    return "\n\n".join([row.problem, *row.files.values()])
