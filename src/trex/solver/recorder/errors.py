"""The one error that Gurobi's interface raises of its own."""

from typing import NoReturn

NOT_SUPPORTED = 10024
INVALID_ARGUMENT = 10003
DATA_NOT_AVAILABLE = 10005


class GurobiError(Exception):
    """What a program catches as gurobipy.GurobiError: `errno` and `message`."""

    def __init__(self, errno: int, message: str) -> None:
        super().__init__(message)
        self.errno, self.message = errno, message


def refuse(what: str, accepted: str = "") -> NoReturn:
    """Raise GurobiError for a part of the interface that is not recorded: it would be lost otherwise."""
    raise GurobiError(NOT_SUPPORTED, f"{what}: not represented" + (f"; accepted: {accepted}" if accepted else ""))
