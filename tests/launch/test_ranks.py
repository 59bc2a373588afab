"""ranks.run: what it computes (closed forms), how it fails (rank, cause, place), and that no process outlives it."""

import ctypes
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import nbformat
import pytest
import torch
import torch.distributed as dist
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from trex.launch import ranks
from trex.launch.ranks import RanksError, run


def parent_of(pid: int) -> int | None:
    """Parent of a process that is there and no zombie, else None."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] == "Z" else int(fields[1])


def all_children(parent: int) -> list[int]:
    """Direct children, zombies included."""
    listed = Path(f"/proc/{parent}/task").glob("*/children")
    return [int(pid) for path in listed for pid in path.read_text().split()]


def gone(pids: Iterable[int], within_s: float = 5) -> bool:
    """Whether all processes end within the time."""
    limit = time.monotonic() + within_s
    while any(parent_of(pid) is not None for pid in pids):
        if time.monotonic() > limit:
            return False
        time.sleep(0.02)
    return True


def server_pid() -> int:
    return ranks._live_server()._process.pid


@pytest.fixture(autouse=True, scope="module")
def started() -> None:
    """The first call loads torch, which takes seconds; the tests bound the time of later calls."""
    run(abs, 1)


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """After every test the fork server has no child, not even a zombie."""
    yield
    assert all_children(server_pid()) == []


# --- what it computes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("world", [1, 2, 5])
def test_all_reduce_sums(world: int) -> None:
    def total(rank: int, base: int) -> torch.Tensor:
        value = torch.tensor([base + rank, rank * rank])
        dist.all_reduce(value)
        return value

    expected = [10 * world + world * (world - 1) // 2, (world - 1) * world * (2 * world - 1) // 6]
    assert [value.tolist() for value in run(total, world, 10)] == [expected] * world


def test_all_to_all_transposes() -> None:
    def exchange(rank: int) -> torch.Tensor:
        world = dist.get_world_size()
        sent, received = torch.arange(world) + 10 * rank, torch.empty(world, dtype=torch.int64)
        dist.all_to_all_single(received, sent)
        return received

    table = torch.stack(run(exchange, 4))
    assert table.equal(torch.arange(4).unsqueeze(1) + 10 * torch.arange(4))  # row r, column s: s's r-th element


def test_ring_of_sends_brings_every_value_round() -> None:
    def ring(rank: int) -> list[int]:
        world, value, seen = dist.get_world_size(), torch.tensor([rank]), []
        for _ in range(world):
            arriving = torch.empty_like(value)
            to_next = dist.P2POp(dist.isend, value, (rank + 1) % world)
            from_last = dist.P2POp(dist.irecv, arriving, (rank - 1) % world)
            for work in dist.batch_isend_irecv([to_next, from_last]):
                work.wait()
            value = arriving
            seen.append(int(value))
        return seen

    assert run(ring, 4) == [[(rank - hop) % 4 for hop in (1, 2, 3, 4)] for rank in range(4)]


def test_ranks_that_finish_early_break_no_one() -> None:
    def uneven(rank: int) -> int:
        value = torch.full((100_000,), rank)
        if rank < 2:
            dist.send(value, rank + 2)
            return rank
        time.sleep(0.2)
        dist.recv(value, rank - 2)
        return int(value.unique())

    assert run(uneven, 4) == [0, 1, 0, 1]


# --- what travels -----------------------------------------------------------------------------------------------------

FACTOR = 3


@dataclass(frozen=True)
class Share:
    rank: int
    values: torch.Tensor


def scaled(rank: int, share: Share) -> Share:
    return Share(rank, FACTOR * share.values + rank)


def test_functions_of_this_module_and_their_classes_travel() -> None:
    results = run(scaled, 2, Share(-1, torch.arange(3)))
    assert all(type(result) is Share for result in results)
    assert [result.values.tolist() for result in results] == [[0, 3, 6], [1, 4, 7]]
    assert run(partial(scaled, share=Share(-1, torch.ones(1))), 1)[0].values.tolist() == [3]


def test_closures_and_lambdas_travel() -> None:
    offset = torch.tensor(7)
    assert run(lambda rank, *rest: (rank + offset.item(), rest), 2, "a", None) == [(7, ("a", None)), (8, ("a", None))]


def test_a_function_of_an_installed_package_travels_by_name() -> None:
    assert run(divmod, 2, 7) == [(0, 0), (0, 1)]
    assert run(torch.add, 2, 7) == [7, 8]


def test_a_large_tensor_returns_whole() -> None:
    elements = 50_000_000  # 200 MB of int32

    def large(rank: int) -> torch.Tensor | None:
        return torch.arange(elements, dtype=torch.int32) if rank == 1 else None

    nothing, values = run(large, 2)
    assert nothing is None
    assert values.equal(torch.arange(elements, dtype=torch.int32))


def test_surroundings_are_the_callers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run(lambda rank: None, 1)  # the server was started before these changes
    monkeypatch.setenv("TREX_SURROUNDING", "here")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path / "code"))
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "beside_the_notebook.py").write_text("def double(x):\n    return 2 * x\n")

    def look(rank: int) -> tuple[object, ...]:
        import beside_the_notebook

        names = ("TREX_SURROUNDING", "RANK", "WORLD_SIZE")
        return os.getcwd(), *map(os.environ.get, names), torch.get_num_threads(), beside_the_notebook.double(rank)

    assert run(look, 2, threads=2)[1] == (str(tmp_path), "here", "1", "2", 2, 2)


def test_sys_path_may_hold_path_objects(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "beside_as_path.py").write_text("def triple(x):\n    return 3 * x\n")
    monkeypatch.setattr(sys, "path", [tmp_path, *sys.path])
    ranks._live_server().close()  # so that the server, too, starts with this path

    def look(rank: int) -> int:
        import beside_as_path

        return int(beside_as_path.triple(rank))

    assert run(look, 2, timeout_s=1e6) == [0, 3]


def test_output_is_shown_in_the_order_of_ranks(capfd: pytest.CaptureFixture[str]) -> None:
    def speak(rank: int) -> None:
        for part in "ab":
            time.sleep(0.02 * (3 - rank))
            print(part, rank)
        print("unseen", file=sys.stderr)

    run(speak, 3)
    lines = [f"[rank {rank}] {part} {rank}" for rank in range(3) for part in "ab"]
    assert capfd.readouterr() == ("\n".join(lines) + "\n", "")


def test_runs_in_two_threads_do_not_mix() -> None:
    def total(rank: int, base: int) -> int:
        value = torch.tensor(base + rank)
        dist.all_reduce(value)
        return int(value)

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda base: run(total, 2, base), [0, 100, 1000]))
    assert results == [[1, 1], [201, 201], [2001, 2001]]


# --- how it fails -----------------------------------------------------------------------------------------------------


def failure(fn: Callable[..., object], world: int, *args: object, within_s: float = 30, **options: float) -> RanksError:
    start = time.monotonic()
    with pytest.raises(RanksError) as caught:
        run(fn, world, *args, **options)
    assert time.monotonic() - start < within_s
    return caught.value


def test_a_failing_rank_ends_the_others_and_shows_its_traceback() -> None:
    def one_fails(rank: int) -> None:
        if rank == 2:
            raise KeyError("expert 7 has no share")
        time.sleep(60)

    error = failure(one_fails, 4)
    assert error.rank == 2
    assert str(error).startswith("rank 2 of 4 failed:\nTraceback")
    assert 'raise KeyError("expert 7 has no share")' in str(error)
    assert "worker.py" not in str(error)


@pytest.mark.parametrize("attempt", range(5))
def test_the_cause_is_named_not_the_broken_connections(attempt: int) -> None:
    def one_fails(rank: int) -> None:
        dist.barrier()
        if rank == 1:
            raise ArithmeticError("the cause")
        dist.all_reduce(torch.ones(1))

    error = failure(one_fails, 4)
    assert error.rank == 1 and "ArithmeticError: the cause" in str(error)


@pytest.mark.parametrize("attempt", range(5))
def test_a_killed_rank_is_named_with_its_signal(attempt: int) -> None:
    def one_is_killed(rank: int) -> None:
        dist.barrier()
        if rank == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        dist.all_reduce(torch.ones(1))

    error = failure(one_is_killed, 3)
    assert error.rank == 2 and str(error).startswith("rank 2 of 3 was killed by SIGKILL")


def test_a_crash_in_native_code_shows_where() -> None:
    def reads_nowhere() -> None:
        ctypes.string_at(0)

    error = failure(lambda rank: reads_nowhere() if rank == 0 else time.sleep(60), 2)
    assert "rank 0 of 2 was killed by SIGSEGV" in str(error) and "in reads_nowhere" in str(error)


def test_time_out_names_the_ranks_and_where_they_were() -> None:
    def waits_for_no_one() -> None:
        dist.all_reduce(torch.ones(1))

    def hangs(rank: int) -> None:
        if rank in (1, 2):
            waits_for_no_one()

    error = failure(hangs, 4, timeout_s=1)
    assert error.rank == 1 and str(error).startswith("not finished after 1 s: rank 1, 2 of 4")
    assert str(error).count("in waits_for_no_one") == 2 and "rank 0" not in str(error)


def test_a_rank_that_cannot_be_asked_is_killed_all_the_same() -> None:
    error = failure(lambda rank: os.kill(os.getpid(), signal.SIGSTOP), 1, timeout_s=0.5)
    assert str(error).startswith("not finished after 0.5 s: rank 0 of 1")


@pytest.mark.parametrize(("leave", "told"), [(os._exit, "exit code 0 and no result"), (sys.exit, "SystemExit: 0")])
def test_a_rank_that_leaves_is_told(leave: Callable[[int], None], told: str) -> None:
    error = failure(lambda rank: leave(0) if rank == 0 else time.sleep(60), 2)
    assert error.rank == 0 and told in str(error)


def test_a_rank_that_leaves_is_the_cause_of_what_the_others_raise() -> None:
    def one_leaves(rank: int) -> None:
        if rank == 0:
            time.sleep(0.1)  # the other's report comes first, as when it is still connecting
            os._exit(0)
        raise ConnectionError("lost rank 0")

    error = failure(one_leaves, 2)
    assert error.rank == 0 and "exit code 0 and no result" in str(error)
    assert "then rank 1: ConnectionError: lost rank 0" in str(error)


def test_what_cannot_be_pickled_is_told() -> None:
    with pytest.raises(RanksError, match=r"function or its arguments cannot be sent to ranks: TypeError.*lock"):
        run(print, 1, threading.Lock())
    error = failure(lambda rank: threading.Lock() if rank else None, 2)
    assert error.rank == 1 and "the result, a lock, cannot be pickled: TypeError" in str(error)


def test_a_sys_path_that_cannot_be_sent_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for entry, told in ((3, "TypeError: expected str, bytes or os.PathLike"), (b"code", "TypeError: Object of type")):
        monkeypatch.setattr(sys, "path", [*sys.path, entry])
        with pytest.raises(RanksError, match=f"sys.path cannot be sent to ranks: {told}"):
            run(abs, 1)
        monkeypatch.undo()


class OnlyInRank:
    """Pickles everywhere, unpickles nowhere but in a rank."""

    def __reduce__(self) -> tuple[object, ...]:
        return needs_process_group, ()


def needs_process_group() -> None:
    if not dist.is_initialized():
        raise RuntimeError("no process group here")


def test_a_result_the_caller_cannot_read_is_told() -> None:
    error = failure(lambda rank: OnlyInRank(), 1)
    assert "the result of rank 0 cannot be read by its caller: RuntimeError: no process group here" in str(error)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"world": 0}, "world 0; accepted: whole numbers from 1 on"),
        ({"world": -2}, "world -2"),
        ({"world": 2.0}, "world 2.0"),
        ({"world": True}, "world True"),
        ({"threads": 0}, "threads 0"),
        ({"timeout_s": 0}, "timeout_s 0; accepted: seconds above 0, at most 1000000"),
        ({"timeout_s": float("nan")}, "timeout_s nan"),
        ({"timeout_s": float("inf")}, "timeout_s inf"),
        ({"timeout_s": 1e12}, "timeout_s 1000000000000.0; accepted"),
        ({"timeout_s": "5"}, "timeout_s '5'; accepted"),
        ({"timeout_s": None}, "timeout_s None; accepted"),
        ({"timeout_s": True}, "timeout_s True; accepted"),
        ({"backend": "glue"}, "backend 'glue'; accepted: gloo, nccl, hccl"),
        ({"fn": 3}, "fn is a int"),
    ],
)
def test_bad_input_is_named(options: dict[str, object], told: str) -> None:
    with pytest.raises(RanksError, match=told):
        run(**{"fn": print, "world": 1, **options})  # type: ignore[arg-type]


def test_after_every_failure_the_next_run_works() -> None:
    failure(lambda rank: os.kill(server_of(os.getpid()), signal.SIGKILL), 2)
    assert run(lambda rank: rank, 2) == [0, 1]


def server_of(rank_pid: int) -> int:
    return int(Path(f"/proc/{rank_pid}/stat").read_text().rpartition(")")[2].split()[1])


# --- what it leaves behind: nothing -----------------------------------------------------------------------------------


@pytest.mark.parametrize("fails", [False, True])
def test_processes_started_by_a_rank_end_with_it(fails: bool) -> None:
    def starts_another(rank: int) -> int:
        pid = subprocess.Popen(["sleep", "300"]).pid
        if fails:
            raise RuntimeError(pid)
        return pid

    pids = [int(str(failure(starts_another, 1)).rpartition(" ")[2])] if fails else run(starts_another, 2)
    assert gone(pids)


SCRIPT = """
import os, time
from pathlib import Path
import torch
from trex.launch import ranks

print("once", flush=True)

def total(rank):
    value = torch.tensor(rank)
    torch.distributed.all_reduce(value)
    return int(value)

def sleep(rank, name):
    Path(f"{name}.part{rank}").write_text(f"{os.getpid()} {os.getppid()}")
    Path(f"{name}.part{rank}").rename(f"{name}.{rank}")
    time.sleep(300)

print(ranks.run(total, 3), flush=True)
try:
    ranks.run(sleep, 2, "interrupted")
except KeyboardInterrupt:
    print("interrupted", flush=True)
if __name__ == "__main__":
    ranks.run(sleep, 2, "killed")
"""


def test_a_script_needs_no_guard_and_leaves_no_process_when_interrupted_or_killed(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)

    def pids_in(name: str) -> set[int]:
        files = [tmp_path / f"{name}.{rank}" for rank in range(2)]
        limit = time.monotonic() + 60
        while not all(file.exists() for file in files):
            assert time.monotonic() < limit and process.poll() is None
            time.sleep(0.05)
        return {int(pid) for file in files for pid in file.read_text().split()}

    with open(tmp_path / "output", "w") as output:
        process = subprocess.Popen(
            [sys.executable, "script.py"],
            cwd=tmp_path,
            env={**os.environ, "TMPDIR": str(tmp_path)},  # a killed caller cannot remove its files
            start_new_session=True,
            stdout=output,
        )
    try:
        before = pids_in("interrupted")
        os.killpg(process.pid, signal.SIGINT)  # what Ctrl-C in a terminal does
        after = pids_in("killed")
        assert (tmp_path / "output").read_text() == "once\n[3, 3, 3]\ninterrupted\n"
        assert len(before & after) == 1 and gone(before - after)  # the server stays, two ranks go
    finally:
        process.kill()
        process.wait()
    assert len(after) == 3 and gone(after)


def test_from_notebook_cells(tmp_path: Path) -> None:
    cells = [
        "import torch\nfrom trex.launch import ranks\nscale = 5",
        "def inner(value):\n    return scale * value",
        "def outer(rank):\n    value = torch.tensor(inner(rank))\n    torch.distributed.all_reduce(value)\n"
        "    print('sum', int(value))\n    return int(value)",
        "ranks.run(outer, 3)",
        "def fails(rank):\n    return inner(rank) / (rank - 1)\nranks.run(fails, 2)",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    client = NotebookClient(notebook, timeout=60, kernel_name="python3", resources={"metadata": {"path": tmp_path}})
    with pytest.raises(CellExecutionError) as caught:
        client.execute()
    printed, value = notebook.cells[3].outputs
    assert printed.text == "".join(f"[rank {rank}] sum 15\n" for rank in range(3))
    assert value.data["text/plain"] == "[15, 15, 15]"
    assert "rank 1 of 2 failed" in str(caught.value)
    assert re.search(r", in fails\n +return inner\(rank\) / \(rank - 1\)\n", str(caught.value))  # the cell's own line


@pytest.mark.gpu
def test_accelerator_tensors_arrive_on_the_cpu() -> None:
    def total(rank: int) -> torch.Tensor:
        value = torch.ones(2, device="cuda")
        dist.all_reduce(value)
        return value

    (value,) = run(total, 1, backend="nccl")
    assert value.device.type == "cpu" and value.tolist() == [1, 1]
