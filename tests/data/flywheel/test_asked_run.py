"""A run over servers that are slow, wrong, truncating and limiting: no row lost, none twice, the budget kept."""

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

pytest.importorskip("inspect_ai")

from trex.commands.data_flywheel import flywheel
from trex.data.endpoint import Endpoint, Settings
from trex.data.flywheel import asked_jobs, making, prompts
from trex.data.flywheel.asked_jobs import AskedJobs, Author
from trex.data.flywheel.asking import asking
from trex.data.flywheel.bucket import Wanted
from trex.data.flywheel.dialogue import Dialogue
from trex.data.flywheel.judging import GATES, judge
from trex.data.flywheel.ledger import Budget, Priced
from trex.data.flywheel.recombine import recombine, representation
from trex.data.flywheel.representation import Origin
from trex.data.flywheel.rounds import Rounds
from trex.data.flywheel.run import CANDIDATES, DIALOGUES, SUMMARY, SURPLUS, Here, run
from trex.data.flywheel.run import Settings as RunSettings
from trex.data.flywheel.seeds import embedded_seeds
from trex.data.flywheel.writing import FAULT, checklist, model_text
from trex.data.flywheel.wrong import wrong
from trex.data.problem import DataError
from trex.data.program import program, reformulation
from trex.data.rendering import render
from trex.solver.pyomo_model import from_pyomo
from trex.solver.solve import solve

FAMILIES = ("knapsack", "transportation")
MAX_TOKENS = 3000
STAGES = {
    "representation": prompts.SYNTHESIS, "problem": prompts.PROBLEM, "program": prompts.PROGRAM,
    "second": prompts.SECOND, "mistake": prompts.MISTAKE, "cleaning": prompts.CLEAN, "review": prompts.REVIEW,
}  # fmt: skip
FAILURES = ("429", "500", "html", "half", "reset")  # of a request: it may be sent again
GARBAGE = ("refusal", "cut", "garbage", "wrong")  # of a reply


class Play:
    """An instance of a family, with a title of its own: what a perfect model replies at each step."""

    def __init__(self, family: str, mode: str, number: int) -> None:
        found = recombine(Origin(family, number, 1))
        text, problem = render(found.problem, mode, found.family), found.problem
        self.representation = replace(representation(found, text.distractors), origin=None, title=f"Case {number}")
        self.mode, self.text = mode, text.problem.strip()
        self.program, self.second = program(problem, mode, found.source), reformulation(problem, mode)
        self.mistake = program(problem, mode, next(wrong(found.source, found.family.contract)).source)
        self.optimum = solve(from_pyomo(found.model()), 20).objective

    def reply(self, stage: str, chat: str) -> str:
        """A reply at a step; the chat says which task it is."""
        if stage == "cleaning":
            formulates, repairs = prompts.CLEAN_MODEL in chat, prompts.CLEAN_FAULT in chat
            lines = "\n".join(checklist(self.representation, self.mode, None if formulates else self.optimum))
            fault = f"{FAULT} One part of the model was wrong.\n\n" if repairs else ""
            model, code = f"## Model\n\n{model_text(self.representation)}", f"```python\n{self.program}```"
            return f"{fault}**Modelling checklist**\n{lines}\n\n{model if formulates else code}"
        return {
            "representation": self.representation.line,
            "problem": f"<problem>\n{self.text}\n</problem>",
            "program": f"```python\n{self.program}```",
            "second": f"```python\n{self.second}```",
            "mistake": json.dumps({"program": self.mistake, "fault": "One part of the model is wrong."}),
            "review": '{"accepted": true, "reasons": []}',
        }[stage]


class Quiet(ThreadingHTTPServer):
    """Does not tell of clients that left."""

    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, *_: object) -> None:
        """Say nothing of connections; pass on what is wrong with the server itself."""
        if not isinstance(sys.exc_info()[1], OSError):
            raise


class Model:
    """An endpoint that plays a language model. share: of its requests that fail or get a bad reply, by a hash of them.

    tokens: all that it gave out, also what did not arrive. whole: whole replies by request. prose: JSON and programs
    stand in thoughts, words and fences.
    """

    plays: ClassVar[
        dict[str, Play]
    ] = {}  # by title, of all endpoints: one asks for a problem, the other for its program
    making: ClassVar[Any] = threading.Lock()

    def __init__(self, share: float = 0.0, delay_s: float = 0.0, prose: bool = False) -> None:
        self.share, self.delay_s, self.prose = share, delay_s, prose
        self.requests, self.whole = Counter[str](), Counter[str]()
        self.tokens = 0
        self.lock, self.end = threading.Lock(), threading.Event()

    def outcome(self, body: dict[str, Any]) -> tuple[str, str, str, int]:
        """Name of a request, what becomes of it, its reply, and the tokens of its chat."""
        chat = "\n".join(message["content"] for message in body["messages"])
        name = json.dumps([body["messages"], body["seed"]])
        stage = next(k for k, text in STAGES.items() if chat[:60] == text[:60])
        with self.lock:
            self.requests[name] += 1
            count = self.requests[name]
        text = self.play(stage, chat, body["seed"]).reply(stage, chat)
        rng, what = random.Random(f"{name}/{count}"), "ok"
        if rng.random() < self.share:
            what = rng.choice(FAILURES + GARBAGE)
        if what == "wrong" and stage == "program":
            text = re.sub(r"domain=pyo\.\w+", "domain=pyo.Reals", text)
        elif what in GARBAGE:
            text = {"refusal": "I'm sorry, but I can't help with that.", "cut": text[: len(text) // 2],
                    "garbage": '{"a": "\ud83d' + "[" * 3000, "wrong": '{"title": 7}'}[what]  # fmt: skip
        elif self.prose:
            fenced = f"```json\n{text}\n```" if text.startswith("{") else text
            text = f"<think>Is it {{this}}?</think>Here it is:\n\n{fenced}\n\nI hope that it helps."
        return name, what, text, len(chat) // 4

    def play(self, stage: str, chat: str, seed: int) -> Play:
        """Whose instance a request is about; a new one where one is to be thought of."""
        with self.making:
            if stage == "representation":
                family = re.findall(r"structure: (\w+), exactly", chat)[-1]
                mode = next(k for k, told in prompts.DATA_MODES.items() if f"data: {told}" in chat)
                number = random.Random(f"{seed}/{family}/{mode}").randrange(10**5, 10**6)
                if f"Case {number}" not in self.plays:
                    self.plays[f"Case {number}"] = Play(family, mode, number)
                return self.plays[f"Case {number}"]
            titled = re.search(r'"title": "(Case \d+)"', chat)
            if titled and stage in ("problem", "program"):
                return self.plays[titled[1]]
            return next(play for play in self.plays.values() if play.text in chat)

    def __enter__(self) -> "Model":
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, *_: object) -> None:
                """Say nothing."""

            def send(self, data: bytes, status: int = 200, length: int = 0) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(length or len(data)))
                self.send_header("Retry-After", "0.1") if status == 429 else None
                self.end_headers()
                self.wfile.write(data)

            def do_POST(self) -> None:
                data = self.rfile.read(length := int(self.headers["Content-Length"]))
                if len(data) < length:  # the client was killed
                    self.close_connection = True
                    return
                name, what, text, read = owner.outcome(json.loads(data))
                owner.end.wait(owner.delay_s)
                written = min(len(text) // 4, MAX_TOKENS)
                if what != "429":
                    with owner.lock:
                        owner.tokens += read + written
                used = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
                choice = {"index": 0, "finish_reason": "length" if what == "cut" else "stop",
                          "message": {"role": "assistant", "content": text}}  # fmt: skip
                whole = json.dumps({"id": "c", "object": "chat.completion", "created": 1, "model": "m",
                                    "choices": [choice], "usage": used}).encode()  # fmt: skip
                if what in ("429", "500"):
                    self.send(b'{"error": {"message": "busy"}}', int(what))
                elif what == "html":
                    self.send(b"<html>busy</html>")
                elif what in ("half", "reset"):
                    self.send(whole[: len(whole) // 2], length=len(whole)) if what == "half" else None
                    self.close_connection = True
                else:
                    with owner.lock:
                        owner.whole[name] += 1
                    self.send(whole)

        self.server = Quiet(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"
        return self

    def __exit__(self, *_: object) -> None:
        self.end.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def listed(folder: Path, models: Sequence[Model]) -> Path:
    """The file of endpoints."""
    path = folder / "endpoints.yaml"
    path.write_text(
        "".join(
            f"- {{base_url: '{model.url}', model: m{k}, concurrency: 4, attempts: 3, backoff_s: 0.05}}\n"
            for k, model in enumerate(models)
        )
    )
    return path


ARGUMENTS: dict[str, Any] = {"structures": FAMILIES, "difficulty": (1,), "max_tokens": MAX_TOKENS, "processes": 2}


def command(folder: Path, endpoints: Path, count: int) -> list[str]:
    """The command line of the same run."""
    return [
        sys.executable, "-m", "trex", "data", "flywheel", str(folder), "--endpoints", str(endpoints), "--count",
        str(count), "--structures", *FAMILIES, "--difficulty", "1", "--max-tokens", str(MAX_TOKENS), "--processes", "2",
    ]  # fmt: skip


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def held(folder: Path, count: int, models: Sequence[Model], share: float = 1.0) -> Counter[str]:
    """Assert what holds of a run that has ended; how many attempts each gate refused. share: of rows judged again."""
    found = rows(folder / CANDIDATES)
    assert [row["candidate"] for row in found] == list(range(len(found))) and len(found) >= count
    assert all(row["gate"] in GATES and row["reason"] for row in found if row["gate"])
    summary = json.loads((folder / SUMMARY).read_text())
    assert summary["attempts"] == len(found)
    accepted = [Dialogue.of(row["row"]) for row in found if not row["gate"]]
    dialogues = [Dialogue.from_line(line) for line in (folder / DIALOGUES).read_text().splitlines()]
    surplus = (folder / SURPLUS).read_bytes().count(b"\n")
    assert len(dialogues) == summary["dialogues"] and len(dialogues) + surplus == len(accepted)
    ids = [row.id for row in dialogues]
    assert len(set(ids)) == len(ids) and set(ids) <= {row.id for row in accepted}
    for row in random.Random(0).sample(dialogues, round(share * len(dialogues))):
        again, _ = judge(replace(row, evidence={}))
        assert again.evidence == row.evidence
    spent = [json.loads(line) for line in (folder / "asked" / "ledger.jsonl").read_bytes().splitlines()]
    assert sum("request" in row for row in spent) >= sum(model.requests.total() for model in models)
    return Counter(row["gate"] for row in found if row["gate"])


def charged(folder: Path) -> int:
    """Tokens that the ledger counts: what is settled, and what is reserved and not settled in full."""
    most: dict[int, int] = {}
    for row in rows(folder / "asked" / "ledger.jsonl"):
        most[row.get("request", row.get("settled"))] = row["input"] + row["output"]
    return sum(most.values())


def test_a_budget_that_is_too_small_stops_in_one_line_and_a_larger_one_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    with Model(0.5, 0.05, prose=True) as bad, Model(0.05) as good:
        models = [bad, good]
        endpoints = listed(tmp_path, models)
        for budget in (20_000, 80_000):
            assert flywheel(folder, 12, endpoints=endpoints, budget_tokens=budget, **ARGUMENTS) == 1
            (line,) = capsys.readouterr().err.splitlines()
            assert line.startswith("trex: stopped: no request is left within the budget") and "larger budget" in line
            assert bad.tokens + good.tokens <= charged(folder) <= budget
            before = (folder / CANDIDATES).read_bytes()
            assert not (folder / DIALOGUES).exists()
        assert flywheel(folder, 12, endpoints=endpoints, budget_tokens=10**8, json=True, **ARGUMENTS) == 0
        assert json.loads(capsys.readouterr().out)["dialogues"] == 12
        assert (folder / CANDIDATES).read_bytes().startswith(before)
        refused = held(folder, 12, models)
        assert all(set(model.whole.values()) == {1} for model in models)  # what was answered was not asked again
        assert bad.tokens + good.tokens <= charged(folder)
        asked = bad.requests.total() + good.requests.total()
        assert flywheel(folder, 12, endpoints=endpoints, budget_tokens=1, **ARGUMENTS) == 0
        assert bad.requests.total() + good.requests.total() == asked
    assert refused["author"] + refused["contract"] > 0, refused


def interrupted(folder: Path, line: list[str], models: Sequence[Model], after: int, how: int) -> tuple[int, str]:
    """Start a run, send it a signal when so many more requests have been sent; exit code and standard error."""
    seen = sum(model.requests.total() for model in models)
    # which is ignored where tests run in the background
    heard = partial(signal.signal, signal.SIGINT, signal.default_int_handler)
    with subprocess.Popen(
        line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=heard
    ) as process:
        end = time.monotonic() + 120
        while sum(m.requests.total() for m in models) < seen + after and process.poll() is None:
            assert time.monotonic() < end
            time.sleep(0.01)
        if process.poll() is None:
            process.send_signal(how)
        _, said = process.communicate(timeout=60)
        return process.returncode, said


def processes_of(folder: Path) -> list[str]:
    """Command lines of processes that name a folder, or that are workers without a parent."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            line = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if str(folder) in line or ("trex.solver.workers" in line and (path / "stat").read_text().split()[3] == "1"):
                found.append(line)
    return found


def killed_and_ended(tmp_path: Path, count: int, moments: Sequence[int], share: float) -> None:
    """Kill a run at some moments; the same command ends it, and nothing of it was lost or is there twice."""
    folder = tmp_path / "run"
    with Model(0.25, 0.05, prose=True) as bad, Model(0.02, 0.01) as good:
        models = [bad, good]
        line = command(folder, listed(tmp_path, models), count)
        before = b""
        for after in moments:
            code, _ = interrupted(folder, line, models, after, signal.SIGKILL)
            assert code == -signal.SIGKILL
            path = folder / CANDIDATES
            now = path.read_bytes() if path.exists() else b""
            assert now.startswith(before)
            before = now[: now.rfind(b"\n") + 1]
        done = subprocess.run(line, capture_output=True, text=True, timeout=1200)
        assert done.returncode == 0, done.stderr
        assert (folder / CANDIDATES).read_bytes().startswith(before)
        held(folder, count, models, share)
        assert bad.tokens + good.tokens <= charged(folder)
        twice = sum(number - 1 for model in models for number in model.whole.values())
        assert twice <= 8 * len(moments)  # what was in flight at a kill
    assert not processes_of(folder)


def test_a_run_that_is_killed_goes_on_and_loses_nothing(tmp_path: Path) -> None:
    killed_and_ended(tmp_path, 4, (3, 15), 0.0)


@pytest.mark.slow
def test_a_long_run_that_is_killed_at_many_moments_loses_nothing(tmp_path: Path) -> None:
    killed_and_ended(tmp_path, 60, (1, 10, 40, 60, 80, 30), 0.3)


@pytest.mark.parametrize("after", [2, 20])
def test_an_interrupt_ends_a_run_with_all_its_processes(tmp_path: Path, after: int) -> None:
    folder = tmp_path / "run"
    with Model(0.1, 0.3) as slow, Model(delay_s=0.3) as other:
        line = command(folder, listed(tmp_path, [slow, other]), 40)
        code, said = interrupted(folder, line, [slow, other], after, signal.SIGINT)
        assert code == 130 and "Traceback" not in said and "pending" not in said, said
        assert [row for row in said.splitlines() if row.startswith("trex: interrupted")], said
        time.sleep(0.2)
        assert not processes_of(folder)
        assert not (folder / ".lock").exists()
        settled = Counter("settled" in row for row in rows(folder / "asked" / "ledger.jsonl"))
        assert settled[True] == settled[False]  # what was in flight is charged


def jobs_of(folder: Path, models: Sequence[Model], author: Author, processes: int = 1) -> Any:
    """What makes the jobs of a run over such endpoints."""
    ends = [Priced(Endpoint(m.url, f"m{k}", attempts=2, backoff_s=0.05)) for k, m in enumerate(models)]
    return partial(
        AskedJobs, partial(asking, ends, Settings(max_tokens=MAX_TOKENS, seed=0), Budget(), folder / "asked"), author,
        4, processes,
    )  # fmt: skip


def test_a_process_that_is_killed_at_a_dialogue_is_a_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []

    class Watched(asked_jobs.Worker):
        def _start(self) -> Any:
            process = super()._start()
            started.append(process)
            return process

    def kill() -> None:
        while not started:
            time.sleep(0.01)
        time.sleep(0.3)
        os.kill(started[0].pid, signal.SIGKILL)

    monkeypatch.setattr(asked_jobs, "Worker", Watched)
    threading.Thread(target=kill).start()
    wanted = Wanted.of(2, structures=("knapsack",), difficulties=(1,), tasks=("implement",), styles=("code-only",))
    with Model() as model:
        summary = run(tmp_path, RunSettings(wanted, Rounds(1)), embedded_seeds(("knapsack",)),
                      jobs=jobs_of(tmp_path, [model], Author()))  # fmt: skip
    refused = [row for row in rows(tmp_path / CANDIDATES) if row["gate"]]
    assert summary.missing == 0 and len(started) > 1
    assert [row["gate"] for row in refused] == ["execution"] and "SIGKILL" in refused[0]["reason"]
    assert refused[0]["row"]["id"] not in {row["id"] for row in rows(tmp_path / DIALOGUES)}


def test_an_exception_of_a_gate_is_a_refusal_and_one_of_the_machine_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked_jobs.work("finish", "{}").gate == "execution"
    assert "cannot be judged: DataError" in asked_jobs.work("settle", "{}").reason

    def full(_: str) -> making.Made:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(asked_jobs, "finished", full)
    with pytest.raises(OSError, match="No space left"):
        asked_jobs.work("finish", "{}")


@pytest.mark.parametrize("apart", [True, False])
def test_a_review_by_who_wrote_the_dialogue_is_refused_where_there_is_another(tmp_path: Path, apart: bool) -> None:
    class Unreviewing(Model):
        def outcome(self, body: dict[str, Any]) -> tuple[str, str, str, int]:
            name, what, text, read = super().outcome(body)
            return name, "500" if body["messages"][0]["content"].startswith(prompts.REVIEW[:60]) else what, text, read

    wanted = Wanted.of(1, structures=("knapsack",), difficulties=(1,), tasks=("implement",), styles=("clean-cot",))
    with Model() as one, Unreviewing() as other:
        run(tmp_path, RunSettings(wanted, Rounds(1, most=1)), embedded_seeds(("knapsack",)),
            jobs=jobs_of(tmp_path, [one, other], Author(apart=apart)))  # fmt: skip
    (row,) = rows(tmp_path / CANDIDATES)
    assert row["gate"] == ("reviewer" if apart else ""), row["reason"]
    if apart:
        assert row["reason"] == f"reviewed by m0 at {one.url}, which had a hand in the dialogue"


def test_an_exception_of_the_jobs_keeps_what_was_written_before(tmp_path: Path) -> None:
    class Failing(Here):
        def get(self) -> tuple[Any, Any]:
            key, found = super().get()
            if key == 3:
                raise RuntimeError("no more")
            return key, found

    settings = RunSettings(Wanted.of(4, structures=("knapsack",), difficulties=(1,)), Rounds(1))
    with pytest.raises(RuntimeError, match="no more"):
        run(tmp_path, settings, embedded_seeds(("knapsack",)), jobs=Failing)
    written = (tmp_path / CANDIDATES).read_bytes()
    assert [row["candidate"] for row in rows(tmp_path / CANDIDATES)] == [0, 1, 2]
    run(tmp_path, settings, embedded_seeds(("knapsack",)), jobs=Here)
    assert (tmp_path / CANDIDATES).read_bytes().startswith(written)


@pytest.mark.parametrize(("leaf", "said"), [
    (str(10**400), "accepted: numbers that a float can hold"), ('"\\ud800"', "half a character"),
    ("[true]", "True.; accepted"), ("NaN", "accepted: a finite number"),
])  # fmt: skip
def test_data_that_no_file_can_hold_are_refused(leaf: str, said: str) -> None:
    found = representation(recombine(Origin("knapsack", 1, 1)))
    value = json.loads(found.line)
    value["data"]["value"] = dict.fromkeys(value["data"]["value"], "LEAF")
    with pytest.raises(DataError, match=said):
        type(found).of(json.dumps(value).replace('"LEAF"', leaf))
