"""Any OpenAI-compatible endpoint, asked through inspect-ai, and what becomes of a request."""

import asyncio
import math
import os
import random
import re
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from trex.data.problem import DataError

SHOWN = 300  # letters of an endpoint's error that a row keeps
STOP = (401, 403, 404)  # no other request will fare better
AGAIN = (408, 429)  # and 5xx
LATE = (408, 499)  # given up in the middle: unlike other 4xx it may have cost something
NOT_SENT = ("ConnectError", "ConnectTimeout")  # httpx: no connection was made
ROLES = ("system", "user", "assistant")
REFUSED = ("model_length", "content_filter")  # how inspect tells of a status 400 that it takes for an answer
Messages = Sequence[Mapping[str, str]]  # of a chat: role and content
Answered = dict[str, Any]  # status, text, error, finish, usage, seconds; reasoning where there is some


class EndpointError(DataError):
    """An endpoint or a setting of its requests is not what is accepted."""


class AskError(Exception):
    """One request got no answer. again: whether another may; wait_s: what the endpoint asked to wait, in seconds.

    stop: no other request will fare better. free: it surely cost nothing, being refused or never sent.
    """

    def __init__(
        self, message: str, *, again: bool, stop: bool = False, wait_s: float | None = None, free: bool = False
    ) -> None:
        super().__init__(message)
        self.again, self.stop, self.wait_s, self.free = again, stop, wait_s, free


Ask = Callable[[Messages, int | None], Awaitable[Answered]]


@dataclass(frozen=True)
class Settings:
    """How answers are sampled; None leaves a setting to the endpoint. Sample k is asked with seed + k.

    Raises EndpointError for a value out of range.
    """

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        _check("temperature", self.temperature, (int, float), 0, 100, "a number from 0 to 100")
        _check("top_p", self.top_p, (int, float), 0, 1, "a number from 0 to 1")
        _check("max_tokens", self.max_tokens, int, 1, 2**31, "a whole number from 1")
        _check("seed", self.seed, int, 0, 2**62, f"a whole number from 0 to {2**62}")


@dataclass(frozen=True)
class Endpoint:
    """An OpenAI-compatible server, and how patiently it is asked. The key is read from the environment when asking.

    Raises EndpointError for a setting that is not accepted.
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
            raise EndpointError(
                f"base_url of {parts.hostname} holds a user, a query or a fragment; accepted: http(s)://host[:port]/path"
                ", with the key in an environment variable"
            )
        if not usable or re.search(r"[\s\x00-\x1f]", self.base_url):
            raise EndpointError(f"base_url = {self.base_url!r:.200}; accepted: http(s)://host[:port]/path")
        object.__setattr__(self, "base_url", self.base_url.rstrip("/"))
        if not self.model or self.model != self.model.strip():
            raise EndpointError(f"model = {self.model!r:.200}; accepted: the name that the endpoint gives its model")
        for name in ("concurrency", "attempts"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 10_000:
                raise EndpointError(f"{name} = {value!r:.80}; accepted: whole numbers from 1 to 10000")
        for name in ("timeout_s", "backoff_s", "longest_wait_s"):
            value = getattr(self, name)
            if not isinstance(value, (int, float)) or not math.isfinite(value) or value <= 0:
                raise EndpointError(f"{name} = {value!r:.80}; accepted: positive numbers of seconds")

    def api_key(self) -> str:
        """The key, "" where none is sent. Raises EndpointError where the variable holds none."""
        if not self.api_key_variable:
            return ""
        value = os.environ.get(self.api_key_variable, "").strip()
        if not value or not re.fullmatch(r"[!-~]+", value):
            found = "holds no key" if value else "is not set"
            raise EndpointError(f"${self.api_key_variable} {found}; put the endpoint's key there")
        return value

    @asynccontextmanager
    async def asking(self, settings: Settings) -> AsyncIterator[Ask]:
        """A function that sends one request and returns what an answers row says of it; it raises AskError.

        Requests and answers are made by inspect's provider for such endpoints; the object around it, inspect's Model,
        is left out, since it changes the whole process: another sys.excepthook, in notebooks another asyncio. The
        client's own retries are switched off: who asks retries, so that attempts are counted.
        """
        try:
            import openai
            from inspect_ai.model import GenerateConfig
            from inspect_ai.model._providers.openai_compatible import OpenAICompatibleAPI
        except ImportError as error:
            raise EndpointError(f"{error.name} is not installed; install with: pip install -e '.[eval]'") from None
        secret = self.api_key()
        client = openai.DefaultAsyncHttpxClient(timeout=self.timeout_s)
        config = GenerateConfig(
            temperature=settings.temperature, top_p=settings.top_p, max_tokens=settings.max_tokens
        )  # fmt: skip
        provider = OpenAICompatibleAPI(
            f"endpoint/{self.model}", base_url=self.base_url, api_key=secret or "none", config=config, stream=False,
            http_client=client, max_retries=0,
        )  # fmt: skip

        async def ask(messages: Messages, seed: int | None) -> Answered:
            started = time.monotonic()
            request = provider.generate(_chat(messages), [], "none", config.merge(GenerateConfig(seed=seed)))
            try:
                async with asyncio.timeout(self.timeout_s):
                    result = await request
                output, call = (
                    result if isinstance(result, tuple) else (result, None)
                )  # inspect's record of the request
                if isinstance(output, Exception):
                    raise output
                return {**_answer(output, bool(call and call.error)), "seconds": round(time.monotonic() - started, 3)}
            except TimeoutError:
                raise AskError(f"no answer within {self.timeout_s:g} s", again=True) from None
            except AskError:
                raise
            except Exception as error:  # whatever a server's bytes make the libraries raise
                raise _failure(error, secret) from None

        async with client:
            yield ask


def _chat(messages: Messages) -> list[Any]:
    from inspect_ai.model import ChatMessageAssistant, ChatMessageSystem, ChatMessageUser

    kinds = dict(zip(ROLES, (ChatMessageSystem, ChatMessageUser, ChatMessageAssistant), strict=True))
    return [kinds[message["role"]](content=message["content"]) for message in messages]


def _answer(output: Any, refused: bool) -> Answered:
    """What a row says of inspect's ModelOutput. An empty text and one that ends at a limit are answers.

    refused: inspect made it of an error's status.
    """
    if not output.choices:
        raise AskError(f"an answer without choices {output.error or ''}".strip(), again=True)
    if output.stop_reason in REFUSED and output.usage is None:
        raise AskError(f"refused by the endpoint: {output.completion:.{SHOWN}}", again=False, free=refused)
    usage = None
    if output.usage is not None:
        kinds = (output.usage.input_tokens, output.usage.input_tokens_cache_read, output.usage.input_tokens_cache_write)
        usage = {"input": sum(count or 0 for count in kinds), "output": output.usage.output_tokens}
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
    free = type(error.__cause__).__name__ in NOT_SENT if status is None else 400 <= status < 500 and status not in LATE
    headers = getattr(getattr(error, "response", None), "headers", {})
    wait_s = retry_after(headers.get("retry-after", ""), time.time()) if again else None
    return AskError(" ".join(message.split())[:SHOWN], again=again, stop=status in STOP, wait_s=wait_s, free=free)


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


def pause_s(endpoint: Endpoint, attempt: int, asked_s: float = 0.0) -> float:
    """Seconds to wait after attempt 1, 2, …: at least what the endpoint asks, else doubling from one to the next.

    A random part keeps requests that failed together from coming back together.
    """
    own_s = min(endpoint.backoff_s * 2.0 ** min(attempt - 1, 60), endpoint.longest_wait_s)
    return max(own_s / 2, asked_s) + random.uniform(0, own_s / 2)


def run_apart(work: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine, run in a thread: an event loop may run in this one, as in a notebook.

    KeyboardInterrupt cancels it and is raised again once it has ended.
    """
    loop = asyncio.new_event_loop()
    task = loop.create_task(work)
    thread = threading.Thread(target=_drive, args=(loop, task), name="trex-generate", daemon=True)
    thread.start()
    try:
        thread.join()
    except BaseException:
        loop.call_soon_threadsafe(task.cancel)
        thread.join()
        raise
    return task.result()


def _drive(loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any]) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_until_complete(asyncio.wait([task]))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


def _check(name: str, value: Any, kind: Any, low: float, high: float, accepted: str) -> None:
    if value is None:
        return
    if not isinstance(value, kind) or isinstance(value, bool) or not math.isfinite(value) or not low <= value <= high:
        raise EndpointError(f"{name} = {value!r:.80}; accepted: {accepted}")
