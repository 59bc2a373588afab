"""Endpoints that are slow, wrong, limiting, lying and killed: each chat is answered once, and the budget holds."""

import asyncio
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("inspect_ai")

from trex.data.endpoint import AskError, Endpoint, EndpointError, Settings
from trex.data.flywheel.asking import MESSAGE_TOKENS, REQUEST_TOKENS, Answer, Asking, asking, extract_json
from trex.data.flywheel.ledger import Budget, BudgetSpent, Priced
from trex.data.problem import DataError

SPEC = importlib.util.spec_from_file_location(
    "bad_endpoint", Path(__file__).parents[2] / "eval" / "bad_endpoint.py"
)  # fmt: skip
assert SPEC is not None and SPEC.loader is not None
bad_endpoint = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(bad_endpoint)
BadEndpoint = bad_endpoint.BadEndpoint
LONGEST = Settings(0.6, None, 64)
NONE = Budget()
ANSWERED = 10  # tokens that the server counts for an answer


def priced(url: str, input_price: float = 0.0, output_price: float = 0.0, **changed: Any) -> Priced:
    """A quick one."""
    given = {"model": "org/m", "concurrency": 8, "timeout_s": 20.0, "attempts": 3, "backoff_s": 0.01, **changed}
    return Priced(Endpoint(url, **given), input_price, output_price)


def chat(name: str) -> list[dict[str, str]]:
    return [{"role": "system", "content": "Be brief."}, {"role": "user", "content": f"Solve {name}"}]


def most(name: str) -> int:
    """Tokens that a request reserves at most."""
    prompt = sum(len(message["content"]) for message in chat(name))
    return prompt + 2 * MESSAGE_TOKENS + REQUEST_TOKENS + 64


def asked(
    folder: Path, endpoints: Sequence[Priced], names: Sequence[str], budget: Budget = NONE, given: Settings = LONGEST,
    preferred: Callable[[int], int] = lambda k: k,
) -> tuple[list[Answer | Exception], dict[str, dict[str, float]]]:  # fmt: skip
    """What becomes of each chat, all asked at once, and the spending."""

    async def work() -> tuple[list[Answer | Exception], dict[str, dict[str, float]]]:
        async with asking(endpoints, given, budget, folder) as many:
            tasks = [many.ask(chat(name), 0, preferred(k)) for k, name in enumerate(names)]
            found: Any = await asyncio.gather(*tasks, return_exceptions=True)
            return found, many.spending()

    return asyncio.run(work())


def texts(found: Sequence[Answer | Exception]) -> list[str]:
    for one in found:
        assert isinstance(one, Answer), one
    return [one.text for one in found if isinstance(one, Answer)]


def test_two_hundred_chats_over_two_bad_endpoints_are_each_answered_once(tmp_path: Path) -> None:
    names = [f"i{k}" for k in range(200)]
    kinds = ["429", "500", "503", "malformed", "html", "text", "no-choices", "empty-choices", "half", "reset"]
    first = {f"i{k}": [kinds[k // 2 % 10]] for k in range(0, 60, 2)} | {"i100": ["500"] * 3, "i102": ["400"]}
    second = {f"i{k}": [kind] for k, kind in ((61, "too-much"), (63, "negative"), (65, "no-usage"), (67, "length"))}
    with BadEndpoint(first, {"Retry-After": "0.05"}, 0.005) as a, BadEndpoint(second, delay_s=0.01) as b:
        both = [priced(a.url, 1.0, 2.0), priced(b.url, model="org/n")]
        found, spending = asked(tmp_path, both, names)
        assert texts(found) == ["cut of" if n == "i67" else f"answer to {n}, sample 0" for n in names]
        one = dict(zip(names, found, strict=True))
        assert isinstance(one["i67"], Answer) and one["i67"].finish == "length"
        assert {n for n, x in one.items() if isinstance(x, Answer) and x.model == "org/n"} == {
            *names[1::2], "i100", "i102"
        }  # fmt: skip
        assert (a.answered.total(), b.answered.total()) == (98, 102) and 4 <= a.most <= 8 and 4 <= b.most <= 8
        requests = a.requests + b.requests
        again, later = asked(tmp_path, both, names)
        assert texts(again) == texts(found) and all(isinstance(x, Answer) and x.cached for x in again)
        assert a.requests + b.requests == requests  # not even those that another endpoint answered
    at = [f"org/m at {a.url}", f"org/n at {b.url}"]
    assert [spending[name]["requests"] for name in at] == [a.requests.total(), b.requests.total()]
    paid = [k for k, kind in first.items() for what in kind if what not in ("429", "400")]  # which may have cost money
    assert spending[at[0]]["charged"] == len(paid) and spending[at[1]]["charged"] == 3
    assert spending[at[0]]["output"] == 3 * 98 + 64 * len(paid)
    assert [later[name]["cached"] for name in at] == [98, 102]
    exact = (spending[at[0]]["input"] * 1.0 + spending[at[0]]["output"] * 2.0) / 1e6
    assert spending[at[0]]["money"] == pytest.approx(exact, rel=1e-12) and spending[at[1]]["money"] == 0


def test_the_budget_is_kept_over_runs_and_used_up(tmp_path: Path) -> None:
    names = [f"i{k:03}" for k in range(60)]
    budget = Budget(tokens=10 * ANSWERED + most("i000") + 5)
    with BadEndpoint(delay_s=0.005) as server:
        for run in range(3):
            found, _ = asked(tmp_path, [priced(server.url)], names, budget)
            got = [one for one in found if isinstance(one, Answer)]
            assert {type(one) for one in found} == {Answer, BudgetSpent}
            # settled requests leave room for the next, until less than one reservation is left
            assert len(got) == server.answered.total() == 11, run
        found, _ = asked(tmp_path, [priced(server.url)], names, Budget(tokens=10**6))
        assert len(texts(found)) == 60 and server.answered.total() == 60 == server.requests.total()


@pytest.mark.parametrize("budget", [Budget(requests=7), Budget(money=7 * 0.01 + 0.4)])
def test_requests_and_money_are_limited_too(budget: Budget, tmp_path: Path) -> None:
    with BadEndpoint() as server:
        found, spending = asked(tmp_path, [priced(server.url, 1000.0, 1000.0)], [f"i{k}" for k in range(30)], budget)
    (spent,) = spending.values()
    assert sum(isinstance(one, Answer) for one in found) == server.requests.total() > 5
    assert server.requests.total() == spent["requests"] <= (budget.requests or 99)
    assert spent["money"] == pytest.approx(10 * server.requests.total() / 1000)
    assert budget.money is None or spent["money"] <= budget.money


def test_requests_that_may_have_cost_something_are_charged_until_nothing_is_left(tmp_path: Path) -> None:
    with BadEndpoint({f"i{k}": ["half"] * 99 for k in range(9)}) as server:
        found, _ = asked(tmp_path, [priced(server.url)], [f"i{k}" for k in range(9)], Budget(tokens=5 * most("i0")))
    assert server.requests.total() == 5 and any(isinstance(one, BudgetSpent) for one in found)


def test_refusals_and_servers_that_are_not_there_cost_nothing(tmp_path: Path) -> None:
    with BadEndpoint() as server:
        gone = server.url
    told = {"a": ["429"] * 2, "b": ["400"], "c": ["too-long"]}
    budget = Budget(tokens=most("a") + ANSWERED)
    with BadEndpoint(told) as server:
        both = [priced(server.url), priced(gone, model="gone")]
        found, spending = asked(tmp_path, both, ["a", "b", "c"], budget, preferred=lambda _: 0)
    assert isinstance(found[0], Answer)
    assert [type(one) for one in found[1:]] == [AskError, AskError]
    assert "status 400" in str(found[1]) and "gone at" in str(found[1]) and "Connection error" in str(found[1])
    assert sum(row["input"] + row["output"] for row in spending.values()) == ANSWERED
    assert sum(row["charged"] for row in spending.values()) == 0


def test_tokens_that_the_server_had_cached_are_counted(tmp_path: Path) -> None:
    with BadEndpoint({"a": ["cached"]}) as server:
        (answer,), spending = asked(tmp_path, [priced(server.url)], ["a"])
    assert isinstance(answer, Answer) and (answer.input_tokens, answer.output_tokens) == (7, 3)
    assert next(iter(spending.values()))["input"] == 7


def test_who_asks_the_same_at_once_shares_one_request_and_its_failure(tmp_path: Path) -> None:
    with BadEndpoint({"b": ["400"] * 9}, delay_s=0.05) as server:
        found, _ = asked(tmp_path, [priced(server.url)], ["a"] * 20 + ["b"] * 5)
    assert server.requests == {("a", 0): 1, ("b", 0): 1}
    assert texts(found[:20]) == ["answer to a, sample 0"] * 20
    assert sum(not one.cached for one in found[:20] if isinstance(one, Answer)) == 1
    assert all(isinstance(one, AskError) and "status 400" in str(one) for one in found[20:])


def test_an_answer_is_of_one_request_to_the_last_setting(tmp_path: Path) -> None:
    with BadEndpoint() as server, BadEndpoint() as other:
        for _ in range(2):
            for given in (LONGEST, Settings(0.7, None, 64), Settings(0.6, 0.9, 64), Settings(0.6, None, 65)):
                asked(tmp_path, [priced(server.url)], ["a"], given=given)
            asked(tmp_path, [priced(server.url, model="org/n")], ["a"])
            asked(tmp_path, [priced(server.url)], ["b"])
            asked(tmp_path, [priced(other.url)], ["a"])
            asked(tmp_path, [priced(server.url), priced(other.url)], ["a"], preferred=lambda _: 7)
            asked(tmp_path, [priced(server.url)], ["a"], given=Settings(0.6, None, 64, 1))
    assert server.requests == {("a", 0): 5, ("a", 1): 1, ("b", 0): 1} and other.requests == {("a", 0): 1}


def test_an_address_that_is_another_in_each_run_may_have_a_word(tmp_path: Path) -> None:
    for run in range(2):
        with BadEndpoint() as server:
            one = Priced(Endpoint(server.url, "org/m"), address="checkpoint")
            (answer,), spending = asked(tmp_path, [one], ["a"])
            assert isinstance(answer, Answer) and answer.cached == bool(run)
    assert set(spending) == {"org/m at checkpoint"}


def test_an_endpoint_that_turns_us_away_is_left_out_with_one_warning(tmp_path: Path) -> None:
    names = [f"i{k}" for k in range(40)]
    with BadEndpoint({name: ["401"] * 9 for name in names}, delay_s=0.01) as bad, BadEndpoint() as good:
        with pytest.warns(UserWarning, match="turns requests away: status 401") as caught:
            found, _ = asked(tmp_path, [priced(bad.url), priced(good.url)], names)
        assert len(texts(found)) == 40 and good.answered.total() == 40 and bad.requests.total() <= 8
        assert len(caught) == 1
    with BadEndpoint({name: ["404"] * 9 for name in names}) as bad, BadEndpoint({"i1": ["403"]}) as worse:
        with pytest.warns(UserWarning):
            found, _ = asked(
                tmp_path / "b", [priced(bad.url), priced(worse.url, model="org/n", concurrency=1)], ["i1", "i2"],
                preferred=lambda _: 0,
            )  # fmt: skip
        assert isinstance(found[0], EndpointError) and bad.url in str(found[0]) and worse.url in str(found[0])


def test_a_slow_endpoint_is_given_up_and_the_next_one_answers(tmp_path: Path) -> None:
    with BadEndpoint({"a": ["silent"] * 2}) as slow, BadEndpoint({"b": ["503"]}, {"Retry-After": "86400"}) as busy:
        both = [priced(slow.url, timeout_s=0.2, attempts=2), priced(busy.url, model="org/n")]
        found, spending = asked(tmp_path, both, ["a", "b"])
    assert texts(found) == ["answer to a, sample 0", "answer to b, sample 0"]
    assert slow.requests == {("a", 0): 2, ("b", 0): 1} and busy.requests == {("a", 0): 1, ("b", 0): 1}
    assert spending[f"org/m at {slow.url}"]["charged"] == 2


def test_an_ask_that_is_cancelled_is_charged_and_who_waits_for_it_asks_anew(tmp_path: Path) -> None:
    async def work() -> Asking:
        async with asking([priced(server.url)], LONGEST, NONE, tmp_path) as many:
            first, second = (asyncio.create_task(many.ask(chat("a"), 0, 0)) for _ in range(2))
            while not server.requests:
                await asyncio.sleep(0.01)
            first.cancel()
            assert (await second).text == "answer to a, sample 0"
            return many

    with BadEndpoint(delay_s=0.1) as server:
        (spent,) = asyncio.run(work()).spending().values()
    assert (spent["requests"], spent["charged"]) == (2, 1)


def test_what_is_not_accepted_writes_nothing(tmp_path: Path) -> None:
    one, folder = priced("http://127.0.0.1:9/v1"), tmp_path / "new"
    for endpoints, given, budget, said in (
        ([], LONGEST, NONE, "endpoints: none"),
        ([one, one], LONGEST, NONE, "each of them once"),
        ([one], Settings(), Budget(tokens=5), "max_tokens = None"),
        ([one], Settings(), Budget(money=5.0), "max_tokens = None"),
        ([priced("http://h/v1", api_key_variable="NOT_THERE")], LONGEST, NONE, r"\$NOT_THERE is not set"),
    ):
        with pytest.raises(EndpointError, match=said):
            asked(folder, endpoints, ["a"], budget, given)
    assert not folder.exists()
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match="is a file"):
        asked(tmp_path / "file", [one], ["a"])

    async def wrong(messages: Any, seed: Any, preferred: Any) -> None:
        async with asking([one], LONGEST, NONE, folder) as many:
            with pytest.raises(DataError, match="is in use by another run"):
                await asking([one], LONGEST, NONE, folder).__aenter__()
            await many.ask(messages, seed, preferred)

    for bad in (([], 0, 0), ([{"role": "tool", "content": ""}], 0, 0), (chat("a"), -1, 0), (chat("a"), 0, True)):
        with pytest.raises(EndpointError, match="accepted"):
            asyncio.run(wrong(*bad))
    assert (folder / "ledger.jsonl").read_bytes() == b""


@pytest.mark.parametrize("line", ["{", "[]", '{"key": "k"}', '{"key": "k", "instead_of": "j"}', '{"key": [], "a": 1}'])
def test_a_damaged_answer_is_named_and_half_a_line_cut(line: str, tmp_path: Path) -> None:
    with BadEndpoint() as server:
        asked(tmp_path, [priced(server.url)], ["a"])
        path = tmp_path / "answers.jsonl"
        whole = path.read_text()
        path.write_text(whole + line)
        assert texts(asked(tmp_path, [priced(server.url)], ["a"])[0]) and path.read_text() == whole
        path.write_text(whole + line + "\n")
        with pytest.raises(DataError, match=r"answers\.jsonl, line 2: "):
            asked(tmp_path, [priced(server.url)], ["a"])


DRIVER = """
import asyncio, json, sys
from pathlib import Path
from trex.data.endpoint import Endpoint, Settings
from trex.data.flywheel.asking import asking
from trex.data.flywheel.ledger import Budget, Priced
folder, urls, chats, tokens = json.loads(sys.stdin.read())
ends = [Priced(Endpoint(url, "org/m", concurrency=8, backoff_s=0.01, attempts=3)) for url in urls]
async def work():
    async with asking(ends, Settings(0.6, None, 64), Budget(tokens=tokens), Path(folder)) as many:
        await asyncio.gather(*[many.ask(c, 0, k) for k, c in enumerate(chats)], return_exceptions=True)
asyncio.run(work())
"""


def killed_and_ended(folder: Path, kills: int) -> None:
    """Kill a run some times; what it kept is never asked again, and all that was answered is within the budget."""
    names = [f"i{k:03}" for k in range(120)]
    misdeeds = {f"i{k:03}": ["500"] for k in range(0, 40, 7)}
    tokens = 100 * ANSWERED + (6 + 16 * kills) * most("i000")
    with BadEndpoint(misdeeds, delay_s=0.02) as a, BadEndpoint(delay_s=0.03) as b:
        kept: Counter[str] = Counter()
        for _ in range(kills):
            seen = a.requests.total() + b.requests.total()
            run = subprocess.Popen([sys.executable, "-c", DRIVER], stdin=subprocess.PIPE, cwd=folder)
            given = [str(folder), [a.url, b.url], [chat(name) for name in names], tokens]
            assert run.stdin is not None
            run.stdin.write(json.dumps(given).encode())
            run.stdin.close()
            while a.requests.total() + b.requests.total() < seen + 120 // (kills + 1) and run.poll() is None:
                time.sleep(0.002)
            os.kill(run.pid, signal.SIGKILL)
            assert run.wait() == -signal.SIGKILL
            time.sleep(0.2)  # requests in flight are answered into the void
            sent = a.requests + b.requests
            assert all(sent[name, 0] == count for name, count in kept.items())
            path = folder / "answers.jsonl"
            answered = [json.loads(line)["text"] for line in path.read_bytes().splitlines(True) if line[-1:] == b"\n"]
            assert len(set(answered)) == len(answered) > len(kept)
            kept = Counter({(name := text.split()[2].strip(",")): sent[name, 0] for text in answered})
        found, spending = asked(folder, [priced(a.url), priced(b.url)], names, Budget(tokens=tokens))
        sent = a.requests + b.requests
        assert all(sent[name, 0] == count for name, count in kept.items())
    got = [one for one in found if isinstance(one, Answer)]
    assert all(isinstance(one, Answer | BudgetSpent) for one in found) and len(got) >= 95
    assert sum(row["input"] + row["output"] for row in spending.values()) <= tokens
    assert ANSWERED * (a.answered.total() + b.answered.total()) <= tokens
    assert sent.total() <= 120 + len(misdeeds) + 16 * kills  # only what was in flight at a kill is asked twice
    assert sum(row["requests"] for row in spending.values()) >= sent.total()


def test_a_killed_run_goes_on_within_the_budget(tmp_path: Path) -> None:
    killed_and_ended(tmp_path, 1)


@pytest.mark.slow
def test_a_run_killed_many_times_goes_on_within_the_budget(tmp_path: Path) -> None:
    killed_and_ended(tmp_path, 5)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"a": 1}', {"a": 1}),
        ('Sure:\n```json\n{"a": {"b": [1, {}]}}\n```\nDone {so}.', {"a": {"b": [1, {}]}}),
        ('<think>{"a": 0} or {"a": </think>{"a": 1}', {"a": 1}),
        ('maybe {"a": 0}</think>\n{"a": 1}', {"a": 1}),
        ('{"a": "<think>so</think>"}', {"a": "<think>so</think>"}),
        ('{"a": 1} then {"a": 2} then {"b": 3}', {"a": 2}),
        ('the set {x | x > 0} and {"a": "}{\\"", "b": "\\u00e9"}', {"a": '}{"', "b": "é"}),
        ('a stray {"quote and {"a": 1}', {"a": 1}),
        ("{'a': 0} {\"a\": 1} {a}", {"a": 1}),
        ('{"a": 0,} {"a": [1.5e3, -0, true, null, "x"]}', {"a": [1500.0, 0, True, None, "x"]}),
        ('{"a": NaN} {"a": 01} {"a": "x\ny"} { "a" : 1 }', {"a": 1}),
        ('{"a": 1} {"a": ' + "9" * 5000 + "}", {"a": 1}),
    ],
)
def test_the_object_is_found(text: str, found: dict[str, Any]) -> None:
    assert extract_json(text, ("a",)) == found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no JSON object"),
        ("I cannot {help}.", "holds no JSON object"),
        ("[1, 2]", "begins as another JSON value"),
        ('```json\n"text"\n```', "begins as another JSON value"),
        ('{"b": 1} {"c": 1}', "lacks 'a'"),
        ('{"a": {"a": 1}, "b', "truncated"),
        ('{"a": 1, "b": tru', "truncated"),
        ('{"a": "\\u00', "truncated"),
        ('{"b": {"a": 1}}', "lacks 'a'"),
        ('<think>{"a": 1}', "ends within its thought"),
        ('<think>{"a": 1}</think> no', "holds no JSON object"),
        ('{"a": ' * 5000, "nested in more than 100 levels"),
        ('{"a": ' + "[" * 5000 + "]" * 5000 + "}", "nested in more than 100 levels"),
    ],
)
def test_what_is_wrong_with_an_answer_is_said(text: str, said: str) -> None:
    with pytest.raises(DataError, match=said):
        extract_json(text, ("a",))


def steps(text: str) -> int:
    """How many objects and tokens a text takes: calls of functions, builtin ones included."""
    count = 0

    def called(_: object, event: str, __: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        extract_json(text, ("a",))
    except DataError:
        pass
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize(
    "piece", ["{", '{"', '{"a":', '{"a":{"b":x', '{"a {', '{"\\"', '{ "x" : [', "{}", '{"a":1,', '"{', "{e", '{"{"\n']
)
def test_hostile_text_takes_time_in_proportion(piece: str) -> None:
    assert steps(piece * 8000) <= 4.5 * steps(piece * 2000)  # quadratic time would be sixteen times
    with pytest.raises(DataError) if piece != "{}" else pytest.raises(DataError, match="lacks"):
        extract_json(piece * 100_000, ("a",))


@pytest.mark.parametrize("values", [10, 2000])
def test_an_object_with_anything_in_it_comes_back(values: int) -> None:
    inner = {f"k{k}": ["}{", '"', "\\", {"n": [k / 7, -k, None, True]}, "é\n\ud800"] for k in range(values)}
    for dumped in (json.dumps(inner), json.dumps(inner, indent=2), json.dumps(inner, ensure_ascii=False)):
        assert extract_json(f"so {{ {dumped} }} that") == inner
