"""The plan of a run: attempts per bucket and what they cost, against sums by hand; the file of endpoints."""

import math

import pytest

from trex.data.endpoint import Endpoint
from trex.data.flywheel.asked_jobs import Author
from trex.data.flywheel.bucket import Wanted
from trex.data.flywheel.endpoints_file import read_endpoints
from trex.data.flywheel.ledger import Priced
from trex.data.flywheel.planning import forecast, text
from trex.data.flywheel.rounds import Rounds
from trex.data.problem import DataError

ENDPOINT = Endpoint("http://localhost:1/v1", "m")


def test_the_embedded_author_costs_nothing_and_over_sampling_counts():
    wanted = Wanted.of(300)
    plan = forecast(wanted, Rounds(2, 1.5))
    assert plan.cost.requests == 0 and sum(plan.attempts.values()) == sum(
        math.ceil(1.5 * count) for count in wanted.quotas().values()
    )
    assert "no requests" in text(plan, "embedded")


def test_requests_and_money_are_the_steps_of_each_task_and_style():
    wanted = Wanted.of(40, structures=("knapsack",), difficulties=(1,))
    plan = forecast(wanted, Rounds(1), [Priced(ENDPOINT, 2.0, 10.0)], Author(repairs=2))
    steps = most = 0
    for bucket, count in plan.attempts.items():
        writes = 4 + (bucket.task == "find-and-repair")
        cleans = bucket.style == "clean-cot"
        steps += count * (writes + 2 * cleans)
        most += count * (3 * writes + 4 * cleans)  # a cleaner's reply is asked for again, a review is not
    assert (plan.cost.requests, plan.cost.most_requests) == (steps, most)
    assert plan.cost.money == pytest.approx((2 * plan.cost.input_tokens + 10 * plan.cost.output_tokens) / 1e6, rel=1e-4)
    assert plan.row()["cost"]["requests"] == steps
    unreviewed = forecast(wanted, Rounds(1), [Priced(ENDPOINT)], Author(reviewed=False))
    assert unreviewed.cost.requests < steps and unreviewed.cost.money == 0


def test_endpoints_come_from_a_file(tmp_path):
    path = tmp_path / "endpoints.yaml"
    path.write_text("- {base_url: 'http://localhost:1/v1', model: a, input_price: 1.5, concurrency: 2}\n")
    (found,) = read_endpoints(path)
    assert found.input_price == 1.5 and found.endpoint == Endpoint("http://localhost:1/v1", "a", concurrency=2)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "accepted: a list of endpoints"),
        ("a: 1", "accepted: a list of endpoints"),
        ("- 3", "endpoint 1: 3; accepted"),
        ("- {base_url: 'http://localhost/v1'}", "endpoint 1"),
        ("- {base_url: 'http://localhost/v1', model: m, modle: x}", "endpoint 1"),
        ("- {base_url: 'ftp://localhost/v1', model: m}", "base_url = 'ftp"),
        ("- {base_url: 'http://localhost/v1', model: m, input_price: cheap}", "input_price"),
        ("- {base_url: 'http://localhost/v1', model: m, concurrency: 0}", "concurrency = 0"),
        ("[", "cannot be read"),
        ("- !!python/object/apply:os.system ['true']", "cannot be read"),
    ],
)
def test_a_file_that_names_none_is_refused_by_its_entry(tmp_path, content, said):
    path = tmp_path / "endpoints.yaml"
    path.write_text(content)
    with pytest.raises(DataError, match=said):
        read_endpoints(path)
    with pytest.raises(DataError, match="cannot be read"):
        read_endpoints(tmp_path / "none.yaml")
