"""Dictionaries and lists keyed by tuples, whose parts can be selected by position."""

from collections.abc import Iterable
from typing import Any

from trex.solver.recorder.expressions import LinExpr
from trex.solver.recorder.operand import is_array


def _is_choice(pattern: Any) -> bool:
    return isinstance(pattern, list | set | range | frozenset) or is_array(pattern)


def _matches(key: Any, patterns: tuple[Any, ...]) -> bool:
    parts = key if isinstance(key, tuple) else (key,)
    for part, pattern in zip(parts, patterns, strict=False):
        if isinstance(pattern, str) and pattern == "*":
            continue
        if _is_choice(pattern):
            if part not in pattern:
                return False
        elif part != pattern:
            return False
    return True


class _Index:
    """Keys by the value at each of their positions, built for a position when it is first asked for."""

    def __init__(self, keys: Iterable[Any]) -> None:
        self.keys = list(keys)
        self.width = min((len(key) if isinstance(key, tuple) else 1 for key in self.keys), default=None)
        self.found: dict[int, dict[Any, list[Any]]] = {}

    def at(self, position: int, value: Any) -> list[Any]:
        """Keys with that value there; all keys where values cannot be looked up."""
        try:
            if position not in self.found:
                values: dict[Any, list[Any]] = {}
                for key in self.keys:
                    values.setdefault(key[position] if isinstance(key, tuple) else key, []).append(key)
                self.found[position] = values
            return self.found[position].get(value, [])
        except TypeError:
            return self.keys

    def select(self, patterns: tuple[Any, ...]) -> list[Any]:
        """Keys that match value by value: "*" matches all, a list any of its values; missing patterns match all."""
        if self.width is not None and len(patterns) > self.width:
            raise IndexError(f"Too many indices for tuplelist with {self.width}-tuple keys")
        keys = self.keys
        for position, pattern in enumerate(patterns):
            if not (isinstance(pattern, str) and pattern == "*") and not _is_choice(pattern):
                keys = self.at(position, pattern)
                break
        return [key for key in keys if _matches(key, patterns)]


class _Indexed:
    """A container with an index, which every change discards."""

    _index: _Index | None = None

    def _keys(self, patterns: tuple[Any, ...]) -> list[Any]:
        if self._index is None:
            self._index = _Index(self)  # type: ignore[arg-type]
        return self._index.select(patterns)


def _discarding(base: type, name: str) -> Any:
    method = getattr(base, name)

    def change(self: Any, *arguments: Any, **named: Any) -> Any:
        self._index = None
        return method(self, *arguments, **named)

    change.__name__, change.__doc__ = name, method.__doc__
    return change


class tuplelist(_Indexed, list[Any]):
    """A list of tuples."""

    def select(self, *patterns: Any) -> "tuplelist":
        """Tuples whose values match; "*" matches every value, a list any of its values."""
        return tuplelist(self._keys(patterns))

    def __add__(self, other: Any) -> "tuplelist":
        return tuplelist(list.__add__(self, list(other)))

    append, extend, insert = (_discarding(list, name) for name in ("append", "extend", "insert"))
    remove, pop, clear = (_discarding(list, name) for name in ("remove", "pop", "clear"))
    sort, reverse = (_discarding(list, name) for name in ("sort", "reverse"))
    __setitem__, __delitem__ = (_discarding(list, name) for name in ("__setitem__", "__delitem__"))
    __iadd__, __imul__ = (_discarding(list, name) for name in ("__iadd__", "__imul__"))


class tupledict(_Indexed, dict[Any, Any]):
    """A dictionary, usually of variables, keyed by values or tuples of values."""

    _sums_values = True
    pop, popitem, clear = (_discarding(dict, name) for name in ("pop", "popitem", "clear"))
    update, setdefault = (_discarding(dict, name) for name in ("update", "setdefault"))
    __setitem__, __delitem__ = (_discarding(dict, name) for name in ("__setitem__", "__delitem__"))
    __ior__ = _discarding(dict, "__ior__")

    def select(self, *patterns: Any) -> list[Any]:
        """Values whose keys match."""
        return [self[key] for key in self._keys(patterns)]

    def sum(self, *patterns: Any) -> LinExpr:
        """Sum of the values whose keys match."""
        result: Any = LinExpr()
        for value in self.select(*patterns):
            result += value
        return result

    def prod(self, coeff: Any, *patterns: Any) -> LinExpr:
        """Sum of the values whose keys match times their coefficients; keys without one are left out."""
        result: Any = LinExpr()
        for key in self._keys(patterns):
            if hasattr(coeff, "keys"):
                if key in coeff:
                    result += coeff[key] * self[key]
            else:  # a list is asked by position, as a one-dimensional key is one
                result += coeff[key] * self[key]
        return result

    def copy(self) -> "tupledict":
        """Another dictionary with the same values."""
        return tupledict(self)

    def clean(self) -> None:
        """Nothing: there is no index to discard."""


def multidict(data: dict[Any, Any]) -> list[Any]:
    """Keys and one dictionary per value of the lists that `data` holds; of scalars, one dictionary."""
    keys = list(data)
    names: list[Any] = tuplelist(keys) if keys and isinstance(keys[0], tuple) else keys
    rows = [value if isinstance(value, list | tuple) else [value] for value in data.values()]
    widths = {len(row) for row in rows}
    if len(widths) > 1:
        raise ValueError(f"multidict: values have {sorted(widths)} entries; accepted: the same number for every key")
    width = widths.pop() if widths else 0
    return [names, *(tupledict({key: row[k] for key, row in zip(keys, rows, strict=True)}) for k in range(width))]
