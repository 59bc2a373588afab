"""`trex serve` as a process that is interrupted: clients get an error, the terminal no traceback."""

import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from trex.checkpoint import save_hf
from trex.data.tokens import Tokenizer
from trex.model.config import ModelConfig
from trex.model.transformer import Transformer

REDUCED = Tokenizer.fit(["Minimise the cost"])
SLOW = """
import sys, time
from trex.model.generate import Token
from trex.serve import app

def script(model, rows, **how):  # a token at once, the others late
    yield Token(0, 70, -1.0, None)
    while True:
        time.sleep(WAIT)
        yield Token(0, 70, -1.0, None)

app.stream = script
from trex.cli import main
sys.argv = ["trex", "serve", *sys.argv[1:]]
sys.exit(main())
"""
ASK = {"model": "model", "prompt": "Minimise", "max_tokens": 4000}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("serve") / "model"
    model = Transformer(ModelConfig.tiny(vocab_size=REDUCED.vocab_size))
    return save_hf(model, path, extra={"trex_tokenizer.json": REDUCED.to_dict()})


@pytest.fixture
def start(folder: Path) -> Iterator[Callable[[float], tuple[subprocess.Popen[str], str]]]:
    """Starts a server whose tokens take so many seconds; its process and address."""
    started = []

    def begin(wait: float) -> tuple[subprocess.Popen[str], str]:
        command = [sys.executable, "-c", SLOW.replace("WAIT", str(wait)), str(folder), "--port", "0"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("model at http://"), line
        address = line.split()[-1].removesuffix("/v1")
        for _ in range(100):
            try:
                assert httpx.get(f"{address}/health", trust_env=False).json()["status"] == "ok"
                break
            except httpx.ConnectError:
                threading.Event().wait(0.05)
        return process, address

    yield begin
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("sent", "code"), [(signal.SIGINT, 0), pytest.param(signal.SIGTERM, -signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_clients_get_an_error_and_no_traceback_is_printed(
    start: Callable[[float], tuple[subprocess.Popen[str], str]], sent: signal.Signals, code: int
) -> None:
    """One client streams, one waits for a whole answer, one has sent half its request."""
    process, address = start(0.05)
    whole: list[httpx.Response] = []

    def ask() -> None:
        whole.append(httpx.post(f"{address}/v1/completions", json=ASK, trust_env=False, timeout=60))

    with (
        httpx.stream("POST", f"{address}/v1/completions", json=ASK | {"stream": True}, trust_env=False) as answer,
        socket.create_connection(("127.0.0.1", int(address.rsplit(":", 1)[1]))) as half,
    ):
        half.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        asking = threading.Thread(target=ask)
        asking.start()
        while httpx.get(f"{address}/health", trust_env=False).json()["running"] < 2:
            pass
        lines = answer.iter_lines()
        assert next(lines).startswith("data: {")
        process.send_signal(sent)
        last = [line for line in lines if line][-1]
    asking.join(60)
    assert json.loads(last.removeprefix("data: "))["error"]["message"] == "the server is shutting down"
    assert whole[0].status_code == 503 and whole[0].json()["error"]["type"] == "server_error"
    assert process.communicate(timeout=60) == ("", "") and process.returncode == code


@pytest.mark.slow
def test_clients_need_not_wait_for_the_token_and_a_second_signal_does_not_either(
    start: Callable[[float], tuple[subprocess.Popen[str], str]],
) -> None:
    process, address = start(3600)
    with httpx.stream(
        "POST", f"{address}/v1/completions", json=ASK | {"stream": True}, trust_env=False, timeout=60
    ) as answer:
        lines = answer.iter_lines()
        assert next(lines).startswith("data: {")
        process.send_signal(signal.SIGINT)
        assert "the server is shutting down" in [line for line in lines if line][-1]
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60) == ("", "") and process.returncode == 130
