"""What a model's add methods return: variables, constraints, sets; their attributes in any case of letters."""

from typing import Any, ClassVar

from trex.solver.recorder.attributes import COLUMN, GENERAL, LINE, QUADRATIC_LINE, SET, Attributes, get, put
from trex.solver.recorder.errors import GurobiError
from trex.solver.recorder.operand import Operand


class Part:
    """One part of a model. Attributes are those of Gurobi; ones that begin with `_` are the program's own."""

    _attributes: ClassVar[Attributes] = {}
    _word = ""
    _recorded: Any

    def __init__(self, recorded: Any) -> None:
        object.__setattr__(self, "_recorded", recorded)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"'gurobipy.{type(self).__name__}' object has no attribute '{name}'")
        return get(self, self._attributes, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            object.__setattr__(self, name, value)
        else:
            self.setAttr(name, value)

    def getAttr(self, attrname: str) -> Any:
        """An attribute by name. Raises AttributeError for an unknown one and for one that has no value yet."""
        return get(self, self._attributes, attrname)

    def setAttr(self, attrname: str, newvalue: Any) -> None:
        """Change an attribute. Raises AttributeError for one that cannot be, GurobiError for a value it cannot have."""
        put(self, self._attributes, attrname, newvalue)

    def sameAs(self, other: Any) -> bool:
        """Whether both are the same part."""
        return self is other

    @property
    def index(self) -> int:
        """Place among the parts of its kind."""
        if self._recorded.removed:
            raise GurobiError(0, f"{self._word} was removed from the model")
        return int(self._recorded.place)

    def __repr__(self) -> str:
        return f"<gurobi.{type(self).__name__} {self._recorded.name}>"


class Var(Part, Operand):
    """A variable."""

    _attributes = COLUMN
    _word = "Variable"
    __hash__ = object.__hash__


class Constr(Part):
    """A linear constraint."""

    _attributes = LINE
    _word = "Constr"


class QConstr(Part):
    """A quadratic constraint."""

    _attributes = QUADRATIC_LINE
    _word = "QConstr"


class SOS(Part):
    """A special ordered set."""

    _attributes = SET
    _word = "SOS"


class GenConstr(Part):
    """A general constraint."""

    _attributes = GENERAL
    _word = "GenConstr"
