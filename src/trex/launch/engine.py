"""papermill's own engine, with a call after every cell so that one progress bar can cover many notebooks."""

from collections.abc import Callable
from typing import Any

from papermill.engines import NBClientEngine, papermill_engines

ENGINE = "trex"


class CellProgressEngine(NBClientEngine):
    """nbclient as papermill runs it; `on_cell` is called when a cell has ended."""

    @classmethod
    def execute_managed_notebook(
        cls, nb_man: Any, kernel_name: str, *, on_cell: Callable[[], object], **kwargs: Any
    ) -> Any:
        """Run the notebook that papermill manages."""
        complete = nb_man.cell_complete

        def complete_and_tell(*args: Any, **values: Any) -> None:
            complete(*args, **values)
            on_cell()

        nb_man.cell_complete = complete_and_tell
        return super().execute_managed_notebook(nb_man, kernel_name, **kwargs)


papermill_engines.register(ENGINE, CellProgressEngine)
