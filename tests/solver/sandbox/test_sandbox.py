"""The sandbox lets programs solve models, and nothing else; what it returns is what the models say."""

import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trex.solver import lp, wire
from trex.solver.model import ModelError
from trex.solver.sandbox import Execution, Limits, Sandbox, SandboxError, attacks, landlock, record, run, server, watch
from trex.solver.sandbox.attacks import ATTACKS, BUILD, FORGERIES, PROGRAMS, SOLVE, Attack
from trex.solver.solve import solve

SMALL = Limits(seconds=3, memory_mb=2048, output_mb=16, disk_mb=16, files=500, processes=40)
STRONG = ("bubblewrap", pytest.param("landlock", marks=pytest.mark.slow))


@pytest.fixture(scope="module", params=STRONG)
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    there = shutil.which("bwrap") if request.param == "bubblewrap" else landlock.version() >= landlock.LEAST
    if not there:
        pytest.skip(f"{request.param} is not here")
    with Sandbox(request.param, gurobi="") as made:
        yield made


@pytest.fixture(scope="module")
def listener() -> Iterator[tuple[int, list]]:
    """A server on the host's loopback, and the connections that it saw."""
    with attacks.listener() as found:
        yield found


def optimum(execution: Execution) -> float | None:
    """The optimum of the model that a program solved, found by the trusted solver."""
    return None if execution.model is None else solve(execution.model, 10).objective


def others(user_from: int = 0x60000000) -> list[str]:
    """Processes of the users that jobs have, or that hold the mark of a job's folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                if entry.stat().st_uid >= user_from:
                    found.append(entry.name)
            except OSError:
                continue
    return found


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_attacks_are_stopped(sandbox: Sandbox, listener: tuple[int, list], attack: Attack) -> None:
    begin = time.monotonic()
    code = attack.program(listener[0], str(Path(__file__).resolve()))
    limits = replace(SMALL, seconds=1 if "timeout" in attack.status else 60)  # the others pass another limit first
    found = sandbox.run(code, limits=limits)
    assert found.status in attack.status, found
    assert time.monotonic() - begin < limits.seconds + 7
    assert listener[1] == []
    assert found.isolation == sandbox.level
    after = sandbox.run(BUILD + SOLVE, limits=SMALL)  # others are unaffected
    assert (after.status, optimum(after)) == ("ok", 12.0)
    if os.geteuid() == 0:
        assert others() == []


@pytest.mark.parametrize("name", FORGERIES)
def test_forgeries_have_no_model(sandbox: Sandbox, name: str) -> None:
    found = sandbox.run(FORGERIES[name], limits=SMALL)
    assert found.model is None or optimum(found) != 42.0, found
    after = sandbox.run(BUILD + SOLVE, limits=SMALL)
    assert (after.status, optimum(after), after.claimed) == ("ok", 12.0, 12.0)


def test_the_cases_of_the_published_probes(sandbox: Sandbox) -> None:
    """Those of the attacks that have a value of their own: the banner, and an error that is told."""
    banner = sandbox.run("import highspy; highspy.Highs()", limits=SMALL)
    assert (banner.status, banner.model) == ("ok", None)
    network = sandbox.run("import socket;s=socket.socket();s.settimeout(2);s.connect(('127.0.0.1',9))", limits=SMALL)
    assert (network.status, network.error) == ("error", "PermissionError")
    memory = sandbox.run("b=bytearray(6*2**30)")
    assert memory.status == "memory" and memory.message.startswith("MemoryError")
    labels = sandbox.run(f"print(open({str(Path(__file__).resolve())!r}).read())", limits=SMALL)
    assert labels.status == "error" and labels.stdout == ""


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_model_is_found_wherever_it_is(sandbox: Sandbox, name: str) -> None:
    found = sandbox.run(PROGRAMS[name], {"data.json": '{"u": 4}', "metadata.json": "{}"}, SMALL)
    assert (found.status, optimum(found)) == ("ok", 12.0), found
    assert found.how == ("built" if "not " in name else "written" if name == "written" else "solved")
    assert not Path("planted").exists()


def test_the_last_solved_model_counts(sandbox: Sandbox) -> None:
    found = sandbox.run(BUILD + SOLVE + "m.x.setub(5)\n" + SOLVE + "m.x.setub(9)\nm.write('x.lp')\n", limits=SMALL)
    assert (found.models, found.how, optimum(found), found.claimed) == (2, "solved", 15.0, 15.0)


@pytest.mark.parametrize(("keep", "seen"), [(1, []), (2, [15.0]), (3, [12.0, 15.0]), (16, [12.0, 15.0])])
def test_earlier_models_are_kept_as_asked(sandbox: Sandbox, keep: int, seen: list[float]) -> None:
    code = BUILD + SOLVE + "m.x.setub(5)\n" + SOLVE + "m.x.setub(6)\n" + SOLVE
    found = sandbox.run(code, limits=SMALL, keep=keep)
    assert (found.models, optimum(found), found.claimed) == (3, 18.0, 18.0)
    assert [claimed for _, claimed in found.earlier] == seen
    assert [solve(model).objective for model, _ in found.earlier if model is not None] == seen


@pytest.mark.parametrize("keep", [0, -1, 17, 2.0, None, "2"])
def test_keep_is_checked(sandbox: Sandbox, keep: Any) -> None:
    with pytest.raises(SandboxError, match=r"keep = .*; accepted: 1 to 16"):
        sandbox.run("", limits=SMALL, keep=keep)


def test_a_lie_about_the_optimum_is_a_claim_only(sandbox: Sandbox) -> None:
    lie = "import trex.solver.sandbox.capture\npyo.value = lambda *_: 42.0\n"
    found = sandbox.run(BUILD + lie + SOLVE, limits=SMALL)
    assert optimum(found) == 12.0


def test_errors_are_told(sandbox: Sandbox) -> None:
    found = sandbox.run("x = 1\n\nraise KeyError('demand')", limits=SMALL)
    assert (found.status, found.error, found.message) == ("error", "KeyError", "KeyError: 'demand' (line 3)")
    assert "program.py" in found.stderr and "job.py" not in found.stderr
    syntax = sandbox.run("x = (", limits=SMALL)
    assert (syntax.status, syntax.error) == ("error", "SyntaxError")
    stopped = sandbox.run("raise SystemExit('no')", limits=SMALL)
    assert (stopped.status, stopped.message) == ("error", "SystemExit: no")
    fine = sandbox.run("raise SystemExit", limits=SMALL)
    assert (fine.status, fine.message) == ("ok", "")
    cubic = sandbox.run(BUILD.replace("3 * m.x", "m.x ** 3") + SOLVE, limits=SMALL)
    assert cubic.model is None and "not linear or quadratic" in cubic.unread
    assert cubic.status == "error"  # HiGHS does not take it


def test_outputs_keep_begin_and_end(sandbox: Sandbox) -> None:
    found = sandbox.run("print('begin')\nprint('x' * 10**6)\nprint('end')", limits=SMALL)
    assert found.status == "ok" and found.stdout.startswith("begin") and found.stdout.endswith("end\n")
    assert 10**4 < len(found.stdout) < 10**5 and "bytes left out" in found.stdout


def test_jobs_leave_nothing_to_each_other(sandbox: Sandbox) -> None:
    first = "import os, sys\nopen('note', 'w').write('x')\nos.environ['NOTE'] = 'x'\nsys.modules['note'] = sys\n"
    assert sandbox.run(first, limits=SMALL).status == "ok"
    second = (
        "import os, sys\nif os.path.exists('note') or 'NOTE' in os.environ or 'note' in sys.modules:\n"
        "    raise SystemExit('seen')"
    )
    assert sandbox.run(second, limits=SMALL).status == "ok"


SEARCH = """
import gc, sys
mark = "".join(reversed("{mark}"))
frame, found = sys._getframe(), []
while frame is not None:
    found += [name for name, value in frame.f_locals.items() if mark in repr(value)[:10**6]]
    frame = frame.f_back
kinds = (dict, list, bytes)
found += [type(each) for each in gc.get_objects() if isinstance(each, kinds) and mark in repr(each)[:10**5]]
if [each for each in found if each not in ("mark", dict)]: raise SystemExit(found)
"""


def test_nothing_of_an_earlier_job_is_in_memory(sandbox: Sandbox) -> None:
    mark = "c0ffee" * 5
    assert sandbox.run(f"x = '{mark}'\nprint(x)", {"data.json": mark}, SMALL).stdout.strip() == mark
    found = sandbox.run(SEARCH.replace("{mark}", mark[::-1]), limits=SMALL)
    assert found.status == "ok", found


def test_an_answer_that_was_not_read_is_not_the_next_ones(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> bytes:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(sandbox, "_read", interrupted)
        with pytest.raises(KeyboardInterrupt):
            sandbox.run("print('first')", limits=SMALL)
    assert [sandbox.run(f"print({k})", limits=SMALL).stdout.strip() for k in range(3)] == ["0", "1", "2"]


def test_the_record_holds_no_model_and_is_json(sandbox: Sandbox) -> None:
    found = record(sandbox.run(BUILD + SOLVE, limits=SMALL))
    assert "model" not in found and json.loads(json.dumps(found)) == found


def test_a_lost_server_is_started_again(sandbox: Sandbox) -> None:
    assert sandbox._server is not None
    os.killpg(sandbox._server.pid, 9)
    sandbox._server.wait()
    assert optimum(sandbox.run(BUILD + SOLVE, limits=SMALL)) == 12.0


def test_a_job_does_not_outlive_its_server(sandbox: Sandbox) -> None:
    """The server is killed while a job with children runs: they are gone, and so is the job's folder."""
    before = set(os.listdir(tempfile.gettempdir()))
    done: list[Execution] = []
    code = "import os, time\nif os.fork() == 0: os.setsid()\ntime.sleep(100)"
    thread = threading.Thread(target=lambda: done.append(sandbox.run(code, limits=SMALL)))
    thread.start()
    time.sleep(0.7)
    assert sandbox._server is not None
    os.killpg(sandbox._server.pid, 9)
    thread.join(20)
    assert done[0].status == "killed" and "server was lost" in done[0].message
    if os.geteuid() == 0:
        deadline = time.monotonic() + 5
        while others() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert others() == []
    assert [name for name in set(os.listdir(tempfile.gettempdir())) - before if name.startswith("trex-job")] == []
    assert optimum(sandbox.run(BUILD + SOLVE, limits=SMALL)) == 12.0


@pytest.mark.parametrize("name", ["/etc/x", "../x", "a/../../x", "", "a\0b", ".", "x" * 300, "\udcff", 1, b"x"])
def test_file_names_stay_inside(sandbox: Sandbox, name: str) -> None:
    with pytest.raises(SandboxError, match="inside of the program's folder"):
        sandbox.run("", {name: "x"})
    with pytest.raises(SandboxError, match="'a' is a file and the folder of 'a/b'"):
        sandbox.run("", {"a": "x", "a/b": "y"})


def test_arguments_are_checked() -> None:
    for name, value in (
        ("seconds", 0),
        ("memory_mb", -1),
        ("output_mb", float("nan")),
        ("files", 1.5),
        ("disk_mb", True),
    ):
        with pytest.raises(SandboxError, match=name):
            Limits(**{name: value})
    with pytest.raises(SandboxError, match="accepted: bubblewrap, landlock, none"):
        Sandbox("chroot")
    with pytest.raises(SandboxError, match="unsafe"):
        Sandbox("none")


def test_without_any_confinement_it_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    from trex.solver.sandbox import host

    monkeypatch.setattr(host, "PROBE", "raise SystemExit('planted')")
    with pytest.raises(SandboxError, match=r"bubblewrap: .*planted.*landlock: .*planted.*--unsafe"):
        run("")
    found = run(BUILD + SOLVE, unsafe=True)
    assert (found.isolation, optimum(found)) == ("none", 12.0)


def test_a_model_survives_the_way_out() -> None:
    text = (
        "Maximize\n obj: 3 x + 2 y + [ x ^ 2 + x * y ] / 2 + 7\nSubject To\n c1: x + y <= 4\n q: x + [ y ^ 2 ] <= 9\n"
        " i: b = 1 -> x >= 1\nBounds\n -inf <= x <= 8\n 1 <= s <= 6\nBinaries\n b\nGenerals\n y\nSemi-Continuous\n s\n"
        "SOS\n set: S1:: x:1 y:2\nEnd\n"
    )
    model = lp.read(text)
    again = wire.loads(wire.dumps(model))
    assert lp.write(again) == lp.write(model)
    assert np.array_equal(again.lower, model.lower)


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b"null", b"[" * 10**6, b"\xff", b'{"sense": "min"}'])
def test_what_is_no_model_is_refused(text: bytes) -> None:
    with pytest.raises(ModelError):
        wire.loads(text)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("sense", "up"), ("offset", "7"), ("offset", True), ("variables", "xy"), ("variables", ["x", "x"]),
        ("cost", [1]), ("cost", ["1", "2"]), ("cost", [10**400, 1]), ("cost", [float("nan"), 1]),
        ("kinds", ["odd", "odd"]), ("start", [0, 5]), ("start", [0.0, 2.0]), ("index", [0, 2]), ("index", [0, 2**70]),
        ("value", None), ("quadratic", [[0, 5, 1.0]]), ("quadratic", [[0, 1]]), ("sos", [["s", 3, [0], [1]]]),
        ("functions", [["f", "sin", 0, [1], None]]), ("rows", None),
    ],
)  # fmt: skip
def test_every_part_of_a_model_is_checked(part: str, value: object) -> None:
    parts = json.loads(wire.dumps(lp.read("Minimize\n obj: x + y\nSubject To\n c: x + y >= 1\nEnd\n")))
    wire.loads(json.dumps(parts).encode())
    with pytest.raises(ModelError):
        wire.loads(json.dumps({**parts, part: value}).encode())


def test_a_job_that_is_faster_than_its_guard_is_told_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """The guard says whom it started, then how that ended: in this order, however busy the machine is."""
    write = os.write

    def late(descriptor: int, data: bytes) -> int:
        if len(data) == watch.STATUS.size and watch.STATUS.unpack(data)[0] > 0:
            time.sleep(0.3)
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", late)
    limits = Limits(seconds=5).__dict__
    jobs = server.Server("none", None, [], 0)
    refused, _ = jobs.run({"code": "", "files": {"a\0b": b""}, "limits": dict(limits), "keep": 1}, ())
    assert refused["refused"].startswith("ValueError") and refused["waited"] is None
