"""Several endpoints asked at once, within a budget; an answer that was paid for once is never asked for again.

A reservation is on disk before a request is sent, an answer before it is settled: a kill loses what is in flight alone.
"""

import asyncio
import hashlib
import itertools
import json
import re
import warnings
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trex.data.endpoint import ROLES, Ask, AskError, Endpoint, EndpointError, Messages, Settings, pause_s
from trex.data.flywheel.ledger import Budget, Ledger, Lines, Priced, Reservation, ledger, lines, read_lines
from trex.data.problem import DataError
from trex.files import locked, make_folder

ANSWERS = "answers.jsonl"
REQUEST_TOKENS = 256  # that a template may add to a prompt, beside
MESSAGE_TOKENS = 16  # that it may add to each message; a text has at most one token per byte of UTF-8
LONGEST = 1 << 17  # output tokens that an answer is taken to have at most where no max_tokens says so
DEEPEST = 100  # levels of objects and lists in an answer's JSON

_ANSWER = {"key": str, "endpoint": str, "text": str, "reasoning": str, "finish": str}
_TOKEN = re.compile(
    r'[ \t\n\r]*+(?:(?P<text>"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+")'
    r"|(?P<value>-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?+|true|false|null)|(?P<sign>[{}\[\],:]))"
)
_HALF = re.compile(  # of a token, at the end of a text
    r'[ \t\n\r]*+(?:"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+(?:\\(?:u[0-9a-fA-F]{0,3})?)?'
    r"|-?[0-9.eE+-]*+|t(?:r|ru)?|f(?:a|al|als)?|n(?:u|ul)?)\Z"
)


@dataclass(frozen=True)
class Answer:
    """An answer. finish: "stop", "length" where it was cut off, …; tokens as the endpoint counts them, None if it does
    not; cached: it was there before this was asked."""

    text: str
    finish: str
    model: str
    input_tokens: int | None
    output_tokens: int | None
    cached: bool = False
    reasoning: str = ""
    endpoint: str = ""  # its model and address


class _Lane:
    """One endpoint in a run. out: why it is left out, "" while it is not."""

    def __init__(self, priced: Priced, ask: Ask) -> None:
        self.priced, self.ask, self.out = priced, ask, ""
        self.slots = asyncio.Semaphore(priced.endpoint.concurrency)

    @property
    def endpoint(self) -> Endpoint:
        return self.priced.endpoint


class Asking:
    """Asks endpoints, keeps answers and the ledger; made by `asking`."""

    def __init__(self, lanes: Sequence[_Lane], settings: Settings, kept: "_Kept", spent: Ledger) -> None:
        self.ledger, self._lanes, self._settings, self._kept = spent, lanes, settings, kept
        self._pending: dict[str, asyncio.Future[AskError | None]] = {}
        self._settled = asyncio.Event()
        self._cached: Counter[str] = Counter()

    async def ask(self, messages: Messages, seed: int, preferred: int) -> Answer:
        """The answer to a chat, asked of endpoint `preferred` (modulo their number), of the next ones where it fails.

        seed: added to that of the settings, where they have one. An answer that an endpoint gave in the place of
        another is kept for both. Raises AskError with all reasons where no endpoint answers this chat, BudgetSpent
        where no request is left, EndpointError where all endpoints turn requests away, or for a bad argument.
        """
        _check(messages, seed, preferred)
        order = [self._lanes[(preferred + k) % len(self._lanes)] for k in range(len(self._lanes))]
        seed += self._settings.seed or 0
        first, reasons = self._key(order[0], messages, seed), []
        if (other := self._kept.instead.get(first)) is not None:
            return self._known(other)
        for lane in order:
            key = self._key(lane, messages, seed)
            try:
                answer = await self._once(lane, key, messages, seed)
            except AskError as error:
                reasons.append(f"{lane.priced.name}: {error}")
                continue
            self._kept.answered_instead(first, key)
            return answer
        if all(lane.out for lane in self._lanes):
            raise EndpointError(f"no endpoint is left: {'; '.join(lane.out for lane in self._lanes)}")
        raise AskError("; ".join(reasons), again=False)

    def spending(self) -> dict[str, dict[str, float]]:
        """Per endpoint: requests, input and output tokens, money and requests charged in full, of all runs in the
        folder, and how many answers this run took from the cache."""
        names = dict.fromkeys([*(lane.priced.name for lane in self._lanes), *self.ledger.spent, *self._cached])
        found = {}
        for name in names:
            spent = self.ledger.spent.get(name)
            row = vars(spent) if spent else {"requests": 0, "input": 0, "output": 0, "money": 0, "charged": 0}
            found[name] = {**row, "money": float(row["money"]), "cached": self._cached[name]}
        return found

    def _known(self, key: str) -> Answer:
        answer = replace(self._kept.answers[key], cached=True)
        self._cached[answer.endpoint] += 1
        return answer

    def _key(self, lane: _Lane, messages: Messages, seed: int) -> str:
        chat = [{"role": message["role"], "content": message["content"]} for message in messages]
        place = lane.priced.address or lane.endpoint.base_url
        request = [place, lane.endpoint.model, chat, {**vars(self._settings), "seed": seed}]
        return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()

    async def _once(self, lane: _Lane, key: str, messages: Messages, seed: int) -> Answer:
        """The answer of one endpoint; who asks the same meanwhile waits for it, or for its failure."""
        while True:
            if key in self._kept.answers:
                return self._known(key)
            if (other := self._pending.get(key)) is None:
                break
            if (error := await asyncio.shield(other)) is not None:
                raise AskError(str(error), again=False)
        failed: AskError | None = None
        mine = self._pending[key] = asyncio.get_running_loop().create_future()
        try:
            async with lane.slots:  # held in pauses too: an endpoint that is slow or limits us is asked less
                return await self._request(lane, key, messages, seed)
        except AskError as error:
            failed = error
            raise
        finally:
            del self._pending[key]
            mine.set_result(failed)

    async def _request(self, lane: _Lane, key: str, messages: Messages, seed: int) -> Answer:
        most = sum(len(m["content"].encode(errors="surrogatepass")) + MESSAGE_TOKENS for m in messages) + REQUEST_TOKENS
        wanted = Reservation(
            lane.priced.name, most, self._settings.max_tokens or LONGEST,
            float(lane.priced.input_price), float(lane.priced.output_price),
        )  # fmt: skip
        for attempt in itertools.count(1):
            while not self.ledger.fits(wanted) and self.ledger.in_flight:
                await self._settled.wait()
            if lane.out:
                raise AskError(lane.out, again=False)
            number, used = self.ledger.reserve(wanted), None
            try:
                row = await lane.ask(messages, seed)
                usage = row["usage"] or {}
                answer = Answer(
                    row["text"], row["finish"], lane.endpoint.model, usage.get("input"), usage.get("output"),
                    reasoning=row.get("reasoning", ""), endpoint=lane.priced.name,
                )  # fmt: skip
                self._kept.add(key, answer)
                used = (answer.input_tokens, answer.output_tokens)
                return answer
            except AskError as error:
                used = (0, 0) if error.free else None
                asked_s = error.wait_s or 0.0
                if error.stop and not lane.out:
                    lane.out = f"{lane.endpoint.base_url} turns requests away: {error}"
                    warnings.warn(f"left out from now on: {lane.out}", stacklevel=2)
                if asked_s > lane.endpoint.longest_wait_s:
                    message = f"{error}; the endpoint asks to wait {asked_s:.0f} s"
                    raise AskError(message, again=False) from None
                if error.stop or not error.again or attempt == lane.endpoint.attempts:
                    raise
            finally:  # whoever cancels a request has paid for it, as far as is known
                self.ledger.settle(number, used)
                self._settled.set()
                self._settled = asyncio.Event()
            await asyncio.sleep(pause_s(lane.endpoint, attempt, asked_s))
        raise AssertionError("the loop only ends by returning or raising")


@asynccontextmanager
async def asking(
    endpoints: Sequence[Priced], settings: Settings, budget: Budget, folder: Path
) -> AsyncIterator[Asking]:
    """Ask `endpoints` as long as all runs in `folder` together stay within the budget.

    Raises EndpointError for endpoints or settings that are not accepted and for a key that is not there, DataError for
    a folder that is in use, and for a bad line in it.
    """
    names = [priced.name for priced in endpoints]
    if not names or len(set(names)) < len(names):
        raise EndpointError(f"endpoints: {', '.join(names) or 'none'}; accepted: at least one, each of them once")
    if settings.max_tokens is None and (budget.tokens is not None or budget.money is not None):
        raise EndpointError(
            "max_tokens = None; accepted: the longest answer's tokens, where tokens or money are limited"
        )
    for priced in endpoints:
        priced.endpoint.api_key()
    make_folder(folder)
    async with AsyncExitStack() as stack:
        try:
            stack.enter_context(locked(folder / ".asking.lock"))
        except BlockingIOError as error:
            raise DataError(str(error)) from None
        kept = _Kept(stack.enter_context(lines(folder / ANSWERS)), folder / ANSWERS)
        spent = stack.enter_context(ledger(folder, budget))
        asks = [await stack.enter_async_context(priced.endpoint.asking(settings)) for priced in endpoints]
        yield Asking([_Lane(*pair) for pair in zip(endpoints, asks, strict=True)], settings, kept, spent)


class _Kept:
    """The answers of a folder by the key of their request. instead: keys of requests that another answers, and its."""

    def __init__(self, written: Lines, path: Path) -> None:
        self._lines = written
        self.answers: dict[str, Answer] = {}
        self.instead: dict[str, str] = {}
        for where, row in read_lines(path):
            if row.keys() == {"key", "instead_of"} and str(row["key"]) in self.answers:
                self.instead[str(row["instead_of"])] = str(row["key"])
                continue
            if row.keys() != {*_ANSWER, "model", "usage"} or not all(isinstance(row[k], _ANSWER[k]) for k in _ANSWER):
                raise DataError(f"{where}: accepted: an answer with {', '.join(_ANSWER)}, model and usage")
            usage = row["usage"] if isinstance(row["usage"], dict) else {}
            self.answers[row["key"]] = Answer(
                row["text"], row["finish"], str(row["model"]), usage.get("input"), usage.get("output"),
                reasoning=row["reasoning"], endpoint=row["endpoint"],
            )  # fmt: skip

    def add(self, key: str, answer: Answer) -> None:
        """Keep an answer, on disk when this returns."""
        row: dict[str, Any] = {"key": key} | {name: getattr(answer, name) for name in [*_ANSWER, "model"][1:]}
        self._lines.append({**row, "usage": {"input": answer.input_tokens, "output": answer.output_tokens}})
        self.answers[key] = answer

    def answered_instead(self, asked: str, key: str) -> None:
        """Keep that the answer to request `key` is that of `asked` too, where they differ."""
        if asked != key and asked not in self.instead:
            self._lines.append({"key": key, "instead_of": asked})
            self.instead[asked] = key


def extract_json(text: str, required: Sequence[str] = ()) -> dict[str, Any]:
    """The last whole JSON object of an answer that has all the required keys, in prose, a fence or after a thought.

    Takes time in proportion to the text. Raises DataError that says what is wrong.
    """
    thought, closed = text.find("<think>"), text.find("</think>")
    if closed >= 0 and (thought < 0 or closed < thought or not text[:thought].strip()):  # not one within the JSON
        text = text[closed + len("</think>") :]
    elif closed < 0 <= thought and not text[:thought].strip():
        raise DataError("the answer ends within its thought")
    spans, position, cut = [], 0, False
    while (start := text.find("{", position)) >= 0:
        end, whole = _object(text, start)
        if whole:
            spans.append((start, end))
        cut = not whole and end == len(text)
        position = end
    lacking: list[str] = []
    for start, end in reversed(spans):
        try:
            value = json.loads(text[start:end])
        except ValueError:  # a number of too many digits
            continue
        missing = [name for name in required if name not in value]
        if not missing:
            return value
        lacking = lacking or missing
    if cut:
        raise DataError("the answer is truncated: it ends within a JSON object")
    if lacking:
        raise DataError(f"the answer's JSON object lacks {', '.join(map(repr, lacking))}"[:400])
    if re.match(r'\s*+(?:```(?:json)?\s*+)?(?:\[|"|-?[0-9]|(?:true|false|null)\b)', text):
        raise DataError("the answer is no JSON object: it begins as another JSON value")
    raise DataError("the answer holds no JSON object")


def _object(text: str, start: int) -> tuple[int, bool]:
    """Where the object from `start` ends, and True; or where to look on, at the text's end if it is cut off there.

    Looking on starts within the last string, which may be prose between a stray brace and the answer.
    """
    position, stack, after, resume = start, "", "value", start + 1
    while True:
        token = _TOKEN.match(text, position)
        if token is None:
            return (len(text), False) if _HALF.match(text, position) else (resume, False)
        kind, sign = token.lastgroup, token["sign"]
        if sign and sign in "{[" and after in ("value", "value]"):
            if len(stack) == DEEPEST:
                raise DataError(f"the answer's JSON is nested in more than {DEEPEST} levels")
            stack, after = stack + sign, "key}" if sign == "{" else "value]"
        elif sign and sign in "}]" and after in ("next", "key}", "value]") and stack[-1] == "{["["}]".index(sign)]:
            stack, after = stack[:-1], "next"
            if not stack:
                return token.end(), True
        elif sign == "," and after == "next":
            after = "key" if stack[-1] == "{" else "value"
        elif sign == ":" and after == ":":
            after = "value"
        elif kind == "text" and after in ("key", "key}"):
            after = ":"
        elif kind in ("text", "value") and after in ("value", "value]"):
            after = "next"
        else:
            return resume, False
        resume = token.start("text") + 1 if kind == "text" else token.end()
        position = token.end()


def _check(messages: Messages, seed: int, preferred: int) -> None:
    if not messages or not all(
        isinstance(m, Mapping) and m.get("role") in ROLES and isinstance(m.get("content"), str) for m in messages
    ):
        raise EndpointError(f"messages = {messages!r:.80}; accepted: a chat of role ({', '.join(ROLES)}) and content")
    for name, value in (("seed", seed), ("preferred", preferred)):
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**62:
            raise EndpointError(f"{name} = {value!r:.80}; accepted: whole numbers from 0 to below {2**62}")
