"""A model hub on this machine: the endpoints that the clients of Hugging Face and ModelScope call, over a folder."""

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

COMMIT = "c0ffee" * 6 + "c0ff"
LARGE = 1000  # bytes from which a file is stored apart from git, as large files are


@dataclass
class LocalHub:
    """What it serves, what it does wrong, what it was asked."""

    folder: Path
    repo: str = "lab/tiny"
    address: str = ""
    gated: bool = False
    altered: set[str] = field(default_factory=set)  # files with a byte flipped on the way
    cut: dict[str, int] = field(default_factory=dict)  # file → bytes after which the connection is closed, once
    halted: dict[str, int] = field(default_factory=dict)  # file → bytes after which nothing comes until `go_on`, once
    reached: Event = field(default_factory=Event)  # set when a file was halted
    go_on: Event = field(default_factory=Event)
    asked: list[tuple[str, str | None]] = field(default_factory=list)  # file and Range of each GET of content

    def listing(self) -> list[tuple[str, bytes]]:
        """Every file with its content."""
        paths = sorted(path for path in self.folder.rglob("*") if path.is_file())
        return [(path.relative_to(self.folder).as_posix(), path.read_bytes()) for path in paths]


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def git_blob(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@contextmanager
def serve(hub: LocalHub) -> Iterator[LocalHub]:
    """Answer on 127.0.0.1 while the block runs."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            path, query = unquote(url.path), parse_qs(url.query)
            hugging = re.fullmatch(r"/api/models/(\w+/\w+)(?:/revision/(\w+)|(/tree)/\w+)?", path)
            content = re.fullmatch(r"/(\w+/\w+)/resolve/(\w+)/(.+)", path)
            scope = re.fullmatch(r"/api/v1/models/(\w+/\w+)(/repo(?:/files)?)?", path)
            found = hugging or content or scope
            if not found or found[1] != hub.repo:
                self.error(404, "RepoNotFound")
            elif hub.gated and (content or (scope and scope[2])):
                self.error(403, "GatedRepo")
            elif hugging and hugging[2] not in (None, "main", COMMIT):
                self.error(404, "RevisionNotFound")
            elif hugging and hugging[3]:
                self.json([self.entry(name, body) for name, body in hub.listing()])
            elif hugging:
                self.json({"id": hub.repo, "sha": COMMIT, "siblings": []})
            elif content:
                self.file(content[3])
            elif scope and scope[2] == "/repo/files":
                files = [
                    {"Path": name, "Name": name, "Size": len(body), "Sha256": sha256(body), "Type": "blob"}
                    for name, body in hub.listing()
                ]
                self.json({"Code": 200, "Success": True, "Data": {"Files": files}})
            elif scope and scope[2]:
                self.file(query["FilePath"][0])
            else:
                self.json({"Code": 200, "Success": True, "Data": {"Name": hub.repo}})

        def entry(self, name: str, body: bytes) -> dict[str, Any]:
            known = {"type": "file", "path": name, "size": len(body), "oid": git_blob(body)}
            if len(body) >= LARGE:
                known["lfs"] = {"oid": sha256(body), "size": len(body), "pointerSize": 100}
            return known

        def error(self, status: int, code: str) -> None:
            self.send_response(status)
            self.send_header("X-Error-Code", code)
            self.send_header("X-Error-Message", code)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def json(self, body: Any) -> None:
            data = json.dumps(body).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(data)

        def file(self, name: str) -> None:
            body = (hub.folder / name).read_bytes()
            tag = sha256(body) if len(body) >= LARGE else git_blob(body)
            if name in hub.altered:
                body = body[:-1] + bytes([body[-1] ^ 1])
            wanted = self.headers.get("Range")
            start = int(wanted.removeprefix("bytes=").split("-")[0]) if wanted else 0
            self.send_response(206 if wanted else 200)
            self.send_header("ETag", f'"{tag}"')
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("Accept-Ranges", "bytes")
            self.send_header("Content-Length", str(len(body) - start))
            if wanted:
                self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
            self.end_headers()
            if self.command == "HEAD":
                return
            hub.asked.append((name, wanted))
            halt, stop = hub.halted.pop(name, None), hub.cut.pop(name, None)
            self.wfile.write(body[start : halt or stop])
            self.wfile.flush()
            if halt is not None:
                hub.reached.set()
                hub.go_on.wait(120)
            self.close_connection = halt is not None or stop is not None

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    hub.address = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield hub
    finally:
        hub.go_on.set()
        server.shutdown()
        server.server_close()
        thread.join()
