"""Keys and names of variables and constraints that are added many at a time."""

import dis
import itertools
from collections.abc import Iterator
from types import GeneratorType
from typing import Any

import numpy as np

from trex.solver.recorder.operand import is_array


def keys_of(indices: tuple[Any, ...]) -> list[Any]:
    """Keys of one index set, or of the product of several, tuples joined. Raises KeyError for one that comes twice."""
    sets = [list(range(s)) if isinstance(s, int | np.integer) else list(s) for s in indices]
    if not sets:
        raise TypeError("addVars() needs an index: a number, a list, a dictionary, …")
    keys: list[Any] = sets[0]
    if len(sets) > 1:
        keys = []
        for parts in itertools.product(*sets):
            joined: list[Any] = []
            for part in parts:
                joined += part if isinstance(part, tuple) else (part,)
            keys.append(tuple(joined))
    if len(set(keys)) != len(keys):
        raise KeyError("Duplicate keys in Model.addVars()")
    return keys


def values_of(keys: list[Any], given: Any, default: Any, what: str) -> list[Any]:
    """One value per key, from one for all, a list in their order, or a dictionary by key.

    Raises ValueError for a list of another length.
    """
    if isinstance(given, dict):
        return [given.get(key, default) for key in keys]
    if is_array(given):
        given = given.reshape(-1).tolist()
    if isinstance(given, str) or not hasattr(given, "__len__"):
        return [given] * len(keys)
    values = list(given)
    if len(values) != len(keys):
        raise ValueError(f"{what} has {len(values)} values for {len(keys)} variables")
    return values


def subscripted(name: str, key: Any) -> str:
    """name[i,j] for the key (i, j)."""
    return f"{name}[{','.join(map(str, key)) if isinstance(key, tuple) else key}]"


def names_of(keys: list[Any], name: Any) -> list[str]:
    """A name for each key: subscripted where one is given for all."""
    if isinstance(name, str):
        return [subscripted(name, key) if name else "" for key in keys]
    return [str(value) for value in values_of(keys, name, "", "name")]


def keyed(generator: Any) -> Iterator[tuple[Any, Any]]:
    """What a generator expression yields, each with the values of its loop variables. Raises KeyError for another."""
    if not isinstance(generator, GeneratorType):
        raise KeyError("Missing constraint index: addConstrs takes a generator expression, (… for i in …)")
    names = _loop_variables(generator)
    for item in generator:
        frame = generator.gi_frame
        scope = frame.f_locals if frame is not None else {}
        parts = tuple(scope[name] for name in names if name in scope)
        yield (parts[0] if len(parts) == 1 else parts), item


def _loop_variables(generator: Any) -> list[str]:
    """Names that the generator's code assigns, in that order; those that inner expressions read are cells."""
    names: list[str] = []
    for step in dis.get_instructions(generator.gi_code):
        if step.opname in ("STORE_FAST", "STORE_DEREF", "STORE_FAST_LOAD_FAST", "STORE_FAST_STORE_FAST"):
            stored = step.argval if isinstance(step.argval, tuple) else (step.argval,)
            names += stored[:1] if step.opname == "STORE_FAST_LOAD_FAST" else stored
    return list(dict.fromkeys(names))
