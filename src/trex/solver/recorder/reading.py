"""Reading back what was recorded."""

from typing import Any

from trex.solver.recorder import parts
from trex.solver.recorder.expressions import LinExpr, QuadExpr
from trex.solver.recorder.store import Store


class Reading:
    """The part of a model's interface that lists parts and gives their expressions."""

    _recorded: Store

    def getVars(self) -> list[Any]:
        """Variables in order."""
        return [column.part for column in self._recorded.columns if not column.removed]

    def getConstrs(self) -> list[Any]:
        """Linear constraints in order."""
        return [row.part for row in self._recorded.rows if not row.removed]

    def getQConstrs(self) -> list[Any]:
        """Quadratic constraints in order."""
        return [row.part for row in self._recorded.quadratic_rows if not row.removed]

    def getSOSs(self) -> list[Any]:
        """Special ordered sets in order."""
        return [ordered.part for ordered in self._recorded.sets if not ordered.removed]

    def getGenConstrs(self) -> list[Any]:
        """General constraints in order."""
        return [general.part for general in self._recorded.generals if not general.removed]

    def getVarByName(self, name: str) -> Any:
        """The first variable of that name, or None."""
        return next((var for var in self.getVars() if var._recorded.name == name), None)

    def getConstrByName(self, name: str) -> Any:
        """The first linear constraint of that name, or None."""
        return next((row for row in self.getConstrs() if row._recorded.name == name), None)

    def getObjective(self, index: int = 0) -> LinExpr | QuadExpr:
        """The objective as an expression."""
        return self._recorded.objective()

    def getRow(self, constr: parts.Constr) -> LinExpr:
        """The left side of a linear constraint."""
        result: Any = LinExpr()
        for column, coefficient in self._recorded.line(constr).terms.items():
            result += coefficient * column.part
        return result

    def getQCRow(self, qconstr: parts.QConstr) -> QuadExpr:
        """The left side of a quadratic constraint."""
        result: Any = QuadExpr(self.getRow(qconstr))  # type: ignore[arg-type]
        for (a, b), coefficient in self._recorded.line(qconstr).square.items():
            result += coefficient * (a.part * b.part)
        return result

    def getCoeff(self, constr: parts.Constr, var: parts.Var) -> float:
        """A variable's coefficient in a linear constraint."""
        return float(self._recorded.line(constr).terms.get(self._recorded.column(var), 0.0))

    def getSOS(self, sos: parts.SOS) -> tuple[int, list[Any], list[float]]:
        """Type, variables and weights of a special ordered set."""
        type_, weights = sos._recorded.data
        return type_, [column.part for column in sos._recorded.columns], list(weights)

    def printStats(self) -> None:
        """Nothing is printed."""

    def printAttr(self, attrs: Any, filter: str = "*") -> None:
        """Nothing is printed."""

    def display(self) -> None:
        """Nothing is printed."""

    def message(self, message: str) -> None:
        """Nothing is printed."""

    def terminate(self) -> None:
        """Nothing: no solver runs while the program does."""

    def sync(self) -> None:
        """Nothing: no solver runs while the program does."""
