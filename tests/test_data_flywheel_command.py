"""`trex data flywheel` as a user meets it: one line for what is not accepted, plans that ask nothing, seeds kept."""

import fcntl
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("inspect_ai")

from trex import cli
from trex.data.flywheel import prompts
from trex.data.flywheel.asked_seeds import SEEDS
from trex.data.flywheel.recombine import recombine, representation
from trex.data.flywheel.representation import Origin
from trex.data.flywheel.run import CANDIDATES, PLAN

SPEC = importlib.util.spec_from_file_location("bad_endpoint", Path(__file__).parent / "eval" / "bad_endpoint.py")
assert SPEC is not None and SPEC.loader is not None
bad_endpoint = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(bad_endpoint)
SHOWN = representation(recombine(Origin("knapsack", 1, 1)))
GONE = "http://127.0.0.1:9/v1"
SMALL = ("--count", "1", "--rounds", "1", "--most-rounds", "1", "--processes", "1", "--difficulty", "1")


class Seeder(bad_endpoint.BadEndpoint):  # type: ignore[name-defined, misc]
    """Answers every request with one representation; misdeeds by the number in a row's problem, 0 beyond seeds."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(text=lambda _: SHOWN.line, **kwargs)

    def next(self, body: dict[str, Any]) -> tuple[Any, str]:
        asks = body["messages"][0]["content"].startswith(prompts.SEED[:60])  # later ones show the problem too
        text = body["messages"][1]["content"] if asks else ""
        item = next((str(k) for k in range(1, 10) if f"Problem number {k}." in text), "0")
        last = {**body["messages"][-1], "content": f"{body['messages'][-1]['content']} {item}"}
        return super().next({**body, "messages": [*body["messages"][:-1], last]})  # type: ignore[no-any-return]

    @property
    def items(self) -> dict[str, int]:
        """Requests by row."""
        return {item: sum(n for (k, _), n in self.requests.items() if k == item) for item, _ in self.requests}


class Call:
    """The command line in this process: exit code, and what it wrote."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys

    def __call__(self, *arguments: object) -> tuple[int, str, str]:
        self._monkeypatch.setattr("sys.argv", ["trex", "data", "flywheel", *map(str, arguments)])
        self._capsys.readouterr()
        code = cli.main()
        return code, *self._capsys.readouterr()


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    return Call(monkeypatch, capsys)


def endpoints(folder: Path, *urls: str, more: str = "") -> Path:
    path = folder / "endpoints.yaml"
    path.write_text("".join(f"- {{base_url: '{url}', model: m{k}, attempts: 1{more}}}\n" for k, url in enumerate(urls)))
    return path


def foreign(folder: Path, count: int = 3, name: str = "rows.jsonl") -> Path:
    """Rows of anyone's file."""
    path = folder / name
    rows = [{"question": f"Problem number {k}. {'word ' * 30}", "answer": "```python\nimport pyomo\n```"}
            for k in range(1, count + 1)]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def represented(folder: Path) -> Path:
    """A file of representations."""
    path = folder / "representations.jsonl"
    path.write_text(json.dumps({"id": "a", "representation": json.loads(SHOWN.line)}) + "\n")
    return path


def refused(found: tuple[int, str, str], *said: str) -> None:
    """One line on standard error, exit code 2."""
    code, out, line = found
    assert code == 2 and not out, found
    assert line.startswith("trex: ") and line.count("\n") == 1 and all(part in line for part in said), line


@pytest.mark.parametrize(("arguments", "said"), [
    (("--structures", "nothing"), "'nothing'; accepted"),
    (("--structures", "knapsack", "knapsack"), "each once"),
    (("--modes", "XX"), "mode 'XX'"),
    (("--tasks", "x"), "task 'x'"),
    (("--styles", "x"), "style 'x'"),
    (("--domains", "the moon"), "the moon"),
    (("--tasks", "formulate", "--styles", "code-only"), "formulate in code-only"),
    (("--difficulty", "5"), "difficulty 5"),
    (("--count", "0"), "count 0"),
    (("--seed", "-1"), "seed -1"),
    (("--seed", "100000"), "seed 100000"),
    (("--rounds", "0"), "rounds 0"),
    (("--rounds", "101"), "rounds 101"),
    (("--rounds", "4", "--most-rounds", "3"), "--most-rounds 3"),
    (("--most-rounds", "101"), "most 101"),
    (("--oversampling", "0.5"), "over-sampling 0.5"),
    (("--oversampling", "nan"), "over-sampling nan"),
    (("--near", "0"), "similarity of 0"),
    (("--near", "1.5"), "similarity of 1.5"),
    (("--processes", "-1"), "--processes -1"),
    (("--max-tokens", "0"), "max_tokens = 0"),
    (("--temperature", "-1"), "temperature = -1"),
    (("--budget-tokens", "-5"), "budget: tokens = -5"),
    (("--budget-money", "nan"), "budget: money = nan"),
    (("--seeds", "rows.jsonl"), "the embedded author knows its own families alone"),
    (("--checkpoint", "nowhere"), "--checkpoint nowhere is no folder"),
    (("--endpoints", "nowhere.yaml"), "nowhere.yaml cannot be read"),
    (("--endpoints", "a", "--checkpoint", "b"), "accepted: one of them"),
    (("--benchmarks", "nowhere"), "nowhere is no folder of benchmarks"),
])  # fmt: skip
def test_what_is_not_accepted_is_one_line_and_makes_no_folder(
    tmp_path: Path, call: Call, arguments: tuple[str, ...], said: str
) -> None:
    refused(call(tmp_path / "new", *arguments), said)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("arguments", [
    ("--near", "2"), ("--modes", "XX"), ("--repairs", "-1"), ("--repairs", "21"), ("--rounds", "0"),
    ("--oversampling", "11"), ("--processes", "-2"), ("--benchmarks", "nowhere"), ("--difficulty", "9"),
])  # fmt: skip
def test_what_is_not_accepted_is_told_before_seeds_are_asked_for(
    tmp_path: Path, call: Call, arguments: tuple[str, ...]
) -> None:
    with Seeder() as server:
        found = call(
            tmp_path / "new", "--seeds", foreign(tmp_path), "--endpoints", endpoints(tmp_path, server.url), *arguments
        )
        refused(found, "accepted" if arguments[0] != "--benchmarks" else "no folder")
        assert not server.requests and not (tmp_path / "new").exists()


@pytest.mark.parametrize(("content", "said"), [
    ("", "accepted: a list of endpoints"),
    ("- {base_url: 'http://h/v1', model: m, tiemout_s: 3}", "endpoint 1 has 'tiemout_s'; accepted: api_key_variable"),
    ("- {base_url: 'http://h/v1', model: m, api_key: sk-1}", "has 'api_key'"),
    ("- {base_url: 'http://h/v1', model: m}\n- {base_url: 'http://h/v1'}", "endpoint 2: model is missing"),
    ("- {base_url: 'http://h/v1', model: m}\n- {base_url: 'http://h/v1/', model: m}", "m at http://h/v1 is there"),
    ("- {base_url: 7, model: m}", "base_url is no text"),
    ("- {base_url: 'http://h/v1', model: 7}", "model is no text"),
    ("- {base_url: 'http://h/v1', model: m, concurrency: many}", "concurrency = 'many'"),
    ("- {base_url: 'http://h/v1', model: m, input_price: -1}", "input_price = -1"),
    ("- {base_url: 2020-99-99, model: m}", "cannot be read"),
    ("- {base_url: 'http://h/v1', model: m, api_key_variable: TREX_NO_SUCH_KEY}", "$TREX_NO_SUCH_KEY is not set"),
])  # fmt: skip
def test_a_file_of_endpoints_is_told_what_is_wrong_with_it(tmp_path: Path, call: Call, content: str, said: str) -> None:
    path = tmp_path / "endpoints.yaml"
    path.write_text(content)
    found = call(tmp_path / "new", "--endpoints", path, *SMALL)
    refused(found, said)
    assert "sk-1" not in found[2] and not (tmp_path / "new").exists()


def test_a_folder_of_another_plan_or_in_use_is_left_alone(tmp_path: Path, call: Call) -> None:
    folder = tmp_path / "run"
    one = ("--structures", "knapsack", *SMALL, "--styles", "code-only", "--tasks", "implement")
    assert call(folder, *one)[0] == 0
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    refused(call(folder, *one, "--growth", "seed-only"), "another plan: growth is 'snowball' there")
    with Seeder() as server:
        ends = endpoints(tmp_path, server.url)
        refused(call(folder, *one, "--endpoints", ends), "holds dialogues of another plan")
        refused(call(folder, *SMALL, "--endpoints", ends, "--seeds", foreign(tmp_path)), "holds dialogues of another")
        assert not server.requests
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    with (folder / ".lock").open("wb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        refused(call(folder, *one), "is in use by another run")
    (tmp_path / "file").touch()
    refused(call(tmp_path / "file", *one), "file")
    code, out, _ = call(folder, *one, "--json")
    assert code == 0 and json.loads(out)["dialogues"] == 1


def test_a_dry_run_asks_nothing_and_writes_nothing(tmp_path: Path, call: Call) -> None:
    (tmp_path / "weights").mkdir()
    with Seeder() as server:
        paid = endpoints(tmp_path, server.url, more=", input_price: 2.0, output_price: 8.0")
        plain = ("--count", "12", "--dry-run", "--json")
        for more in (
            (), ("--endpoints", paid), ("--endpoints", paid, "--seeds", represented(tmp_path)),
            ("--endpoints", paid, "--seeds", foreign(tmp_path)), ("--checkpoint", tmp_path / "weights"),
            ("--endpoints", paid, "--seeds", foreign(tmp_path), "--structures", "assigning", "packing"),
        ):  # fmt: skip
            code, out, error = call(tmp_path / "new", *plain, *more)
            plan = json.loads(out)
            assert code == 0 and not error and plan["attempts"] == 12
            assert (plan["cost"]["requests"] == 0) == (more == ())
            assert (plan["cost"]["money"] > 0) == ("--endpoints" in more)
        assert {bucket["structure"] for bucket in plan["buckets"]} == {"assigning", "packing"}
        code, out, _ = call(tmp_path / "new", *plain[:-1], "--endpoints", paid)
        assert code == 0 and "12 attempts" in out and "requests" in out
        assert not server.requests and not (tmp_path / "new").exists()


def test_a_dry_run_counts_the_requests_for_seeds(tmp_path: Path, call: Call) -> None:
    given = (
        "--count",
        "12",
        "--dry-run",
        "--json",
        "--structures",
        "knapsack",
        "--endpoints",
        endpoints(tmp_path, GONE),
    )
    costs = [
        json.loads(call(tmp_path / "new", *given, *more)[1])["cost"]
        for more in ((), ("--seeds", foreign(tmp_path, 5)), ("--seeds", foreign(tmp_path, 9, "more.jsonl")))
    ]
    assert [cost["requests"] - costs[0]["requests"] for cost in costs] == [0, 5, 9]
    assert [cost["most_requests"] - costs[0]["most_requests"] for cost in costs] == [0, 15, 27]
    assert costs[0]["input_tokens"] < costs[1]["input_tokens"] < costs[2]["input_tokens"]


def test_what_became_of_seeds_is_kept_for_later_runs(tmp_path: Path, call: Call) -> None:
    folder, seeds = tmp_path / "run", foreign(tmp_path)
    with Seeder(misdeeds={"2": ["400"]}) as server:
        given = (folder, "--seeds", seeds, "--endpoints", endpoints(tmp_path, server.url), *SMALL)
        code, out, _ = call(*given, "--json")
        assert code == 1 and len(json.loads(out)["missing"]) == 1  # every reply is the same representation
        assert {item: server.items[item] for item in "123"} == dict.fromkeys("123", 1)
        kept = [json.loads(line) for line in (folder / SEEDS).read_text().splitlines()]
        assert [row["refused"] is None for row in kept] == [True, False, True]
        assert "status 400" in kept[1]["refused"]["reason"]
        before = (folder / SEEDS).read_bytes(), (folder / PLAN).read_bytes(), server.requests.total()
        assert call(*given)[0] == 1  # the row that failed would be answered now, and make another plan
        assert before == ((folder / SEEDS).read_bytes(), (folder / PLAN).read_bytes(), server.requests.total())
        other = foreign(tmp_path, 2, "other.jsonl")
        refused(call(*given[:2], other, *given[3:]), "of other rows than the file of seeds")
        (folder / SEEDS).write_text("{}\n")
        refused(call(*given), "seeds.jsonl", "accepted: what an earlier run wrote")
        assert server.requests.total() == before[2]


def test_a_budget_that_is_spent_on_seeds_stops_in_one_line(tmp_path: Path, call: Call) -> None:
    with Seeder() as server:
        given = (tmp_path / "run", "--seeds", foreign(tmp_path, 6), "--endpoints", endpoints(tmp_path, server.url))
        code, out, error = call(*given, *SMALL, "--budget-requests", "4", "--json")
        lines = [line for line in error.replace("\r", "\n").splitlines() if line.startswith("trex")]
        assert code == 1 and not out and len(lines) == 1 and "larger budget goes on" in lines[0]
        assert server.requests.total() == 4 and not (tmp_path / "run" / PLAN).exists()
        assert call(*given, *SMALL)[0] == 1
        assert {item: server.items[item] for item in "123456"} == dict.fromkeys("123456", 1)


def test_a_file_of_which_no_row_can_be_used_says_so_and_may_be_tried_again(tmp_path: Path, call: Call) -> None:
    with Seeder(misdeeds={str(k): ["400"] for k in range(1, 4)}) as server:
        given = (tmp_path / "run", "--seeds", foreign(tmp_path), "--endpoints", endpoints(tmp_path, server.url), *SMALL)
        code, _, error = call(*given)
        assert code == 2 and "none of 3 rows became a representation" in error
        assert call(*given)[0] == 1  # answered now
        assert (tmp_path / "run" / CANDIDATES).exists()
