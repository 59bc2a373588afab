"""The ledger against sums made by hand: never over the budget, whatever is settled, lied about or killed."""

import json
import shutil
import tempfile
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from trex.data.endpoint import Endpoint
from trex.data.flywheel.ledger import LEDGER, Budget, BudgetSpent, Priced, Reservation, ledger
from trex.data.problem import DataError

TENTH = Reservation("e", 60, 40, 1000.0, 2000.0)  # 100 tokens, 0.06 + 0.08 money


def test_what_is_used_is_charged_and_the_rest_is_free_again(tmp_path: Path) -> None:
    with ledger(tmp_path, Budget(tokens=250, money=1.0)) as spent:
        first, second = spent.reserve(TENTH), spent.reserve(TENTH)
        with pytest.raises(BudgetSpent, match=r"200 of 250 tokens, 0\.28 of 1 money; the next takes up to 100 tokens"):
            spent.reserve(TENTH)
        assert spent.settle(first, (10, 20)) and spent.settle(second, (0, 0))
        assert (spent.tokens, spent.money, spent.requests) == (30, Fraction(5, 100), 2)
        assert spent.fits(TENTH) and spent.in_flight == 0
        with pytest.raises(DataError, match="request 1 has no open reservation"):
            spent.settle(first, (0, 0))


@pytest.mark.parametrize("used", [None, (61, 0), (0, 41), (-1, 5), (5, -1), (1.5, 1), (True, 1), ("5", 1), (None, 3)])
def test_a_usage_that_cannot_be_is_charged_in_full(used: tuple[object, object] | None, tmp_path: Path) -> None:
    with ledger(tmp_path, Budget(tokens=1000)) as spent:
        assert not spent.settle(spent.reserve(TENTH), used)
    for _ in range(2):
        with ledger(tmp_path, Budget(tokens=1000)) as spent:
            assert (spent.tokens, spent.spent["e"].charged) == (100, 1)


def test_money_is_exact(tmp_path: Path) -> None:
    tenth = Reservation("e", 1, 0, 100_000.0)  # 0.1 each: ten floats of it do not make 1.0
    with ledger(tmp_path, Budget(money=1.0)) as spent:
        for _ in range(10):
            spent.settle(spent.reserve(tenth), (1, 0))
        assert spent.money == 1 and not spent.fits(tenth)
        assert spent.fits(Reservation("e", 5, 5))  # which costs nothing


def test_requests_are_limited_whether_they_cost_something_or_not(tmp_path: Path) -> None:
    for _ in range(3):
        with ledger(tmp_path, Budget(requests=3)) as spent:
            spent.settle(spent.reserve(TENTH), (0, 0))
    with ledger(tmp_path, Budget(requests=3)) as spent, pytest.raises(BudgetSpent, match="3 of 3 requests"):
        spent.reserve(TENTH)


def test_a_larger_budget_goes_on(tmp_path: Path) -> None:
    with ledger(tmp_path, Budget(tokens=100)) as spent:
        spent.reserve(TENTH)
    with ledger(tmp_path, Budget(tokens=199)) as spent, pytest.raises(BudgetSpent):
        spent.reserve(TENTH)
    with ledger(tmp_path, Budget(tokens=200)) as spent:
        assert spent.reserve(TENTH) == 2


SIZES = some.integers(0, 60)
STEPS = some.lists(
    some.one_of(
        some.tuples(some.just("reserve"), SIZES, SIZES),
        some.tuples(some.just("settle"), some.integers(0, 9), some.tuples(SIZES, SIZES)),
        some.tuples(some.just("settle"), some.integers(0, 9), some.sampled_from([None, (-1, 0), (0, 99), ("1", 2)])),
        some.tuples(some.just("kill"), some.integers(0, 200), some.none()),
    ),
    max_size=40,
)


@settings(max_examples=150, deadline=None)
@given(STEPS, some.integers(0, 500), some.integers(0, 12))
def test_no_sequence_of_reservations_settlements_and_kills_exceeds_the_budget(
    steps: list[tuple[str, int, object]], tokens: int, requests: int
) -> None:
    folder = Path(tempfile.mkdtemp())
    budget = Budget(tokens=tokens, requests=requests)
    reserved: dict[int, tuple[int, int]] = {}  # of this run
    paid = sent = 0
    try:
        stack = ExitStack()
        now = stack.enter_context(ledger(folder, budget))
        for kind, first, second in steps:
            if kind == "reserve":
                assert isinstance(second, int)
                fits = paid + sum(map(sum, reserved.values())) + first + second <= tokens and sent < requests
                if fits:
                    sent += 1
                    reserved[now.reserve(Reservation("e", first, second))] = (first, second)
                else:
                    with pytest.raises(BudgetSpent):
                        now.reserve(Reservation("e", first, second))
            elif kind == "settle" and reserved:
                number = sorted(reserved)[first % len(reserved)]
                most = reserved.pop(number)
                used = second if isinstance(second, tuple) else None
                plausible = used is not None and all(
                    isinstance(one, int) and 0 <= one <= limit for one, limit in zip(used, most, strict=True)
                )
                assert now.settle(number, used) == plausible
                paid += sum(used) if plausible and used is not None else sum(most)
            elif kind == "kill":  # amid a line that is being written: what it was of does not count
                stack.close()
                line = json.dumps({"request": sent + 1, "endpoint": "e", "input": 9, "output": 9})
                with (folder / LEDGER).open("a") as stream:
                    stream.write(line[: first % len(line)])
                paid += sum(map(sum, reserved.values()))
                reserved = {}
                stack = ExitStack()
                now = stack.enter_context(ledger(folder, budget))
            assert now.tokens == paid + sum(map(sum, reserved.values())) <= tokens
            assert (now.requests, now.in_flight) == (sent, len(reserved)) and sent <= requests
        stack.close()
        with ledger(folder, budget) as again:
            found = again.spent.get("e")
            assert (found.input + found.output if found else 0) == again.tokens == now.tokens
    finally:
        shutil.rmtree(folder)


GOOD = {"request": 1, "endpoint": "e", "input": 6, "output": 4, "input_price": 0.0, "output_price": 0.0}


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["{"], "line 1: no JSON"),
        (["[]"], "line 1: .*an object"),
        ([{"a": 1}], "line 1: its fields are a"),
        ([{**GOOD, "request": 2}], "request 2; accepted: 1"),
        ([{**GOOD, "input": -1}], "input = -1"),
        ([{**GOOD, "input_price": "x"}], "input_price = 'x'"),
        ([GOOD, {"settled": 7, "input": 0, "output": 0, "told": True}], "line 2: settled 7"),
        ([GOOD, {"settled": 1, "input": 7, "output": 0, "told": True}], "line 2: input = 7"),
        ([GOOD, *[{"settled": 1, "input": 1, "output": 0, "told": True}] * 2], "line 3: settled 1"),
    ],
)
def test_a_damaged_ledger_is_named(lines: list[object], said: str, tmp_path: Path) -> None:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    (tmp_path / LEDGER).write_text("\n".join(texts) + "\n")
    with pytest.raises(DataError, match=said), ledger(tmp_path, Budget()):
        pass


@pytest.mark.parametrize(
    "limit", [{"tokens": -1}, {"tokens": 1.5}, {"money": float("nan")}, {"money": "1"}, {"requests": True}]
)
def test_what_a_budget_does_not_accept(limit: dict[str, Any]) -> None:
    with pytest.raises(DataError, match=f"budget: {next(iter(limit))}"):
        Budget(**limit)


def test_what_a_price_does_not_accept() -> None:
    with pytest.raises(DataError, match="output_price = -1"):
        Priced(Endpoint("http://h/v1", "m"), 0.0, -1)
