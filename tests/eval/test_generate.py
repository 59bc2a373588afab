"""Generation: retried, marked, resumed and killed without loss or double counting, against a server that misbehaves."""

import asyncio
import importlib.util
import json
import os
import random
import selectors
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("inspect_ai")

from trex.data.endpoint import Endpoint, EndpointError, Settings, pause_s, retry_after
from trex.eval.generate import generate
from trex.eval.items import Item
from trex.eval.plan import Plan, start
from trex.eval.recorded_answers import Recorded
from trex.eval.rows import EvaluationError, Row, finished, latest, read


def neighbour(name: str) -> ModuleType:
    """The module of that name in this folder."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


BadEndpoint = neighbour("bad_endpoint").BadEndpoint
SECRET = "sk-secret-0123456789"
RETRIED = ("408", "429", "500", "503", "malformed", "html", "text", "no-choices", "empty-choices", "half", "reset")


def asked(
    names: Sequence[str], url: str, samples: int = 2, **changed: object
) -> tuple[Plan, dict[str, list[dict[str, str]]]]:
    """A plan over items of these names and its prompts."""
    items = [Item(name, "nl4opt", f"What is {name}?", 1.0) for name in names]
    prompts = {
        name: [{"role": "system", "content": "Be brief."}, {"role": "user", "content": f"Solve {name}"}]
        for name in names
    }
    given = dict(
        interface="pyomo", shots=0, model="org/m", base_url=url, settings=Settings(0.6, 0.9, 64, 0), prompt_version="1"
    )
    return Plan.of(items, prompts, samples=samples, **{**given, **changed}), prompts  # type: ignore[arg-type]


def endpoint(url: str, **changed: object) -> Endpoint:
    """A quick one."""
    given = dict(model="org/m", concurrency=4, timeout_s=20.0, attempts=3, backoff_s=0.01)
    return Endpoint(url, **{**given, **changed})  # type: ignore[arg-type]


def rows_of(folder: Path) -> list[Row]:
    return read(folder / "answers.jsonl")


def assert_whole(folder: Path, plan: Plan) -> None:
    """Each key of the plan has exactly one finished row, the last one, with its own answer."""
    done = Counter((row["item"], row["sample"]) for row in rows_of(folder) if finished(row))
    assert done == dict.fromkeys(plan.keys, 1)
    for (item, sample), row in latest(rows_of(folder)).items():
        assert row["text"] == f"answer to {item}, sample {sample}" and finished(row)


def test_every_sample_is_asked_with_its_seed_and_written_down(tmp_path: Path) -> None:
    with BadEndpoint(delay_s=0.05) as server:
        plan, prompts = asked(["a", "b", "c"], server.url, samples=4)
        found = generate(plan, prompts, tmp_path, endpoint(server.url, concurrency=3))
        assert (found.answered, found.failed, found.requests) == (12, 0, 12)
        assert server.requests == dict.fromkeys(plan.keys, 1)
        assert server.most == 3
        again = generate(plan, prompts, tmp_path, endpoint(server.url))
        assert (again.answered, again.requests) == (12, 0) and server.requests.total() == 12
    assert_whole(tmp_path, plan)
    body = server.bodies[0]
    assert body.pop("seed") in range(4)
    assert body == {"model": "org/m", "messages": prompts["a"], "temperature": 0.6, "top_p": 0.9, "max_tokens": 64}
    row = rows_of(tmp_path)[0]
    assert {
        "status": "ok",
        "error": "",
        "attempts": 1,
        "finish": "stop",
        "usage": {"input": 7, "output": 3},
    }.items() <= row.items()
    assert row["seconds"] > 0


def test_what_may_pass_is_asked_again(tmp_path: Path) -> None:
    with BadEndpoint({(what, 1): [what, what] for what in RETRIED}) as server:
        plan, prompts = asked(RETRIED, server.url)
        found = generate(plan, prompts, tmp_path, endpoint(server.url))
    assert (found.answered, found.failed, found.requests) == (2 * len(RETRIED), 0, 4 * len(RETRIED))
    assert server.requests == {(what, sample): 3 if sample else 1 for what in RETRIED for sample in range(2)}
    assert {key: row["attempts"] for key, row in latest(rows_of(tmp_path)).items()} == server.requests
    assert_whole(tmp_path, plan)


@pytest.mark.parametrize(("what", "timeout_s"), [(RETRIED, 20.0), (("silent", "drip"), 0.3)])
def test_samples_that_fail_are_marked_and_asked_by_the_next_run(
    what: tuple[str, ...], timeout_s: float, tmp_path: Path
) -> None:
    with BadEndpoint({(name, 1): [name] * 2 for name in what}) as server:
        plan, prompts = asked(what, server.url)
        source = endpoint(server.url, attempts=2, timeout_s=timeout_s)
        first = generate(plan, prompts, tmp_path, source)
        assert (first.answered, first.failed, first.requests) == (len(what), len(what), 3 * len(what))
        marked = {key: row for key, row in latest(rows_of(tmp_path)).items() if not finished(row)}
        assert first.errors == {key: row["error"] for key, row in marked.items()} and all(first.errors.values())
        assert set(marked) == {(name, 1) for name in what}
        for row in marked.values():
            assert (row["status"], row["text"], row["attempts"], row["usage"]) == ("error", "", 2, None)
            assert timeout_s > 1 or row["error"] == "no answer within 0.3 s"
        second = generate(plan, prompts, tmp_path, replace(source, timeout_s=20.0))
        assert (second.answered, second.failed, second.requests) == (2 * len(what), 0, len(what))
    assert_whole(tmp_path, plan)


@pytest.mark.parametrize(
    ("what", "said"), [("400", "status 400: told to"), ("too-long", "refused by the endpoint: prompt too long")]
)
def test_what_will_not_pass_is_asked_once_and_the_rest_goes_on(what: str, said: str, tmp_path: Path) -> None:
    with BadEndpoint({"a": [what] * 9}) as server:
        plan, prompts = asked(["a", "b"], server.url)
        found = generate(plan, prompts, tmp_path, endpoint(server.url))
    assert (found.answered, found.failed, found.requests) == (2, 2, 4)
    assert all(said in error for error in found.errors.values())


@pytest.mark.parametrize("what", ["401", "403", "404"])
def test_an_endpoint_that_turns_us_away_stops_the_run(what: str, tmp_path: Path) -> None:
    names = [f"i{k}" for k in range(15)]
    with BadEndpoint({name: [what] for name in names[3:]}, delay_s=0.01) as server:
        plan, prompts = asked(names, server.url)
        with pytest.raises(EvaluationError, match=rf"turns requests away: status {what}: told") as caught:
            generate(plan, prompts, tmp_path, endpoint(server.url))
        assert "\n" not in str(caught.value)
        assert server.requests.total() <= 6 + 2 * 4
        server.misdeeds = {}
        assert generate(plan, prompts, tmp_path, endpoint(server.url)).answered == 30
    assert_whole(tmp_path, plan)


@pytest.mark.parametrize("what", ["length", "empty", "null"])
def test_an_answer_that_is_cut_or_empty_is_an_answer(what: str, tmp_path: Path) -> None:
    with BadEndpoint({"a": [what]}) as server:
        plan, prompts = asked(["a"], server.url, samples=1)
        assert generate(plan, prompts, tmp_path, endpoint(server.url)).requests == 1
    (row,) = rows_of(tmp_path)
    assert (row["status"], row["text"]) == ("ok", "cut of" if what == "length" else "")
    assert row["finish"] == ("length" if what == "length" else "stop")


def test_retry_after_is_waited_for_up_to_a_limit(tmp_path: Path) -> None:
    with BadEndpoint({"a": ["429"], "b": ["503"] * 9}, headers={"Retry-After": "0.4"}) as server:
        plan, prompts = asked(["a", "b"], server.url, samples=1)
        found = generate(plan, prompts, tmp_path, endpoint(server.url, attempts=2))
        assert found.requests == 4
        for times in server.times.values():
            assert times[1] - times[0] >= 0.4
        server.headers, server.misdeeds = {"Retry-After": "86400"}, {"b": ["503"] * 9}
        found = generate(plan, prompts, tmp_path, endpoint(server.url))
    assert found.requests == 1
    assert found.errors["b", 0].endswith("the endpoint asks to wait 86400 s")


def test_retry_after_as_a_number_or_a_date() -> None:
    now = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    date = format_datetime(now + timedelta(seconds=90), usegmt=True)
    cases = {"7": 7.0, "0.5": 0.5, date: 90.0, "-3": 0.0, "": None, "soon": None, "inf": None, "nan": None}
    assert {value: retry_after(value, now.timestamp()) for value in cases} == cases
    assert retry_after(date, now.timestamp() + 1000) == 0.0


def test_pauses_double_up_to_their_limit_and_differ() -> None:
    patient = endpoint("http://x/v1", backoff_s=1.0, longest_wait_s=60.0)
    for attempt in range(1, 2000):
        own = min(2.0 ** min(attempt - 1, 10), 60.0)
        assert own / 2 <= pause_s(patient, attempt) <= own
        assert 100 <= pause_s(patient, attempt, 100.0) <= 100 + own / 2
    assert len({pause_s(patient, 3) for _ in range(20)}) > 10


def test_it_works_where_an_event_loop_runs(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    async def notebook() -> int:
        return generate(plan, prompts, tmp_path, endpoint(server.url)).answered

    with BadEndpoint() as server:
        plan, prompts = asked(["a"], server.url)
        assert asyncio.run(notebook()) == 2
    assert capfd.readouterr().out == ""


def test_the_key_is_sent_and_written_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", f" {SECRET}\n")
    with BadEndpoint({"a": ["500", "400"], "b": ["401"]}) as server:  # which repeat the key
        plan, prompts = asked(["a", "b"], server.url, samples=1)
        with pytest.raises(EvaluationError, match="turns requests away") as caught:
            generate(plan, prompts, tmp_path, endpoint(server.url, concurrency=1, api_key_variable="SOME_KEY"))
    assert set(server.keys) == {f"Bearer {SECRET}"}
    assert SECRET not in str(caught.value) and "[key]" in str(caught.value)
    for path in tmp_path.iterdir():
        assert SECRET not in path.read_text()
    assert len(rows_of(tmp_path)) == 2
    monkeypatch.delenv("SOME_KEY")
    with pytest.raises(EndpointError, match=r"\$SOME_KEY is not set"):
        generate(plan, prompts, tmp_path, endpoint(server.url, api_key_variable="SOME_KEY"))


def test_another_plan_or_prompt_or_source_is_refused(tmp_path: Path) -> None:
    plan, prompts = asked(["a"], "http://127.0.0.1:9/v1")
    other = {"a": [{"role": "user", "content": "Solve b"}]}
    for given in (
        (plan, other, endpoint("http://127.0.0.1:9/v1")),
        (plan, {}, endpoint("http://127.0.0.1:9/v1")),
        (plan, {"a": [{"role": "tool", "content": "x"}]}, endpoint("http://127.0.0.1:9/v1")),
        (plan, prompts, endpoint("http://127.0.0.1:8/v1")),
        (plan, prompts, endpoint("http://127.0.0.1:9/v1", model="n")),
        (plan, prompts, Recorded({}, "0")),
    ):
        with pytest.raises(EvaluationError):
            generate(given[0], given[1], tmp_path, given[2])
    assert list(tmp_path.iterdir()) == []


def test_a_server_of_our_own_may_have_another_address_in_each_run(tmp_path: Path) -> None:
    plan, prompts = asked(["a"], "checkpoint", samples=1)
    with BadEndpoint({"a": ["400"]}) as server:
        assert generate(plan, prompts, tmp_path, endpoint(server.url)).failed == 1
    with BadEndpoint() as server:
        assert generate(plan, prompts, tmp_path, endpoint(server.url)).answered == 1
        with pytest.raises(EvaluationError, match="answers come from n at checkpoint"):
            generate(plan, prompts, tmp_path, endpoint(server.url, model="n"))


def test_an_endpoint_that_is_not_there_marks_its_samples(tmp_path: Path) -> None:
    with BadEndpoint() as server:
        url = server.url
    plan, prompts = asked(["a"], url, samples=1)
    found = generate(plan, prompts, tmp_path, endpoint(url, attempts=2))
    assert found.failed == 1 and "Connection error" in found.errors["a", 0]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"base_url": "ftp://h/v1"}, "base_url = 'ftp://h/v1'"),
        ({"base_url": "h:80/v1"}, "base_url"),
        ({"base_url": "http://h:x/v1"}, "base_url"),
        ({"base_url": "http://h/v 1"}, "base_url"),
        ({"base_url": ""}, "base_url = ''"),
        ({"base_url": "http://me:hidden@h/v1"}, "base_url of h holds a user"),
        ({"base_url": "http://h/v1?key=hidden"}, "base_url of h holds a user, a query"),
        ({"model": " "}, "model = ' '"),
        ({"concurrency": 0}, "concurrency = 0"),
        ({"attempts": 1.5}, "attempts = 1.5"),
        ({"timeout_s": 0}, "timeout_s = 0"),
        ({"backoff_s": float("inf")}, "backoff_s = inf"),
    ],
)
def test_what_an_endpoint_does_not_accept(changed: dict[str, object], said: str) -> None:
    with pytest.raises(EndpointError) as caught:
        Endpoint(**{"base_url": "http://h/v1", "model": "m", **changed})  # type: ignore[arg-type]
    assert said in str(caught.value) and "hidden" not in str(caught.value)


def test_recorded_answers_are_taken_and_missing_ones_marked(tmp_path: Path) -> None:
    path, folder = tmp_path / "recorded.jsonl", tmp_path / "run"
    kept = {("a", 0): "answer to a, sample 0", ("b", 1): "answer to b, sample 1", ("z", 0): "of another run"}
    path.write_text("".join(json.dumps({"item": i, "sample": k, "text": t}) + "\n" for (i, k), t in kept.items()))
    source = Recorded.read(path)
    plan, prompts = asked(["a", "b"], "", recorded_sha256=source.sha256)
    for _ in range(2):
        found = generate(plan, prompts, folder, source)
        assert (found.answered, found.requests) == (2, 0)
        assert found.errors == {("a", 1): "no recorded answer", ("b", 0): "no recorded answer"}
        assert len(rows_of(folder)) == 4
    assert {key: row["text"] for key, row in latest(rows_of(folder)).items() if finished(row)} == {
        key: text for key, text in kept.items() if key[0] != "z"
    }


@pytest.mark.parametrize(
    "line", ["{", "[]", '{"item": "a"}', '{"item": "a", "sample": 0}', '{"item": "a", "sample": 1, "text": "twice"}']
)
def test_a_bad_recorded_answer_is_named(line: str, tmp_path: Path) -> None:
    path = tmp_path / "recorded.jsonl"
    path.write_text('{"item": "a", "sample": 1, "text": ""}\n\n' + line)
    with pytest.raises(EvaluationError, match=r"recorded\.jsonl, line 3: "):
        Recorded.read(path)
    with pytest.raises(EvaluationError, match="cannot be read"):
        Recorded.read(tmp_path / "none.jsonl")


DRIVER = """
import json, os, signal, sys
from pathlib import Path
import openai, inspect_ai.model._providers.openai_compatible  # once, for all children
from trex.data.endpoint import Endpoint
from trex.eval.generate import generate
from trex.eval.plan import Plan
for line in sys.stdin:
    folder, url, prompts = json.loads(line)
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # which is ignored where tests run in the background
        try:
            source = Endpoint(url, "org/m", concurrency=4, backoff_s=0.01)
            generate(Plan.read(Path(folder)), prompts, Path(folder), source)
            os._exit(0)
        except KeyboardInterrupt:
            os._exit(130)
        finally:
            os._exit(1)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Runs:
    """Runs of `generate` in processes of their own, at home in an empty folder; made by `runs`."""

    def __init__(self, home: Path) -> None:
        self.home = home
        environment = {**os.environ, "HOME": str(home), "TMPDIR": str(home)}
        self.driver = subprocess.Popen(
            [sys.executable, "-c", DRIVER], cwd=home, env=environment, stdin=-1, stdout=-1, text=True
        )  # fmt: skip

    def stopped_by(self, how: signal.Signals, folder: Path, plan: Plan, server: object, requests: float) -> int:
        """Start a run and send the signal once the server has seen so many requests; the run's exit code."""
        start(folder, plan)
        prompts = asked(plan.items, "")[1]
        assert self.driver.stdin is not None and self.driver.stdout is not None
        self.driver.stdin.write(json.dumps([str(folder), server.url, prompts]) + "\n")  # type: ignore[attr-defined]
        self.driver.stdin.flush()
        child = int(self.driver.stdout.readline())
        ended = selectors.DefaultSelector()
        ended.register(self.driver.stdout, selectors.EVENT_READ)
        while server.requests.total() < requests and not ended.select(0.001):  # type: ignore[attr-defined]
            pass
        time.sleep(random.uniform(0, 0.01))
        with suppress(ProcessLookupError):
            os.kill(child, how)
        return int(self.driver.stdout.readline())


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    made = Runs(tmp_path_factory.mktemp("home"))
    yield made
    made.driver.kill()
    made.driver.communicate()


def test_an_interrupted_run_goes_on(tmp_path: Path, runs: Runs) -> None:
    with BadEndpoint(delay_s=0.02) as server:
        plan, prompts = asked([f"i{k}" for k in range(20)], server.url)
        assert runs.stopped_by(signal.SIGINT, tmp_path, plan, server, 15) == 130
        assert 0 < len(rows_of(tmp_path)) < 40
        assert generate(plan, prompts, tmp_path, endpoint(server.url)).answered == 40
    assert_whole(tmp_path, plan)
    assert server.requests.total() <= 40 + 4
    assert list(runs.home.iterdir()) == []


def killed_at(moments: Sequence[float], folder: Path, runs: Runs) -> None:
    """Kill a run at moments, as fractions of its requests; then let it end, and compare."""
    misdeeds = {("i1", 0): ["429"], ("i2", 1): ["half", "500"], "i3": ["malformed"], ("i4", 0): ["reset"]}
    with BadEndpoint(misdeeds, delay_s=0.01) as server:
        plan, prompts = asked([f"i{k}" for k in range(20)], server.url)
        for moment in sorted(moments):
            assert runs.stopped_by(signal.SIGKILL, folder, plan, server, moment * 40) in (-signal.SIGKILL, 0)
        found = generate(plan, prompts, folder, endpoint(server.url, attempts=4))
    assert (found.answered, found.failed) == (40, 0)
    assert_whole(folder, plan)
    assert set(server.requests) == set(plan.keys)
    assert server.requests.total() <= 40 + 6 + 4 * len(moments)  # what went wrong, and what was open at each kill
    assert sorted(path.name for path in folder.iterdir()) == ["answers.jsonl", "plan.json"]
    assert list(runs.home.iterdir()) == []


def test_killed_at_three_random_moments_it_ends_in_the_same_table(tmp_path: Path, runs: Runs) -> None:
    killed_at([random.uniform(0, 0.95) for _ in range(3)], tmp_path, runs)


@pytest.mark.slow
def test_killed_at_twenty_random_moments_it_ends_in_the_same_table(tmp_path: Path, runs: Runs) -> None:
    killed_at([random.uniform(0, 0.95) for _ in range(20)], tmp_path, runs)
