"""Where answers come from: any OpenAI-compatible endpoint, asked through inspect-ai, or a file of recorded answers."""

import asyncio
import hashlib
import math
import os
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from trex.eval.plan import Messages, Settings
from trex.eval.rows import EvaluationError, Key, Row, key, read_json

SHOWN = 300  # letters of an endpoint's error that a row keeps
STOP = (401, 403, 404)  # no other request will fare better
AGAIN = (408, 429)  # and 5xx
ROLES = ("system", "user", "assistant")
REFUSED = ("model_length", "content_filter")  # how inspect tells of a status 400 that it takes for an answer


class AskError(Exception):
    """One request got no answer. again: whether another may; wait_s: what the endpoint asked to wait, in seconds."""

    def __init__(self, message: str, *, again: bool, stop: bool = False, wait_s: float | None = None) -> None:
        super().__init__(message)
        self.again, self.stop, self.wait_s = again, stop, wait_s


Ask = Callable[[Messages, int | None], Awaitable[Row]]


@dataclass(frozen=True)
class Endpoint:
    """An OpenAI-compatible server, and how patiently it is asked. The key is read from the environment when asking.

    Raises EvaluationError for a setting that is not accepted.
    """

    base_url: str  # up to and with /v1
    model: str
    api_key_variable: str = ""  # name of the environment's variable; none is sent where it is ""
    concurrency: int = 8  # requests at once
    timeout_s: float = 600.0  # of one request, from connecting to the last byte
    attempts: int = 6  # requests per sample and run
    backoff_s: float = 1.0  # doubles with each attempt; half of it is random
    longest_wait_s: float = 300.0  # a Retry-After beyond it fails the sample at once

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.base_url)
            usable = (
                parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
            )
        except ValueError:
            usable = False
        secret = usable and bool("@" in parts.netloc or parts.query or parts.fragment)
        if secret:  # which must not get into an error either
            raise EvaluationError(
                f"base_url of {parts.hostname} holds a user, a query or a fragment; accepted: http(s)://host[:port]/path"
                ", with the key in an environment variable"
            )
        if not usable or re.search(r"[\s\x00-\x1f]", self.base_url):
            raise EvaluationError(f"base_url = {self.base_url!r:.200}; accepted: http(s)://host[:port]/path")
        object.__setattr__(self, "base_url", self.base_url.rstrip("/"))
        if not self.model or self.model != self.model.strip():
            raise EvaluationError(f"model = {self.model!r:.200}; accepted: the name that the endpoint gives its model")
        for name in ("concurrency", "attempts"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 10_000:
                raise EvaluationError(f"{name} = {value!r:.80}; accepted: whole numbers from 1 to 10000")
        for name in ("timeout_s", "backoff_s", "longest_wait_s"):
            value = getattr(self, name)
            if not isinstance(value, (int, float)) or not math.isfinite(value) or value <= 0:
                raise EvaluationError(f"{name} = {value!r:.80}; accepted: positive numbers of seconds")

    def api_key(self) -> str:
        """The key, "" where none is sent. Raises EvaluationError where the variable holds none."""
        if not self.api_key_variable:
            return ""
        value = os.environ.get(self.api_key_variable, "").strip()
        if not value or not re.fullmatch(r"[!-~]+", value):
            found = "holds no key" if value else "is not set"
            raise EvaluationError(f"${self.api_key_variable} {found}; put the endpoint's key there")
        return value

    @asynccontextmanager
    async def asking(self, settings: Settings) -> AsyncIterator[Ask]:
        """A function that sends one request and returns what an answers row says of it; it raises AskError.

        Requests and answers are made by inspect's provider for such endpoints; the object around it, inspect's Model,
        is left out, since it changes the whole process: another sys.excepthook, in notebooks another asyncio. The
        client's own retries are switched off: `generate` retries, so that attempts are counted.
        """
        try:
            import openai
            from inspect_ai.model import GenerateConfig
            from inspect_ai.model._providers.openai_compatible import OpenAICompatibleAPI
        except ImportError as error:
            raise EvaluationError(f"{error.name} is not installed; install with: pip install -e '.[eval]'") from None
        secret = self.api_key()
        client = openai.DefaultAsyncHttpxClient(timeout=self.timeout_s)
        config = GenerateConfig(
            temperature=settings.temperature, top_p=settings.top_p, max_tokens=settings.max_tokens
        )  # fmt: skip
        provider = OpenAICompatibleAPI(
            f"endpoint/{self.model}", base_url=self.base_url, api_key=secret or "none", config=config, stream=False,
            http_client=client, max_retries=0,
        )  # fmt: skip

        async def ask(messages: Messages, seed: int | None) -> Row:
            started = time.monotonic()
            request = provider.generate(_chat(messages), [], "none", config.merge(GenerateConfig(seed=seed)))
            try:
                async with asyncio.timeout(self.timeout_s):
                    result = await request
                output = result[0] if isinstance(result, tuple) else result  # beside inspect's record of the request
                if isinstance(output, Exception):
                    raise output
                return {**_answer(output), "seconds": round(time.monotonic() - started, 3)}
            except TimeoutError:
                raise AskError(f"no answer within {self.timeout_s:g} s", again=True) from None
            except AskError:
                raise
            except Exception as error:  # whatever a server's bytes make the libraries raise
                raise _failure(error, secret) from None

        async with client:
            yield ask


@dataclass(frozen=True)
class Recorded:
    """Answers that were recorded before, by item and sample, with the hash of their file."""

    texts: Mapping[Key, str]
    sha256: str

    @staticmethod
    def read(path: Path) -> "Recorded":
        """Read JSON lines of item, sample and text. Raises EvaluationError that names file and line of a bad one."""
        try:
            data = path.read_bytes()
        except OSError as error:
            raise EvaluationError(f"{path} cannot be read: {error.strerror}") from None
        texts: dict[Key, str] = {}
        for number, line in enumerate(data.splitlines(), start=1):
            if not line.strip():
                continue
            where = f"{path}, line {number}"
            row = read_json(line, where)
            try:
                found, text = key(row), row.get("text")
            except EvaluationError as error:
                raise EvaluationError(f"{where}: {error}") from None
            if not isinstance(text, str):
                raise EvaluationError(f"{where}: 'text' is {text!r:.80}; accepted: a text")
            if found in texts:
                raise EvaluationError(f"{where}: item {found[0]!r}, sample {found[1]} is there twice")
            texts[found] = text
        return Recorded(texts, hashlib.sha256(data).hexdigest())

    @property
    def samples(self) -> int:
        """How many samples an item has at most: the largest sample's number and one."""
        return 1 + max((sample for _, sample in self.texts), default=0)

    def not_asked(self, keys: Iterable[Key]) -> str:
        """What of the answers none of these keys asks for, in words; "" where all are asked for.

        Raises EvaluationError where not one is.
        """
        asked = set(keys)
        items = {item for item, _ in asked}
        unknown = [found for found in self.texts if found[0] not in items]
        beyond = [found for found in self.texts if found[0] in items and found not in asked]
        if not self.texts:
            raise EvaluationError("there are no recorded answers; accepted: at least one, of an item that is asked")
        reasons = [
            f"{len(found)} {why} (the first: {found[0][0]}, sample {found[0][1]})"
            for found, why in ((unknown, "of items that are not asked"), (beyond, "of samples that are not asked"))
            if found
        ]
        dropped = f"{len(unknown) + len(beyond)} of {len(self.texts)} recorded answers are not used: "
        if len(unknown) + len(beyond) == len(self.texts):
            raise EvaluationError(f"{dropped}{', '.join(reasons)}; accepted: answers of items that are asked")
        return dropped + ", ".join(reasons) if reasons else ""

    def row(self, found: Key) -> Row:
        """The answers row of a sample; one with status "error" where it was not recorded."""
        text = self.texts.get(found)
        row = {
            "item": found[0],
            "sample": found[1],
            "status": "ok" if text is not None else "error",
            "text": text or "",
        }
        return {
            **row,
            "error": "" if text is not None else "no recorded answer",
            "attempts": 0,
            "seconds": 0.0,
            "usage": None,
        }


def _chat(messages: Messages) -> list[Any]:
    from inspect_ai.model import ChatMessageAssistant, ChatMessageSystem, ChatMessageUser

    kinds = dict(zip(ROLES, (ChatMessageSystem, ChatMessageUser, ChatMessageAssistant), strict=True))
    return [kinds[message["role"]](content=message["content"]) for message in messages]


def _answer(output: Any) -> Row:
    """What a row says of inspect's ModelOutput. An empty text and one that ends at a limit are answers."""
    if not output.choices:
        raise AskError(f"an answer without choices {output.error or ''}".strip(), again=True)
    if output.stop_reason in REFUSED and output.usage is None:
        raise AskError(f"refused by the endpoint: {output.completion:.{SHOWN}}", again=False)
    usage = None
    if output.usage is not None:
        usage = {"input": output.usage.input_tokens, "output": output.usage.output_tokens}
    finish = {"max_tokens": "length"}.get(output.stop_reason, output.stop_reason)
    row = {"status": "ok", "text": output.completion, "error": "", "finish": finish, "usage": usage}
    content = output.message.content
    thoughts = [] if isinstance(content, str) else [part.reasoning for part in content if part.type == "reasoning"]
    return {**row, "reasoning": "\n".join(thoughts)} if any(thoughts) else row


def _failure(error: Exception, secret: str) -> AskError:
    """What an exception of the client or of inspect means: whether to ask again, and when."""
    status, body = getattr(error, "status_code", None), getattr(error, "body", None)
    message = str((body.get("message") if isinstance(body, dict) else None) or error)
    if status is not None:
        message = f"status {status}: {message}"
    elif error.__cause__ is not None:
        message += f" {type(error.__cause__).__name__}: {error.__cause__}"
    else:
        message = f"an answer that cannot be read: {type(error).__name__}: {message}"
    if secret:
        message = message.replace(secret, "[key]")
    again = status is None or status in AGAIN or status >= 500
    headers = getattr(getattr(error, "response", None), "headers", {})
    wait_s = retry_after(headers.get("retry-after", ""), time.time()) if again else None
    return AskError(" ".join(message.split())[:SHOWN], again=again, stop=status in STOP, wait_s=wait_s)


def retry_after(value: str, now: float) -> float | None:
    """Seconds that a Retry-After header asks for, a number or a date; None for anything else. RFC 9110, 10.2.3."""
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - now
        except (TypeError, ValueError, OverflowError):
            return None
    return max(seconds, 0.0) if math.isfinite(seconds) else None
