"""The one error of this room."""


class CheckpointError(ValueError):
    """A checkpoint that cannot be read or written: missing, damaged, incomplete, or of another model."""


def refuse(problems: list[str], what: object) -> None:
    """Raise CheckpointError that names all problems of `what`, if there are any."""
    if problems:
        raise CheckpointError(f"{what}: {'; '.join(problems)}")
