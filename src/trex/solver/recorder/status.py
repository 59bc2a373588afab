"""What of the model as a whole can be asked and changed: attributes of `Model`."""

from collections.abc import Callable
from typing import Any

from trex.solver.recorder.attributes import Attributes, text
from trex.solver.recorder.errors import INVALID_ARGUMENT, GurobiError, refuse
from trex.solver.recorder.store import Store, finite, real

SOLVED = {
    "optimal": 2, "infeasible": 3, "infeasible_or_unbounded": 4, "unbounded": 5, "time_limit": 9, "unknown": 12,
    "error": 12, "memory_limit": 17,
}  # fmt: skip


def sense_of(value: Any) -> int:
    """1 for least and -1 for most; 0 is 1. Raises GurobiError for other values."""
    number = int(value)
    if number not in (-1, 0, 1):
        raise GurobiError(INVALID_ARGUMENT, f"Invalid objective sense {value}; accepted: 1, -1")
    return number or 1


def _missing(name: str) -> AttributeError:
    return AttributeError(f"Unable to retrieve attribute '{name}'")


def _of_solution(name: str, field: str) -> tuple[str, Callable[[Store], Any], None]:
    def read(store: Store) -> Any:
        value = None if store.solution is None else getattr(store.solution, field)
        if value is None:
            raise _missing(name)
        return value

    return name, read, None


def discrete(store: Store) -> bool:
    """Whether the model is a mixed-integer one, as Gurobi counts."""
    return bool(any(c.kind != "C" for c in store.columns) or store.sets or store.generals)


def _gap(store: Store) -> float:
    if store.solution is None or store.solution.objective is None or not discrete(store):
        raise _missing("MIPGap")
    objective, bound = store.solution.objective, store.solution.bound
    if bound is None:
        return 1e100
    return abs(bound - objective) / abs(objective) if objective else (0.0 if bound == 0 else 1e100)


def _minimal(store: Store) -> int:
    if store.conflict is None:
        raise _missing("IISMinimal")
    return int(store.conflict.minimal)


def _runtime(store: Store) -> float:
    return 0.0 if store.solution is None else store.solution.seconds


def _sense(store: Store, value: Any) -> None:
    number = int(value)
    store.sense = sense_of(value) if number else -1  # Gurobi takes 0 for most here, for least in setObjective


def _offset(store: Store, value: Any) -> None:
    store.offset = finite(real("ObjCon", value))


def _only(name: str, value: int, what: str) -> tuple[str, Callable[[Store], Any], Callable[[Store, Any], None]]:
    def write(store: Store, given: Any) -> None:
        if given != value:
            refuse(f"{name} = {given!r}: {what}", str(value))

    return name, lambda store: value, write


def _fixed(name: str, value: Any) -> tuple[str, Callable[[Store], Any], None]:
    return name, lambda store: value, None


def _count(name: str, count: Callable[[Store], int]) -> tuple[str, Callable[[Store], Any], None]:
    return name, lambda store: int(count(store)), None


def _kinds(letters: str) -> Callable[[Store], int]:
    return lambda store: sum(column.kind in letters for column in store.columns)


_ENTRIES: tuple[Any, ...] = (
    _count("NumVars", lambda store: len(store.columns)),
    _count("NumConstrs", lambda store: len(store.rows)),
    _count("NumQConstrs", lambda store: len(store.quadratic_rows)),
    _count("NumSOS", lambda store: len(store.sets)),
    _count("NumGenConstrs", lambda store: len(store.generals)),
    _count("NumNZs", lambda store: sum(len(row.terms) for row in store.rows)),
    _count("DNumNZs", lambda store: sum(len(row.terms) for row in store.rows)),
    _count("NumQNZs", lambda store: len(store.square)),
    _count("NumQCNZs", lambda store: sum(len(row.square) for row in store.quadratic_rows)),
    _count("NumIntVars", _kinds("BIN")),
    _count("NumBinVars", _kinds("B")),
    _count("IsMIP", discrete),
    _count("IsQP", lambda store: bool(store.square)),
    _count("IsQCP", lambda store: bool(store.quadratic_rows)),
    ("ModelName", lambda store: store.name, lambda store, value: setattr(store, "name", text(value))),
    ("ModelSense", lambda store: store.sense, _sense),
    ("ObjCon", lambda store: store.offset, _offset),
    ("Status", lambda store: store.status, None),
    _count("SolCount", lambda store: store.solution is not None and store.solution.objective is not None),
    ("MIPGap", _gap, None),
    ("Runtime", _runtime, None),
    ("Work", _runtime, None),
    _of_solution("ObjVal", "objective"),
    _of_solution("PoolObjVal", "objective"),
    _of_solution("ObjBound", "bound"),
    _of_solution("ObjBoundC", "bound"),
    _of_solution("PoolObjBound", "bound"),
    ("IISMinimal", _minimal, None),
    _fixed("NodeCount", 0.0),
    _fixed("IterCount", 0.0),
    _fixed("BarIterCount", 0),
    _fixed("IsMultiObj", 0),
    _fixed("NumPWLObjVars", 0),
    _fixed("NumStart", 0),
    _only("NumObj", 1, "several objectives"),
    _only("NumScenarios", 0, "scenarios"),
)  # fmt: skip
MODEL: Attributes = {name.lower(): (name, read, write) for name, read, write in _ENTRIES}
