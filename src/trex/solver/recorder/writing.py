"""Writing a model, its solution, or its conflict to a file."""

from pathlib import Path

from trex.solver import lp
from trex.solver.model import Model, ModelError
from trex.solver.recorder import convert
from trex.solver.recorder.conflict import part
from trex.solver.recorder.errors import DATA_NOT_AVAILABLE, GurobiError, refuse
from trex.solver.recorder.store import Store

FILE_WRITE = 10013


class Writing:
    """The part of a model's interface that writes files."""

    _recorded: Store

    def trex_model(self) -> Model:
        """What was recorded."""
        raise NotImplementedError

    def write(self, filename: str) -> None:
        """Write the model (.lp, .mps, also .gz), or the solution (.sol). Raises GurobiError for other names."""
        self._recorded.update()
        name = str(filename).lower()
        if name.endswith((".lp", ".mps", ".lp.gz", ".mps.gz")):
            self._write_model(str(filename))
        elif name.endswith(".ilp"):
            self._write_conflict(str(filename))
        elif name.endswith(".sol"):
            self._write_solution(str(filename))
        elif not name.endswith((".prm", ".json", ".mst", ".attr", ".hnt", ".bas")):
            raise GurobiError(
                FILE_WRITE, f"Unknown file type for file '{filename}'; accepted: .lp, .mps, .sol, .lp.gz, .mps.gz"
            )
        else:
            refuse(f"the file {filename!r}", ".lp, .mps, .sol, .lp.gz, .mps.gz")

    def _write_model(self, filename: str) -> None:
        """With its names where the format has such names, else with default ones, as Gurobi does."""
        try:
            model = convert.with_names(self.trex_model(), all_new=False)
            try:
                lp.write(model, filename)
            except ModelError:
                lp.write(convert.with_names(model, all_new=True), filename)
        except ModelError as error:
            raise GurobiError(FILE_WRITE, f"Unable to write to file '{filename}': {error}") from None

    def _write_conflict(self, filename: str) -> None:
        found = self._recorded.conflict
        if found is None:
            raise GurobiError(DATA_NOT_AVAILABLE, "No IIS available for current model")
        _save(filename, lp.write(convert.with_names(part(self.trex_model(), found), all_new=False)))

    def _write_solution(self, filename: str) -> None:
        store = self._recorded
        if store.solution is None or store.solution.objective is None:
            raise GurobiError(DATA_NOT_AVAILABLE, "No solution available")
        lines = [f"# Objective value = {store.solution.objective!r}"]
        lines += [f"{column.name} {store.values[column]!r}" for column in store.columns]
        _save(filename, "\n".join(lines) + "\n")


def _save(filename: str, text: str) -> None:
    try:
        Path(filename).write_text(text, encoding="utf-8")
    except OSError as error:
        raise GurobiError(FILE_WRITE, f"Unable to write to file '{filename}': {error}") from None
