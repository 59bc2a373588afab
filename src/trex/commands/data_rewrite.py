"""`trex data rewrite`: problems of a finished folder told in other words by a language model, where nothing is lost."""

import asyncio
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

if TYPE_CHECKING:
    from trex.data.documents import Document
    from trex.data.endpoint import Ask, Endpoint, Settings
    from trex.data.rewritten import Store

Folder = tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="FOLDER")]]


def rewrite(
    folder: Folder,
    base_url: str,
    model: str,
    api_key_variable: str = "",
    count: int | None = None,
    attempts: int = 3,
    max_requests: int | None = None,
    concurrency: int = 8,
    seed: int = 0,
    temperature: float | None = None,
    top_p: float | None = None,
    max_tokens: int | None = None,
    timeout_s: float = 600.0,
    retries: int = 5,
) -> int:
    """Have a language model put problems into other words; what loses a number, a unit, a name or a rule is refused.

    Appends to rewritten.jsonl and rewriting_refusals.jsonl; documents.jsonl stays as it is. The same command goes on
    where it was stopped. Exits 1 where documents are left that were neither rewritten nor refused for good.

    Args:
        folder: What `trex data generate` made, finished.
        base_url: Address of an OpenAI-compatible server, up to and with /v1.
        model: Name that the server gives its model.
        api_key_variable: Name of the environment's variable that holds the server's key.
        count: So many documents, the first ones; all by default.
        attempts: Answers of this model for one document, all runs together; each is told why the last was refused.
        max_requests: Requests of this run at most, failed ones included; no limit by default.
        concurrency: Requests at once.
        seed: Of answers (plus the number of the attempt), where the server takes one.
        temperature: Left to the server by default, like the next two.
        top_p: Nucleus of the sampling.
        max_tokens: Longest answer.
        timeout_s: Seconds of one request.
        retries: Requests again for an answer that did not come, after growing pauses.
    """
    from trex.data.endpoint import Endpoint, Settings, run_apart
    from trex.data.problem import DataError
    from trex.data.rewritten import store

    for name, value, least in (
        ("count", count, 1), ("attempts", attempts, 1), ("max-requests", max_requests, 1), ("retries", retries, 0),
    ):  # fmt: skip
        if value is not None and value < least:
            raise DataError(f"--{name} {value}; accepted: whole numbers from {least}")
    endpoint = Endpoint(base_url, model, api_key_variable, concurrency, timeout_s, retries + 1)
    endpoint.api_key()
    settings = Settings(temperature, top_p, max_tokens, seed)
    with store(folder, model) as kept:
        run = _Run(endpoint, settings, kept, attempts, max_requests)
        run_apart(run.all(folder, count))
    print(
        f"{run.accepted} rewritten, {run.refused} refused in {attempts} attempts, {run.requests} requests now; "
        f"{len(kept.accepted)} rewritten in all"
    )
    for number, (k, reason) in enumerate(run.errors.items()):
        if number == 5:
            print(f"  and {len(run.errors) - 5} more")
            break
        print(f"  document {k}: no answer: {reason}"[:200])
    if run.spent:
        print(f"stopped after {run.requests} requests (--max-requests); the same command goes on")
    return 1 if run.errors or run.spent else 0


class _Run:
    """One run: its budget, and what became of the documents."""

    def __init__(
        self, endpoint: "Endpoint", settings: "Settings", kept: "Store", attempts: int, max_requests: int | None
    ) -> None:
        self.endpoint, self.settings, self.kept = endpoint, settings, kept
        self.attempts, self.max_requests = attempts, max_requests
        self.accepted = self.refused = self.requests = 0
        self.errors: dict[int, str] = {}
        self.spent = False

    async def all(self, folder: Path, count: int | None) -> None:
        """Ask for all documents that are open, `concurrency` at a time."""
        from tqdm import tqdm

        from trex.data.documents import read_jsonl
        from trex.data.engine import DOCUMENTS
        from trex.data.rewritten import total

        todo = enumerate(islice(read_jsonl(folder / DOCUMENTS), count))
        size = total(folder)
        with tqdm(total=size if count is None else min(count, size), unit=" documents", disable=None) as bar:
            async with self.endpoint.asking(self.settings) as ask:
                workers = [
                    asyncio.create_task(self._work(todo, ask, bar)) for _ in range(min(self.endpoint.concurrency, size))
                ]
                try:
                    await asyncio.gather(*workers)
                finally:
                    for worker in workers:
                        worker.cancel()
                    await asyncio.gather(*workers, return_exceptions=True)

    async def _work(self, todo: "Iterator[tuple[int, Document]]", ask: "Ask", bar: object) -> None:
        for k, document in todo:
            self.kept.check(k, document)
            await self._document(k, document, ask)
            if self.spent:
                return
            bar.update()  # type: ignore[attr-defined]
            bar.set_postfix_str(  # type: ignore[attr-defined]
                f"rewritten:{self.accepted} refused:{self.refused}", refresh=False
            )
            await asyncio.sleep(0)  # documents that are done are passed over without an await

    async def _document(self, k: int, document: "Document", ask: "Ask") -> None:
        """Ask until a reply is accepted, no attempt is left, or no answer comes."""
        from trex.data.rewriting import messages

        if k in self.kept.accepted:
            return
        while (tried := len(self.kept.refused.get(k, ()))) < self.attempts:
            chat = messages(document, self.kept.refused.get(k, ()))
            reply = await self._reply(k, chat, tried, ask)
            if reply is None:
                return
            if not self.kept.add(k, document, reply):
                self.accepted += 1
                return
        self.refused += 1

    async def _reply(self, k: int, chat: "list[dict[str, str]]", tried: int, ask: "Ask") -> str | None:
        """The text of an answer; None where none came, or no request is left."""
        from trex.data.endpoint import AskError, EndpointError, pause_s

        for attempt in range(1, self.endpoint.attempts + 1):
            if self.max_requests is not None and self.requests >= self.max_requests:
                self.spent = True
                return None
            self.requests += 1
            try:
                row = await ask(chat, None if self.settings.seed is None else self.settings.seed + tried)
                return str(row["text"] or "")
            except AskError as error:
                wait_s = error.wait_s or 0.0
                if error.stop:
                    raise EndpointError(f"{self.endpoint.base_url} turns requests away: {error}") from None
                if not error.again or attempt == self.endpoint.attempts or wait_s > self.endpoint.longest_wait_s:
                    asks = f"; the server asks to wait {wait_s:.0f} s" if wait_s > self.endpoint.longest_wait_s else ""
                    self.errors[k] = f"{error}{asks}"
                    return None
            await asyncio.sleep(pause_s(self.endpoint, attempt, wait_s))
        return None
