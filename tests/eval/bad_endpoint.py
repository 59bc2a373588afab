"""An OpenAI-compatible server on loopback that misbehaves as told and counts who asked what."""

import json
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Key = tuple[str, int]
STATUS = {"401": 401, "403": 403, "404": 404, "400": 400, "408": 408, "429": 429, "500": 500, "503": 503}
USAGE: dict[str, dict[str, Any] | None] = {  # answers that do not say what was used, or what cannot be
    "no-usage": None,
    "too-much": {"prompt_tokens": 10**9, "completion_tokens": 3, "total_tokens": 10**9 + 3},
    "negative": {"prompt_tokens": 7, "completion_tokens": -50, "total_tokens": -43},
    "cached": {
        "prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10, "prompt_tokens_details": {"cached_tokens": 5}
    },
}  # fmt: skip


class BadEndpoint:
    """Answers "answer to ITEM, sample K"; the last word of the last message is the item, the seed is the sample.

    misdeeds: by item (or by (item, sample)), what becomes of its first requests, one after the other; then it answers.
    """

    def __init__(
        self, misdeeds: Mapping[Any, Sequence[str]] | None = None, headers: Mapping[str, str] | None = None,
        delay_s: float = 0.0, seed: int = 0, text: Callable[[Key], str] = lambda k: f"answer to {k[0]}, sample {k[1]}",
    ) -> None:  # fmt: skip
        self.misdeeds, self.headers, self.delay_s, self.seed, self.text = (
            misdeeds or {},
            headers or {},
            delay_s,
            seed,
            text,
        )
        self.requests: Counter[Key] = Counter()
        self.answered: Counter[Key] = Counter()  # whole answers that were sent, cut ones included
        self.times: dict[Key, list[float]] = defaultdict(list)
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.running = self.most = 0
        self.lock, self.end = threading.Lock(), threading.Event()

    def __enter__(self) -> "BadEndpoint":
        self.server = Server(("127.0.0.1", 0), handler(self))
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"
        return self

    def __exit__(self, *error: object) -> None:
        self.end.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def next(self, body: dict[str, Any]) -> tuple[Key, str]:
        """Count a request; whose it is and what becomes of it."""
        key = body["messages"][-1]["content"].split()[-1], body["seed"] - self.seed
        with self.lock:
            self.bodies.append(body)
            self.times[key].append(time.monotonic())
            self.requests[key] += 1
            told = self.misdeeds.get(key, self.misdeeds.get(key[0], ()))
            return key, told[self.requests[key] - 1] if self.requests[key] <= len(told) else "ok"


class Server(ThreadingHTTPServer):
    """Does not tell of clients that left, killed say."""

    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, *_: object) -> None:
        """Say nothing of connections; pass on what is wrong with the server itself."""
        if not isinstance(sys.exc_info()[1], OSError):
            raise


def completion(text: str | None, finish: str = "stop") -> dict[str, Any]:
    """A body as the API has it."""
    return {
        "id": "c", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text}}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
    }  # fmt: skip


def handler(owner: BadEndpoint) -> type[BaseHTTPRequestHandler]:
    """The handler of one endpoint."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def send(
            self, data: bytes, status: int = 200, kind: str = "application/json", length: int | None = None
        ) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data) if length is None else length))
            for name, value in owner.headers.items() if status >= 400 else ():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        def do_POST(self) -> None:
            data = self.rfile.read(length := int(self.headers["Content-Length"]))
            if len(data) < length:  # the client was killed amid its request
                self.close_connection = True
                return
            body = json.loads(data)
            owner.keys.append(self.headers.get("Authorization", ""))
            with owner.lock:
                owner.running += 1
                owner.most = max(owner.most, owner.running)
            try:
                self.answer(*owner.next(body))
            except OSError:
                self.close_connection = True  # the client has left
            finally:
                with owner.lock:
                    owner.running -= 1

        def answer(self, key: Key, what: str) -> None:
            owner.end.wait(owner.delay_s)
            whole = json.dumps(completion(owner.text(key))).encode()
            if what in ("ok", "length", *USAGE):
                with owner.lock:
                    owner.answered[key] += 1
            if what == "ok":
                self.send(whole)
            elif what in USAGE:
                self.send(json.dumps({**completion(owner.text(key)), "usage": USAGE[what]}).encode())
            elif what in STATUS:
                said = f"told to say {what}; you sent {self.headers.get('Authorization')}"
                self.send(json.dumps({"error": {"message": said, "type": "t", "code": None}}).encode(), STATUS[what])
            elif what == "too-long":
                error = {
                    "message": "prompt too long",
                    "type": "invalid_request_error",
                    "code": "context_length_exceeded",
                }
                self.send(json.dumps({"error": error}).encode(), 400)
            elif what == "length":
                self.send(json.dumps(completion("cut of", "length")).encode())
            elif what == "empty":
                self.send(json.dumps(completion("")).encode())
            elif what == "null":
                self.send(json.dumps(completion(None)).encode())
            elif what == "malformed":
                self.send(whole[:-9])
            elif what == "html":
                self.send(b"<html>busy</html>", kind="text/html")
            elif what == "text":
                self.send(b'"busy"')
            elif what == "no-choices":
                self.send(b'{"error": {"message": "overloaded"}}')
            elif what == "empty-choices":
                self.send(json.dumps({**completion(""), "choices": []}).encode())
            elif what == "half":
                self.send(whole[: len(whole) // 2], length=len(whole))
                self.close_connection = True
            elif what == "reset":
                self.close_connection = True
            elif what == "silent":
                owner.end.wait(60)
                self.close_connection = True
            elif what == "drip":
                self.send(b"", length=len(whole))
                for k in range(len(whole)):
                    self.wfile.write(whole[k : k + 1])
                    if owner.end.wait(0.1):
                        return
            else:
                raise AssertionError(what)

    return Handler
