"""The one error of this room."""

SHOWN = 12  # problems that `brief` lists


class CheckpointError(ValueError):
    """A checkpoint that cannot be read or written: missing, damaged, incomplete, or of another model.

    problems: a line each, where there are several of a kind, such as the tensors at fault of `what`.
    """

    def __init__(self, message: str, problems: tuple[str, ...] = ()) -> None:
        super().__init__(f"{message}: {'; '.join(problems)}" if problems else message)
        self.what, self.problems = message, problems

    def __reduce__(self) -> tuple[type, tuple[str, tuple[str, ...]]]:
        return type(self), (self.what, self.problems)

    def brief(self) -> str:
        """The error for a terminal: a line for each of the first problems."""
        if len(self.problems) <= 1:
            return str(self)
        more = len(self.problems) - SHOWN
        return "\n".join(
            [self.what, *(f"  {line}" for line in self.problems[:SHOWN])] + [f"  and {more:,} more"] * (more > 0)
        )


def refuse(problems: list[str], what: object) -> None:
    """Raise CheckpointError that names all problems of `what`, if there are any."""
    if problems:
        raise CheckpointError(str(what), tuple(problems))
