"""`trex data rewrite` against a server on loopback: accepted, refused, told why, killed, resumed, and proved again."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("inspect_ai")

from trex.commands.data_rewrite import rewrite
from trex.commands.errors import told
from trex.data import engine
from trex.data.documents import read_jsonl
from trex.data.endpoint import EndpointError
from trex.data.engine import DOCUMENTS, Here, Settings
from trex.data.plan import Plan
from trex.data.problem import DataError
from trex.data.rewriting import Prose
from trex.data.rewritten import REFUSED, REWRITTEN, faults
from trex.data.verification import verify_folder

SPEC = importlib.util.spec_from_file_location("bad_endpoint", Path(__file__).parent / "eval" / "bad_endpoint.py")
assert SPEC is not None and SPEC.loader is not None
bad_endpoint = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(bad_endpoint)
COUNT = 6


class Rewriter(bad_endpoint.BadEndpoint):  # type: ignore[name-defined, misc]
    """A model that changes harmless words; `bad`: problems (by number of the order of their texts) whose first replies
    change a number."""

    def __init__(self, texts: list[str], bad: dict[int, int] | None = None, **kwargs: Any) -> None:
        super().__init__(text=self.reply, **kwargs)
        self.texts, self.bad = texts, bad or {}

    def next(self, body: dict[str, Any]) -> tuple[tuple[str, int], str]:
        """Items are the numbers of the texts."""
        item = str(self.texts.index(body["messages"][1]["content"]))
        last = body["messages"][-1]["content"]
        return super().next({**body, "messages": [*body["messages"], {"content": f"{last} {item}"}]})

    def reply(self, key: tuple[str, int]) -> str:
        """The problem with other words, or with another number."""
        text = self.texts[int(key[0])]
        if key[1] < self.bad.get(int(key[0]), 0):
            return f"{text} Budget: 123456."
        return other_words(text)


def other_words(text: str) -> str:
    """Words that carry no meaning here; one problem or another holds some of them."""
    for old, new in ((" the ", " this "), ("Find this ", "Find the "), ("Each ", "Every "), (" each ", " every ")):
        text = text.replace(old, new)
    return text


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished folder, programs not run."""
    folder = tmp_path_factory.mktemp("rewrite") / "documents"
    settings = Settings(Plan.of(COUNT, 5, ("knapsack", "transportation"), difficulty=1), execute=False)
    engine.generate(folder, settings, pool=Here)
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    for name in (DOCUMENTS, engine.PLAN, engine.REFUSALS):
        (tmp_path / name).write_bytes((made / name).read_bytes())
    return tmp_path


def texts(folder: Path) -> list[str]:
    return [Prose.of(document.problem).text for document in read_jsonl(folder / DOCUMENTS)]


def rows(folder: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / name).read_bytes().splitlines()]


def test_what_keeps_everything_is_accepted_and_the_rest_is_told_why(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (folder / DOCUMENTS).read_bytes()
    with Rewriter(texts(folder), {1: 1, 2: 9}, misdeeds={"3": ["500"]}, delay_s=0.15) as server:
        assert rewrite(folder, server.url, "m", attempts=2, concurrency=2) == 0
        assert server.most == 2
        asked = server.requests.total()
        assert asked == COUNT + 3  # one more for the reply refused, one for that refused twice, one for the status 500
        assert rewrite(folder, server.url, "m", attempts=2) == 0
        assert server.requests.total() == asked
    assert "5 rewritten, 1 refused in 2 attempts, 9 requests now; 5 rewritten in all" in capsys.readouterr().out
    assert (folder / DOCUMENTS).read_bytes() == before
    documents = list(read_jsonl(folder / DOCUMENTS))
    accepted = rows(folder, REWRITTEN)
    assert sorted(row["document"] for row in accepted) == [0, 1, 3, 4, 5]
    assert {row["document"]: row["attempts"] for row in accepted} == {0: 1, 1: 2, 3: 1, 4: 1, 5: 1}
    for row in accepted:
        original = documents[row["document"]].problem
        assert row["problem"] != original and Prose.of(row["problem"]).blocks == Prose.of(original).blocks
    refused = rows(folder, REFUSED)
    assert sorted((row["document"], row["attempt"]) for row in refused) == [(1, 1), (2, 1), (2, 2)]
    assert all("123456" in row["answer"] and row["reasons"] for row in refused)
    again = next(body for body in server.bodies if len(body["messages"]) > 3)  # the server adds one
    assert "This changed the problem:" in again["messages"][3]["content"]
    assert refused[0]["reasons"][0] in again["messages"][3]["content"]
    assert verify_folder(folder, execute=False, processes=1) == (COUNT, [])


def test_the_budget_ends_a_run_that_goes_on(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Rewriter(texts(folder)) as server:
        assert rewrite(folder, server.url, "m", max_requests=4, concurrency=3) == 1
        assert server.requests.total() == 4
        assert "stopped after 4 requests" in capsys.readouterr().out
        with (folder / REWRITTEN).open("ab") as stream:
            stream.write(b'{"document": 4, "statem')  # as if it had been stopped while writing
        assert rewrite(folder, server.url, "m", count=5, concurrency=3) == 0
        assert server.requests == {(str(k), 0): 1 for k in range(5)}
    assert sorted(row["document"] for row in rows(folder, REWRITTEN)) == [0, 1, 2, 3, 4]


def test_an_endpoint_that_turns_away_ends_the_run_in_one_line(folder: Path) -> None:
    with Rewriter(texts(folder), misdeeds={str(k): ["401"] for k in range(COUNT)}) as server:
        with pytest.raises(EndpointError, match="turns requests away: status 401") as raised:
            rewrite(folder, server.url, "m")
        line = told(raised.value)
        assert line is not None and line.startswith("trex: http") and "\n" not in line
    with Rewriter(texts(folder), misdeeds={"0": ["400"]}) as server:
        assert rewrite(folder, server.url, "m") == 1  # the others go on
    assert sorted(row["document"] for row in rows(folder, REWRITTEN)) == [1, 2, 3, 4, 5]


@pytest.mark.slow
def test_a_run_that_is_killed_goes_on_with_none_lost_and_none_twice(folder: Path) -> None:
    with Rewriter(texts(folder), {4: 1}, delay_s=0.15) as server:
        command = [sys.executable, "-c", "import sys; from trex.commands.data_rewrite import rewrite\n"
                   "from pathlib import Path\nrewrite(Path(sys.argv[1]), sys.argv[2], 'm', concurrency=2)",
                   str(folder), server.url]  # fmt: skip
        for wanted in (1, 3, 5):
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            end = time.monotonic() + 60
            while process.poll() is None and time.monotonic() < end:
                path = folder / REWRITTEN
                if path.exists() and path.read_bytes().count(b"\n") >= wanted:
                    break
                time.sleep(0.01)
            os.kill(process.pid, signal.SIGKILL) if process.poll() is None else None
            process.wait(timeout=60)
            with (folder / REWRITTEN).open("ab") as stream:
                stream.write(b'{"document": 3, "statem')  # as if it had been stopped while writing
        kept = rows_whole(folder)
        assert rewrite(folder, server.url, "m") == 0
    found = rows(folder, REWRITTEN)
    assert found[: len(kept)] == kept
    assert Counter(row["document"] for row in found) == dict.fromkeys(range(COUNT), 1)
    assert [row["document"] for row in rows(folder, REFUSED)] == [4]
    assert faults(folder) == []


def rows_whole(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / REWRITTEN).read_bytes().splitlines() if line.endswith(b"}")]


def test_rewritings_that_were_changed_are_found(folder: Path) -> None:
    with Rewriter(texts(folder)) as server:
        assert rewrite(folder, server.url, "m") == 0
    good = rows(folder, REWRITTEN)
    documents = list(read_jsonl(folder / DOCUMENTS))

    def with_row(row: dict[str, Any]) -> list[str]:
        (folder / REWRITTEN).write_text("".join(json.dumps(r) + "\n" for r in [good[0], row, *good[2:]]))
        return faults(folder)

    row = good[1]
    original = documents[row["document"]].problem
    number = max(Prose.of(original).text.split(), key=str.isdigit)
    assert with_row(row) == []
    for change, said in (
        ({"problem": f"{row['problem']} Add 17 more."}, "row 2"),
        ({"problem": row["problem"].replace(str(number), "7777777")} if number.isdigit() else {"problem": ""}, "row 2"),
        ({"statement_sha256": "0" * 64}, "row 2: it was made from another statement"),
        ({"document": good[0]["document"]}, "is there twice"),
        ({"document": 99}, "row 2: there is no document 99"),
        ({"checks": []}, "row 2: checks are"),
        ({"model": 3}, "row 2: model is 3"),
        ({"more": 3}, "row 2: accepted: an object of"),
    ):
        assert any(said in reason for reason in with_row({**row, **change})), change
    assert [fault.row for fault in verify_folder(folder, False, 1)[1]] == [0]  # the row with something more


def test_what_cannot_be_rewritten_is_told(folder: Path) -> None:
    for arguments, said in (
        ({"count": 0}, "--count 0"), ({"attempts": 0}, "--attempts 0"), ({"max_requests": 0}, "--max-requests 0"),
        ({"retries": -1}, "--retries -1"),
    ):  # fmt: skip
        with pytest.raises(DataError, match=said):
            rewrite(folder, "http://127.0.0.1:1/v1", "m", **arguments)
    with pytest.raises(EndpointError, match="base_url"):
        rewrite(folder, "127.0.0.1", "m")
    with pytest.raises(EndpointError, match="is not set"):
        rewrite(folder, "http://127.0.0.1:1/v1", "m", api_key_variable="TREX_NO_SUCH_KEY")
    lines = (folder / DOCUMENTS).read_bytes().splitlines(keepends=True)
    (folder / DOCUMENTS).write_bytes(b"".join(lines[:-1]))
    with pytest.raises(DataError, match="not finished: it has 5 of 6"):
        rewrite(folder, "http://127.0.0.1:1/v1", "m")
    with pytest.raises(DataError, match="does not exist"):
        rewrite(folder / "nowhere", "http://127.0.0.1:1/v1", "m")
    assert not (folder / REWRITTEN).exists()
