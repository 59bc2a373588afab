"""Arrays of variables and expressions: numpy arrays of objects whose comparisons give arrays of constraints."""

from typing import Any

import numpy as np

from trex.solver.recorder.comparisons import TempConstr
from trex.solver.recorder.expressions import LinExpr
from trex.solver.recorder.operand import each


class MVar(np.ndarray):
    """An array of variables or expressions: arithmetic, @, sum, indexing, comparisons, attributes of each element."""

    __hash__ = object.__hash__  # type: ignore[assignment]

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        """Results without dimensions are the expression itself."""
        return array[()] if array.ndim == 0 else array.view(MVar)

    def _compare(self, sense: str, other: Any) -> Any:
        left, right = np.broadcast_arrays(self, np.asarray(other, dtype=object))
        result = np.empty(left.shape, dtype=object)
        for place in np.ndindex(left.shape):
            result[place] = TempConstr(left[place], sense, right[place])
        return result.view(MVar)

    def __le__(self, other: Any) -> Any:
        return self._compare("<", other)

    def __ge__(self, other: Any) -> Any:
        return self._compare(">", other)

    def __eq__(self, other: Any) -> Any:
        return self._compare("=", other)

    def __pow__(self, exponent: Any, modulus: None = None) -> Any:
        return each(lambda part: part**exponent, self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        values = [getattr(part, name) for part in self.reshape(-1)]
        return np.array(values).reshape(self.shape)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_") or hasattr(np.ndarray, name):
            np.ndarray.__setattr__(self, name, value)
            return
        values = np.broadcast_to(np.asarray(value, dtype=object), self.shape).reshape(-1)
        for part, one in zip(self.reshape(-1), values, strict=True):
            setattr(part, name, one)

    def getAttr(self, attrname: str) -> Any:
        """An attribute of each element."""
        return getattr(self, attrname)

    def setAttr(self, attrname: str, newvalue: Any) -> None:
        """Change an attribute of each element."""
        setattr(self, attrname, newvalue)

    def getValue(self) -> Any:
        """Value of each element at the solution."""
        return np.array([(LinExpr() + part).getValue() for part in self.reshape(-1)]).reshape(self.shape)


def array_of(parts: Any, shape: tuple[int, ...]) -> MVar:
    """An array of that shape of the parts, in the order of C."""
    result = np.empty(len(parts), dtype=object)
    result[:] = parts
    return result.reshape(shape).view(MVar)
