"""A budget that is never exceeded: what a request can cost at most is reserved on disk before the request is sent.

Lines of JSON: a reservation has a number, the endpoint, the most input and output tokens and their prices; its
settlement has the tokens that were used. A reservation without a settlement, after a kill say, counts in full.
"""

import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from fractions import Fraction
from io import FileIO
from pathlib import Path
from typing import Any

from trex.data.endpoint import Endpoint
from trex.data.problem import DataError
from trex.files import cut_half_line

LEDGER = "ledger.jsonl"
PER = 1_000_000  # prices are per so many tokens
_RESERVATION = {"request", "endpoint", "input", "output", "input_price", "output_price"}
_SETTLEMENT = {"settled", "input", "output", "told"}


class BudgetSpent(Exception):
    """No request is left within the budget: the run stops cleanly, and the same command with a larger one goes on."""


@dataclass(frozen=True)
class Priced:
    """An endpoint and its prices, money per million tokens. Raises DataError for a price that is not accepted."""

    endpoint: Endpoint
    input_price: float = 0.0
    output_price: float = 0.0
    address: str = ""  # a word for the address where that is another in each run, as "checkpoint"

    def __post_init__(self) -> None:
        for name in ("input_price", "output_price"):
            _number(name, getattr(self, name), (int, float), 0, 1e12, "numbers from 0")

    @property
    def name(self) -> str:
        """Model and address, which the ledger and the summary call it by."""
        return f"{self.endpoint.model} at {self.address or self.endpoint.base_url}"


@dataclass(frozen=True)
class Budget:
    """The most that all runs of a folder may spend together; None is no limit. Raises DataError for a bad limit.

    tokens: input and output. money: in the unit of the prices. requests: all that are sent, those that fail included.
    """

    tokens: int | None = None
    money: float | None = None
    requests: int | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            if (value := getattr(self, field.name)) is not None:
                kind, accepted = ((int, float), "numbers from 0") if field.name == "money" else (int, "counts from 0")
                _number(f"budget: {field.name}", value, kind, 0, 1e18, accepted)


@dataclass
class Spending:
    """What one endpoint was paid. Money is exact where prices are decimals. charged: requests counted in full, where
    the endpoint did not say what was used, or something that cannot be."""

    requests: int = 0
    input: int = 0
    output: int = 0
    money: Fraction = Fraction(0)
    charged: int = 0


@dataclass(frozen=True)
class Reservation:
    """The most that a request can cost: tokens, and money per million of them."""

    endpoint: str
    input: int
    output: int
    input_price: float = 0.0
    output_price: float = 0.0

    def money(self, input: int, output: int) -> Fraction:
        """What so many tokens cost, exactly."""
        prices = Fraction(repr(self.input_price)), Fraction(repr(self.output_price))
        return (input * prices[0] + output * prices[1]) / PER


class Lines:
    """Appends JSON lines to one file; made by `lines`."""

    def __init__(self, stream: FileIO) -> None:
        self._stream = stream

    def append(self, row: dict[str, Any]) -> None:
        """Append a line, which is whole on the disk when this returns, and not there where it raises."""
        start = self._stream.seek(0, os.SEEK_END)
        try:
            rest = memoryview(json.dumps(row, allow_nan=False).encode("ascii") + b"\n")  # lone surrogates escaped
            while rest:
                rest = rest[self._stream.write(rest) :]
            os.fsync(self._stream.fileno())
        except BaseException:  # a full disk, say: the next row must not follow half of this one
            self._stream.truncate(start)
            raise


@contextmanager
def lines(path: Path) -> Iterator[Lines]:
    """The writer of a file, whose half-written last line is cut off; the caller sees to it that it is the only one."""
    cut_half_line(path)
    with FileIO(path, "ab") as stream:
        yield Lines(stream)


def read_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Place and content of each whole line, none where there is no file. Raises DataError for one that is no object."""
    if not path.exists():
        return
    with path.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            if not line.endswith(b"\n"):
                return
            where = f"{path}, line {number}"
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise DataError(f"{where}: no JSON: {error}") from None
            if not isinstance(row, dict):
                raise DataError(f"{where}: {row!r:.80}; accepted: an object")
            yield where, row


class Ledger:
    """What was spent and what is reserved; made by `ledger`. Not for several threads."""

    def __init__(self, budget: Budget, written: Lines, rows: Iterator[tuple[str, dict[str, Any]]]) -> None:
        self.budget, self._lines = budget, written
        self._open: dict[int, Reservation] = {}
        self.spent: dict[str, Spending] = {}
        self.tokens, self.money, self.requests = 0, Fraction(0), 0  # with what is reserved
        for where, row in rows:
            try:
                self._read(row)
            except DataError as error:
                raise DataError(f"{where}: {error}") from None
        for number in list(self._open):  # of runs that were killed
            self._settle(number, None)

    def fits(self, wanted: Reservation) -> bool:
        """Whether a request is within the budget beside all that was spent and is reserved."""
        budget, money = self.budget, self.money + wanted.money(wanted.input, wanted.output)
        return (
            (budget.requests is None or self.requests + 1 <= budget.requests)
            and (budget.tokens is None or self.tokens + wanted.input + wanted.output <= budget.tokens)
            and (budget.money is None or money <= Fraction(repr(budget.money)))
        )

    def reserve(self, wanted: Reservation) -> int:
        """Reserve a request, on disk when this returns its number. Raises BudgetSpent where it does not fit."""
        if not self.fits(wanted):
            raise BudgetSpent(
                f"no request is left within the budget: {self.told()}; the next takes up to {_told(wanted)}"
            )
        number = self.requests + 1
        self._lines.append({"request": number, **vars(wanted)})
        self._reserve(number, wanted)
        return number

    def settle(self, number: int, used: tuple[object, object] | None) -> bool:
        """Settle a reservation with the input and output tokens used; (0, 0) for a request that surely cost nothing.

        None, and whatever cannot be (no whole number, negative, more than reserved), charges the full reservation.
        Returns whether `used` was believed. Raises DataError where nothing of that number is reserved.
        """
        if number not in self._open:
            raise DataError(f"request {number} has no open reservation")
        wanted = self._open[number]
        believed = used is not None and _count(used[0], wanted.input) and _count(used[1], wanted.output)
        known: Any = used if believed else None
        row = known or (wanted.input, wanted.output)
        self._lines.append({"settled": number, "input": row[0], "output": row[1], "told": believed})
        self._settle(number, known)
        return believed

    @property
    def in_flight(self) -> int:
        """How many reservations are open."""
        return len(self._open)

    def told(self) -> str:
        """What is spent or reserved of each limit, in words."""
        now = {"tokens": self.tokens, "money": float(self.money), "requests": self.requests}
        limits = {name: limit for name, limit in vars(self.budget).items() if limit is not None}
        return ", ".join(f"{now[name]:g} of {limit:g} {name}" for name, limit in limits.items()) or "no limit"

    def _read(self, row: dict[str, Any]) -> None:
        if row.keys() == _RESERVATION:
            if not isinstance(row["endpoint"], str) or row["request"] != self.requests + 1:
                raise DataError(f"request {row['request']!r:.40}; accepted: {self.requests + 1}, of an endpoint's name")
            for name in ("input", "output"):
                _number(name, row[name], int, 0, 1e18, "counts from 0")
            for name in ("input_price", "output_price"):
                _number(name, row[name], (int, float), 0, 1e12, "numbers from 0")
            self._reserve(row["request"], Reservation(**{name: row[name] for name in _RESERVATION - {"request"}}))
        elif row.keys() == _SETTLEMENT:
            number = row["settled"]
            if not isinstance(number, int) or number not in self._open:
                raise DataError(f"settled {number!r:.40}; accepted: an open reservation")
            for name in ("input", "output"):
                _number(name, row[name], int, 0, getattr(self._open[number], name), "counts up to the reservation")
            self._settle(number, (row["input"], row["output"]) if row["told"] else None)
        else:
            raise DataError(f"its fields are {', '.join(row)}; accepted: those of a reservation or of a settlement")

    def _reserve(self, number: int, wanted: Reservation) -> None:
        self._open[number] = wanted
        self.requests += 1
        self.tokens += wanted.input + wanted.output
        self.money += wanted.money(wanted.input, wanted.output)

    def _settle(self, number: int, used: tuple[int, int] | None) -> None:
        wanted = self._open.pop(number)
        input, output = used or (wanted.input, wanted.output)
        self.tokens -= wanted.input + wanted.output - input - output
        money = wanted.money(input, output)
        self.money -= wanted.money(wanted.input, wanted.output) - money
        spent = self.spent.setdefault(wanted.endpoint, Spending())
        spent.requests += 1
        spent.input += input
        spent.output += output
        spent.money += money
        spent.charged += used is None


@contextmanager
def ledger(folder: Path, budget: Budget) -> Iterator[Ledger]:
    """The ledger of a folder, which is there and which the caller has locked. Raises DataError for a bad line."""
    with lines(folder / LEDGER) as written:
        yield Ledger(budget, written, read_lines(folder / LEDGER))


def _told(wanted: Reservation) -> str:
    money = float(wanted.money(wanted.input, wanted.output))
    return f"{wanted.input + wanted.output} tokens" + (f" for {money:g}" if money else "")


def _count(value: object, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def _number(name: str, value: object, kind: Any, low: float, high: float, accepted: str) -> None:
    if not isinstance(value, kind) or isinstance(value, bool) or not math.isfinite(value) or not low <= value <= high:
        raise DataError(f"{name} = {value!r:.80}; accepted: {accepted}")
