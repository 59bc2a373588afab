"""Faults of known kinds, planted into good rows to put gates on trial.

Nothing here knows of the gates. A fault is planted only where it is one: the changed program, run confined, fails or
builds another model than the right one, or what is said contradicts what was there.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from trex.data.flywheel.dialogue import Dialogue
from trex.data.flywheel.fault_calls import invented_number, misuse
from trex.data.flywheel.fault_data import infeasible_data, swapped_columns, table_mismatch, unit_slip
from trex.data.flywheel.fault_model import (
    dropped_constraints,
    flipped_objective,
    off_by_one,
    wrong_domain,
    wrong_ratio,
    wrong_sign,
)
from trex.data.flywheel.fault_proof import Edit, Proof
from trex.data.flywheel.fault_words import contradiction, unused_number, wrong_claim
from trex.data.problem import DataError
from trex.solver.sandbox import Sandbox

EDITS: Mapping[str, Callable[[Dialogue, random.Random], Iterator[Edit]]] = {
    "flipped objective": flipped_objective,
    "dropped constraints": dropped_constraints,
    "wrong domain": wrong_domain,
    "wrong sign": wrong_sign,
    "unit slip": unit_slip,
    "swapped columns": swapped_columns,
    "ratio linearised wrongly": wrong_ratio,
    "number in code but not in text": invented_number,
    "number in text unused": unused_number,
    "infeasible data": infeasible_data,
    "wrong claimed value": wrong_claim,
    "table not matching file": table_mismatch,
    "off-by-one index set": off_by_one,
    "API misuse": misuse,
    "reasoning contradicts code": contradiction,
}
KINDS = tuple(EDITS)
TRIES = 12  # places of a row that are tried until a change proves to be a fault


@dataclass(frozen=True)
class Planted:
    """A row with one fault. what: what was changed, in one line."""

    kind: str  # one of KINDS
    what: str
    row: Dialogue


def plant(row: Dialogue, kind: str, rng: random.Random, sandbox: Sandbox | None = None) -> Planted | None:
    """A fault in a good row; None where the row has no place for one of the kind.

    sandbox: where changed programs run; one of its own where none is given. Raises DataError for an unknown kind and a
    row whose program does not parse.
    """
    _known(kind)
    if sandbox is not None:
        return _planted(Proof(row, sandbox), kind, rng)
    with Sandbox() as own:
        return _planted(Proof(row, own), kind, rng)


def possible(row: Dialogue) -> tuple[str, ...]:
    """Kinds that the row has a place for, before anything is run: a few may prove to be no fault there.

    Raises DataError for a row whose program does not parse.
    """
    return tuple(kind for kind in KINDS if next(EDITS[kind](row, random.Random(kind)), None) is not None)


def planted(rows: Sequence[Dialogue], count: int, seed: int) -> list[Planted]:
    """So many faults, kinds as evenly as the rows allow, each in a row of its own. Same arguments, same faults.

    Raises DataError for a count that is not positive, and where the rows do not have as many places.
    """
    if count < 1:
        raise DataError(f"{count} faults; accepted: 1 or more")
    order = list(range(len(rows)))
    random.Random(f"faults/{seed}").shuffle(order)
    kinds = list(KINDS)
    random.Random(f"kinds/{seed}").shuffle(kinds)
    waiting = {kind: list(order) for kind in kinds}  # rows that a kind was not tried in
    found: list[Planted] = []
    used: set[int] = set()
    with Sandbox() as sandbox:
        while len(found) < count and waiting:
            for kind in [kind for kind in kinds if kind in waiting][: count - len(found)]:
                new = None
                while waiting[kind] and new is None:
                    k = waiting[kind].pop(0)
                    if k in used:
                        continue
                    rng = random.Random(f"fault/{seed}/{rows[k].id}/{kind}")
                    new = _planted(Proof(rows[k], sandbox), kind, rng)
                    if new is not None:
                        used.add(k)
                        found.append(new)
                if new is None:
                    del waiting[kind]
    if len(found) < count:
        raise DataError(f"{count} faults; accepted: up to {len(found)}, for which these {len(rows)} rows have places")
    return found


def _planted(proof: Proof, kind: str, rng: random.Random) -> Planted | None:
    """The first of a row's edits that proves to be a fault; what was known of the good row is not said of it."""
    for number, edit in enumerate(EDITS[kind](proof.row, rng)):
        if number == TRIES:
            break
        found = edit.made(proof) if edit.made is not None else edit
        if found is not None and found.row != proof.row and found.proves(proof):
            return Planted(kind, found.what, replace(found.row, evidence={}))
    return None


def _known(kind: str) -> None:
    if kind not in KINDS:
        raise DataError(f"fault {kind!r:.60}; accepted: {', '.join(KINDS)}")
