"""What clients ask for, checked: what changes the answer and is not supported is refused by name."""

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trex.data.chat import Piece, encode, tokenize
from trex.data.chat_format import EFFORTS, END_THINK
from trex.data.problem import DataError
from trex.data.prompt_texts import PromptTexts
from trex.data.vocabulary import BEGIN, AnyTokenizer

MAX_STOPS, MAX_ROWS = 4, 16
SEEDS = 2**62  # seeds run from 0 to below; every choice has one more than the one before


class ApiError(Exception):
    """A request that is not answered; body: OpenAI's form of it."""

    def __init__(self, status: int, message: str, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        message, param = _printable(message), param and _printable(param)
        kind = "invalid_request_error" if status < 500 else "server_error"
        self.status = status
        self.body = {"error": {"message": message, "type": kind, "param": param, "code": code}}


@dataclass(frozen=True)
class Served:
    """What a request is checked against."""

    name: str
    tokenizer: AnyTokenizer
    vocab_size: int  # the model's
    max_tokens_limit: int  # tokens of prompt and answer together
    texts: PromptTexts | None = None  # the release's, for tools and the like

    def check_name(self, name: str) -> None:
        """Raise ApiError for another model's name."""
        if name != self.name:
            raise ApiError(404, f"model {name!r} is not served; accepted: {self.name!r}", "model", "model_not_found")


@dataclass(frozen=True)
class Ask:
    """One request: `n` answers to each prompt."""

    prompts: list[list[int]]
    n: int
    max_new_tokens: int
    temperature: float
    top_p: float
    seed: int
    stop: tuple[str, ...]
    logprobs: bool
    stream: bool
    usage: bool  # at the end of a stream
    thinking: bool = False
    tools: bool = False

    @property
    def rows(self) -> list[list[int]]:
        """The prompts of all answers."""
        return [prompt for prompt in self.prompts for _ in range(self.n)]

    @property
    def seeds(self) -> list[int]:
        """A seed of each answer: the same for the same answer to any prompt, which one asked alone has too."""
        return [self.seed + choice for _ in self.prompts for choice in range(self.n)]


def is_int(value: object) -> bool:
    """Whether a JSON value is an integer."""
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


Check = tuple[Callable[[Any], bool], str]  # and in words what it accepts
COMMON: dict[str, Check] = {
    "model": (lambda v: isinstance(v, str), "the served model's name"),
    "n": (lambda v: is_int(v) and 1 <= v <= MAX_ROWS, f"integers from 1 to {MAX_ROWS}"),
    "max_tokens": (lambda v: is_int(v) and v >= 1, "integers from 1"),
    "temperature": (lambda v: _is_number(v) and 0 <= v <= 2, "numbers from 0 to 2"),
    "top_p": (lambda v: _is_number(v) and 0 < v <= 1, "numbers above 0 and up to 1"),
    "seed": (lambda v: is_int(v) and 0 <= v < SEEDS, "integers from 0 to 2^62 - 1"),
    "stop": (
        lambda v: isinstance(v, str | list) and len(_strings(v)) <= MAX_STOPS and all(_strings(v)),
        f"a string that is not empty, or a list of up to {MAX_STOPS} of them",
    ),
    "stream": (lambda v: isinstance(v, bool), "true or false"),
    "stream_options": (
        lambda v: (
            isinstance(v, dict) and set(v) <= {"include_usage"} and isinstance(v.get("include_usage", True), bool)
        ),
        "an object with include_usage true or false",
    ),
    "frequency_penalty": (lambda v: _is_number(v) and v == 0, "0 only"),
    "presence_penalty": (lambda v: _is_number(v) and v == 0, "0 only"),
    "logit_bias": (lambda v: v == {}, "nothing, or an empty object"),
    "response_format": (lambda v: v == {"type": "text"}, '{"type": "text"} only'),
}
CHAT: dict[str, Check] = COMMON | {
    "messages": (lambda v: isinstance(v, list) and bool(v), "a list of one message or more"),
    "max_completion_tokens": COMMON["max_tokens"],
    "logprobs": (lambda v: isinstance(v, bool), "true or false"),
    "top_logprobs": (lambda v: is_int(v) and v == 0, "0 only: the chosen tokens' logprobs"),
    "tools": (lambda v: isinstance(v, list), "a list of functions"),
    "tool_choice": (lambda v: v in ("auto", "none"), '"auto" or "none"'),
    "parallel_tool_calls": (lambda v: v is True, "true only"),
    "chat_template_kwargs": (
        lambda v: (
            isinstance(v, dict)
            and set(v) <= {"thinking", "reasoning_effort"}
            and isinstance(v.get("thinking", True), bool)
            and v.get("reasoning_effort") in (None, *EFFORTS)
        ),
        f"an object with thinking true or false, and reasoning_effort {' or '.join(EFFORTS)}",
    ),
}
COMPLETION: dict[str, Check] = COMMON | {
    "prompt": (lambda v: isinstance(v, str | list) and v != [], "text, token ids, or a list of either"),
    "logprobs": (lambda v: is_int(v) and v == 0, "0 only: the chosen tokens' logprobs"),
    "echo": (lambda v: v is False, "false only"),
    "suffix": (lambda v: v == "", "nothing"),
    "best_of": (lambda v: is_int(v) and v == 1, "1 only; several answers: n"),
}
# OpenAI's efforts have other names, and "none" among them; here the effort matters only with thinking
EFFORT_PLACE = 'in chat_template_kwargs, as {"thinking": true, "reasoning_effort": "high"}, there ' + " or ".join(
    EFFORTS
)
WITHOUT_EFFECT = {"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key"}


def read_chat(body: object, served: Served) -> Ask:
    """A request of /v1/chat/completions. Raises ApiError."""
    fields = _checked(body, CHAT, served)
    options = fields.get("chat_template_kwargs", {})
    thinking = options.get("thinking", False)
    tools = fields.get("tools", []) if fields.get("tool_choice") != "none" else []
    try:
        effort = options.get("reasoning_effort")
        pieces = encode(fields["messages"], thinking=thinking, tools=tools, effort=effort, texts=served.texts)
        wanted = [*pieces, Piece(END_THINK, special=True)]
        lacking = [piece.text for piece in wanted if piece.special and piece.text not in served.tokenizer.special]
        if lacking:
            raise ApiError(
                400,
                f"the tokenizer of {served.name} has no special token {lacking[0]!r}, which the chat format needs; "
                "use /v1/completions",
                "model",
            )
        ids, _ = tokenize(pieces, served.tokenizer)
    except DataError as error:
        raise ApiError(400, f"messages: {error}", "messages") from None
    both = {fields[name] for name in ("max_tokens", "max_completion_tokens") if name in fields}
    if len(both) > 1:
        raise _refused("max_tokens", fields["max_tokens"], "the same as max_completion_tokens, or only one of them")
    most = both.pop() if both else None
    return _ask(fields, [ids], most, served, "messages", thinking=thinking, tools=bool(tools))


def read_completion(body: object, served: Served) -> Ask:
    """A request of /v1/completions; text is read as the begin of a document. Raises ApiError."""
    fields = _checked(body, COMPLETION, served)
    prompt = fields["prompt"]
    one = isinstance(prompt, str) or all(is_int(token) for token in prompt)
    prompts = [_prompt(item, served) for item in ([prompt] if one else prompt)]
    return _ask(fields, prompts, fields.get("max_tokens", 16), served, "prompt")  # 16: OpenAI's default


def _ask(
    fields: Mapping[str, Any], prompts: list[list[int]], most: int | None, served: Served, param: str, **chat: bool
) -> Ask:
    n, limit, longest = fields.get("n", 1), served.max_tokens_limit, max(map(len, prompts))
    if n * len(prompts) > MAX_ROWS:
        raise _refused("n", n, f"n times the number of prompts up to {MAX_ROWS}")
    if longest + (most or 1) > limit:
        name = param if longest >= limit else "max_tokens"
        asked = f" and {most} of the answer" if most else ""
        message = f"{name}: {longest} tokens of the prompt{asked}; accepted: up to {limit} together"
        raise ApiError(400, message, name, "context_length_exceeded")
    logprobs = fields.get("logprobs", False)
    options = fields.get("stream_options", {})
    if options and not fields.get("stream"):
        raise _refused("stream_options", options, "nothing where stream is not true")
    return Ask(
        prompts, n, most or limit - longest, fields.get("temperature", 1.0), fields.get("top_p", 1.0),
        fields["seed"] if "seed" in fields else secrets.randbelow(SEEDS), tuple(_strings(fields.get("stop", []))),
        logprobs is not False, fields.get("stream", False), options.get("include_usage", False), **chat,
    )  # fmt: skip


def _checked(body: object, checks: Mapping[str, Check], served: Served) -> dict[str, Any]:
    """The fields that are given, each as its check wants it."""
    if not isinstance(body, dict):
        raise ApiError(400, f"the body is {type(body).__name__}; accepted: a JSON object")
    fields = {name: value for name, value in body.items() if value is not None and name not in WITHOUT_EFFECT}
    for name, value in fields.items():
        if name == "reasoning_effort" and "chat_template_kwargs" in checks:
            raise _refused(name, value, EFFORT_PLACE)
        if name not in checks:
            raise _refused(name, value, f"the fields {', '.join(sorted(checks))}")
        accepts, words = checks[name]
        if not accepts(value):
            raise _refused(name, value, words)
    for name in ("model", "messages" if "messages" in checks else "prompt"):
        if name not in fields:
            raise ApiError(400, f"{name} is missing; accepted: {checks[name][1]}", name)
    served.check_name(fields["model"])
    return fields


def _prompt(prompt: object, served: Served) -> list[int]:
    if isinstance(prompt, str):
        try:
            return [served.tokenizer.special_id(BEGIN), *served.tokenizer.encode(prompt)]
        except DataError as error:
            raise ApiError(400, f"prompt: {error}", "prompt") from None
    if not isinstance(prompt, list) or not prompt:
        raise _refused("prompt", prompt, COMPLETION["prompt"][1])
    for token in prompt:
        if not is_int(token) or not 0 <= token < served.vocab_size:
            raise _refused("prompt", token, f"token ids from 0 to {served.vocab_size - 1}")
    return prompt


def _strings(value: Any) -> Sequence[str]:
    """A string or a list of strings as a list; what is neither, as empty strings."""
    return [value] if isinstance(value, str) else [item if isinstance(item, str) else "" for item in value]


def _refused(name: str, value: object, accepted: str) -> ApiError:
    return ApiError(400, f"{name} = {json.dumps(value, ensure_ascii=False)[:200]}; accepted: {accepted}", name)


def _printable(text: str) -> str:
    """The text with lone surrogates, which JSON may hold and UTF-8 may not, as escapes."""
    return text.encode(errors="backslashreplace").decode()
