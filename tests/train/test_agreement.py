"""Errors are agreed on, and one rank's work may last longer than the others would wait for a collective."""

import time
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist

from trex.checkpoint.together import Together
from trex.data.problem import DataError
from trex.launch import ranks
from trex.train.agreement import AgreedError, agree, of_first


def outcomes(rank: int) -> list[Any]:
    together, found = Together(), []

    def fails_on(*bad: int) -> int:
        if rank in bad:
            raise DataError(f"of {rank}")
        return rank

    for bad in ((), (0, 1), (1,)):
        try:
            found.append(agree(together, lambda bad=bad: fails_on(*bad)))
        except AgreedError as error:
            found.append((str(error), type(error.__cause__).__name__))
    found.append(of_first(together, lambda: ["made by", rank], 0.1))
    try:
        of_first(together, lambda: fails_on(0), 0.1)
    except AgreedError as error:
        found.append((str(error), type(error.__cause__).__name__))
    return found


def test_all_ranks_return_or_all_raise_the_first_ones_error() -> None:
    for rank, found in enumerate(ranks.run(outcomes, 2)):
        first = ("of 0", "DataError")
        assert found == [rank, first, ("of 1", "DataError"), ["made by", 0], first]


def slow_work(rank: int) -> Any:
    group = dist.new_group([0, 1], timeout=timedelta(seconds=2))
    assert group is not None
    return of_first(Together(group), lambda: time.sleep(5) or "made", 0.5)


def test_work_of_the_first_rank_may_outlast_the_time_out() -> None:
    assert ranks.run(slow_work, 2) == ["made", "made"]


def elsewhere(rank: int) -> str:
    """Rank 1 raises while rank 0 is in another collective: rank 1 gets its own error."""
    group = dist.new_group([0, 1], timeout=timedelta(seconds=2))
    assert group is not None
    try:
        if rank == 0:
            dist.all_reduce(torch.ones(10_000), group=group)
        else:
            agree(Together(group), lambda: int("no number"))
    except (ValueError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


def test_a_rank_that_is_alone_with_its_error_raises_it() -> None:
    assert ranks.run(elsewhere, 2)[1].startswith("ValueError: invalid literal for int()")


def test_alone_an_error_stays_what_it_is() -> None:
    alone = Together(alone=True)
    with pytest.raises(ZeroDivisionError):
        agree(alone, lambda: 1 // 0)
    with pytest.raises(ValueError, match="invalid literal"):
        of_first(alone, lambda: int("x"), 1.0)
