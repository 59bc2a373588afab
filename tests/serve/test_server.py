"""A real server on this machine and OpenAI's own client: answers equal `generate`, for one client and for eight."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx
import openai
import pytest
import torch
import uvicorn

from trex.data.chat import encode, tokenize
from trex.data.chat_format import DSML, SPECIAL
from trex.data.prompt_texts import PromptTexts
from trex.data.tokens import BOS, EOS, Tokenizer
from trex.model.config import ModelConfig
from trex.model.generate import Generated, Token, generate
from trex.model.transformer import Transformer
from trex.serve import ServeError, app
from trex.serve.app import create_app
from trex.serve.engine import Engine, Stopped

TOKENIZER = Tokenizer.fit(["Minimise the cost of the two plants."], special=SPECIAL)
CONFIG = ModelConfig.tiny(vocab_size=TOKENIZER.vocab_size, num_layers=2, compress_ratios=(0, 4), hash_layers=1)
MODEL = Transformer(CONFIG, seed=3).eval()
HELLO: list[Any] = [{"role": "system", "content": "Minimise the cost"}, {"role": "user", "content": "of the two"}]
LIMIT = 40
TEXTS = PromptTexts("Take your time.", "Call one of {tool_schemas} in <{dsml_token}tool_calls>.", "As {schema}.")


@contextmanager
def server(application: Any) -> Iterator[str]:
    """Its address."""
    running = uvicorn.Server(uvicorn.Config(application, port=0, log_level="error", timeout_graceful_shutdown=3))
    thread = threading.Thread(target=running.run)
    thread.start()
    try:
        while not running.started:
            assert thread.is_alive()
            time.sleep(0.01)
        yield f"http://127.0.0.1:{running.servers[0].sockets[0].getsockname()[1]}"
    finally:
        running.should_exit = True
        thread.join(30)
        assert not thread.is_alive()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with server(create_app(MODEL, TOKENIZER, "tiny", max_tokens_limit=LIMIT)) as at:
        yield at
    torch.set_num_threads(before)


def connected(at: str) -> openai.OpenAI:
    plain = openai.DefaultHttpxClient(trust_env=False)
    return openai.OpenAI(base_url=f"{at}/v1", api_key="none", max_retries=0, http_client=plain)


@pytest.fixture(scope="module")
def client(address: str) -> Iterator[openai.OpenAI]:
    with connected(address) as one:
        yield one


def direct(prompt: list[int], count: int, seed: int = 0, temperature: float = 1.0, **how: Any) -> Generated:
    return generate(
        MODEL, [prompt], max_new_tokens=count, temperature=temperature, seed=seed, stop=EOS, **how
    )[0]  # fmt: skip


def chat_prompt(messages: list[Any] = HELLO, **how: Any) -> list[int]:
    return tokenize(encode(messages, **how), TOKENIZER)[0]


def seed_that_stops(prompt: list[int], count: int) -> int:
    seeds = range(128)
    rows = generate(MODEL, [prompt] * len(seeds), max_new_tokens=count, temperature=1.0, seed=seeds, stop=EOS)
    return next(seed for seed, row in zip(seeds, rows, strict=True) if row.finish == "stop")


def chat(client: openai.OpenAI, **how: Any) -> Any:
    return client.chat.completions.create(**{"model": "tiny", "messages": HELLO, "max_tokens": 8, "seed": 5, **how})


def text(client: openai.OpenAI, **how: Any) -> Any:
    return client.completions.create(**{"model": "tiny", "prompt": "Minimise", "max_tokens": 8, "seed": 5, **how})


def test_models_and_health(client: openai.OpenAI, address: str) -> None:
    assert [model.id for model in client.models.list()] == ["tiny"]
    assert client.models.retrieve("tiny") == client.models.list().data[0]
    with pytest.raises(openai.NotFoundError, match="'my/gpt' is not served; accepted: 'tiny'"):
        client.models.retrieve("my/gpt")
    assert httpx.get(f"{address}/health", trust_env=False).json() == {"status": "ok", "running": 0, "waiting": 0}


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_chat_is_generate(client: openai.OpenAI, temperature: float) -> None:
    expected = direct(chat_prompt(), 8, 5, temperature, top_p=0.9)
    answer = chat(client, temperature=temperature, top_p=0.9, logprobs=True)
    choice = answer.choices[0]
    assert choice.message.content == TOKENIZER.decode(expected.tokens) and choice.message.role == "assistant"
    assert choice.finish_reason == "length" and (answer.model, answer.object) == ("tiny", "chat.completion")
    assert [token.logprob for token in choice.logprobs.content] == pytest.approx(expected.logprobs, abs=1e-6)
    assert [bytes(token.bytes) for token in choice.logprobs.content] == [TOKENIZER.to_bytes(i) for i in expected.tokens]
    used = answer.usage
    assert (used.prompt_tokens, used.completion_tokens, used.total_tokens) == (
        len(chat_prompt()),
        8,
        len(chat_prompt()) + 8,
    )


def test_completion_is_generate(client: openai.OpenAI) -> None:
    """Text is the begin of a document; ids are taken as they are."""
    prompt = [BOS, *TOKENIZER.encode("Minimise")]
    expected = direct(prompt, 8, 5)
    answer = text(client, logprobs=0)
    assert answer.choices[0].text == TOKENIZER.decode(expected.tokens)
    assert answer.choices[0].logprobs.token_logprobs == pytest.approx(expected.logprobs, abs=1e-6)
    assert len(answer.choices[0].logprobs.tokens) == len(answer.choices[0].logprobs.text_offset) == 8
    assert text(client, prompt=prompt).choices[0].text == answer.choices[0].text
    several = text(client, prompt=["Minimise", "the cost"], n=2)
    assert [choice.index for choice in several.choices] == [0, 1, 2, 3]
    assert several.choices[0].text == answer.choices[0].text
    assert several.choices[3].text == TOKENIZER.decode(direct([BOS, *TOKENIZER.encode("the cost")], 8, 6).tokens)
    assert len(text(client, max_tokens=None, logprobs=0).choices[0].logprobs.tokens) == 16


@pytest.mark.parametrize("how", [{}, {"n": 3}, {"logprobs": True}, {"stop": ["e", "the"], "n": 2}])
def test_a_stream_is_the_answer(client: openai.OpenAI, how: dict[str, Any]) -> None:
    whole = chat(client, **how)
    chunks = list(chat(client, stream=True, stream_options={"include_usage": True}, **how))
    assert chunks[-1].choices == [] and chunks[-1].usage == whole.usage
    assert len({chunk.id for chunk in chunks}) == 1
    for choice in whole.choices:
        parts = [part for chunk in chunks for part in chunk.choices if part.index == choice.index]
        assert parts[0].delta.role == "assistant"
        assert "".join(part.delta.content or "" for part in parts) == choice.message.content
        assert [part.finish_reason for part in parts if part.finish_reason] == [choice.finish_reason]
        if how.get("logprobs"):
            streamed = [token for part in parts if part.logprobs for token in part.logprobs.content]
            assert streamed == choice.logprobs.content
    plain = list(chat(client, stream=True, **how))
    assert all(chunk.choices and chunk.usage is None for chunk in plain)


def test_a_text_stream_is_the_answer(client: openai.OpenAI) -> None:
    chunks = list(text(client, stream=True))
    assert "".join(chunk.choices[0].text for chunk in chunks) == text(client).choices[0].text
    assert chunks[-1].choices[0].finish_reason == "length"


def test_n_answers_are_those_of_seeds_that_follow(client: openai.OpenAI) -> None:
    choices = chat(client, n=3).choices
    assert [c.message.content for c in choices] == [
        TOKENIZER.decode(direct(chat_prompt(), 8, s).tokens) for s in (5, 6, 7)
    ]
    assert len({c.message.content for c in choices}) == 3


def test_seeds(client: openai.OpenAI) -> None:
    same = {chat(client).choices[0].message.content for _ in range(2)}
    free = {chat(client, seed=None).choices[0].message.content for _ in range(3)}
    assert len(same) == 1 and len(free) == 3


def test_the_end_token_ends(client: openai.OpenAI) -> None:
    seed = seed_that_stops(chat_prompt(), 8)
    expected = direct(chat_prompt(), 8, seed)
    answer = chat(client, seed=seed, logprobs=True)
    assert answer.choices[0].finish_reason == "stop" and EOS not in expected.tokens[:-1]
    assert answer.choices[0].message.content == TOKENIZER.decode(expected.tokens)
    assert answer.usage.completion_tokens == len(answer.choices[0].logprobs.content) == len(expected.tokens)


def test_a_stop_string_over_several_tokens_is_cut_out(client: openai.OpenAI) -> None:
    said = chat(client).choices[0].message.content
    at = next(
        at for at in range(3, len(said)) if "\ufffd" not in said[at : at + 3] and said.find(said[at : at + 3]) == at
    )
    stop = said[at : at + 3]
    for stops in (stop, ["never", stop]):
        answer = chat(client, stop=stops)
        assert answer.choices[0].message.content == said[:at] and answer.choices[0].finish_reason == "stop"
        assert answer.usage.completion_tokens < 8 or said.endswith(stop)
        streamed = list(chat(client, stop=stops, stream=True))
        assert "".join(chunk.choices[0].delta.content or "" for chunk in streamed) == said[:at]


def test_max_tokens(client: openai.OpenAI) -> None:
    assert chat(client, max_tokens=None, max_completion_tokens=3).usage.completion_tokens == 3
    assert chat(client, max_tokens=3, max_completion_tokens=3).usage.completion_tokens == 3
    prompt = chat_prompt()
    expected = direct(prompt, LIMIT - len(prompt), 5)
    free = chat(client, max_tokens=None)
    assert free.usage.completion_tokens == len(expected.tokens)
    assert free.choices[0].message.content == TOKENIZER.decode(expected.tokens)


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"logit_bias": {"5": 1}}, "logit_bias", "nothing"),
    ({"response_format": {"type": "json_object"}}, "response_format", "text"),
    ({"frequency_penalty": 0.5}, "frequency_penalty", "0 only"),
    ({"presence_penalty": -1}, "presence_penalty", "0 only"),
    ({"logprobs": True, "top_logprobs": 2}, "top_logprobs", "0 only"),
    ({"n": 0}, "n", "from 1 to 16"),
    ({"temperature": 3}, "temperature", "temperature = 3; accepted: numbers from 0 to 2"),
    ({"top_p": 0}, "top_p", "above 0"),
    ({"seed": -1}, "seed", "from 0"),
    ({"stop": ["a"] * 5}, "stop", "up to 4"),
    ({"stop": ["a", ""]}, "stop", "not empty"),
    ({"stop": ""}, "stop", "not empty"),
    ({"max_tokens": 0}, "max_tokens", "from 1"),
    ({"max_tokens": LIMIT}, "max_tokens", f"up to {LIMIT} together"),
    ({"max_tokens": 2, "max_completion_tokens": 3}, "max_tokens", "only one"),
    ({"tool_choice": "required"}, "tool_choice", '"auto" or "none"'),
    (
        {"reasoning_effort": "low"},
        "reasoning_effort",
        '= "low"; accepted: in chat_template_kwargs, as {"thinking": true',
    ),
    (
        {"extra_body": {"größe": {"a": [True, None]}}},
        "größe",
        'größe = {"a": [true, null]}; accepted: the fields chat_template_kwargs',
    ),
    ({"extra_body": {"min_p": 0.1}}, "min_p", "the fields"),
    ({"extra_body": {"chat_template_kwargs": {"thinking": 1}}}, "chat_template_kwargs", "true or false"),
    ({"stream_options": {"include_usage": True}}, "stream_options", "stream is not true"),
    ({"messages": []}, "messages", "one message or more"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages", "parts of type text"),
    ({"messages": [{"role": "user", "content": "x" * 200}]}, "messages", f"up to {LIMIT} together"),
    ({"tools": [{"function": {"name": "f"}}]}, "messages", "encoding/encoding_dsv4.py"),
    ({"messages": [{"role": "system", "response_format": {"type": "x"}}]}, "messages", "encoding/encoding_dsv4.py"),
    (
        {"extra_body": {"chat_template_kwargs": {"thinking": True, "reasoning_effort": "max"}}},
        "messages",
        "encoding/encoding_dsv4.py",
    ),
    ({"messages": [{"role": "user", "content": "x", "task": "query"}]}, "messages", "accepted: content"),
]


@pytest.mark.parametrize(("how", "param", "accepted"), REFUSED, ids=lambda item: str(item)[:30])
def test_what_is_not_supported_is_refused(
    client: openai.OpenAI, how: dict[str, Any], param: str, accepted: str
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        chat(client, **how)
    assert caught.value.param == param and param in caught.value.message and accepted in caught.value.message
    assert caught.value.type == "invalid_request_error"


@pytest.mark.parametrize(
    "how",
    [
        {"logprobs": 1},
        {"echo": True},
        {"suffix": "x"},
        {"best_of": 2},
        {"prompt": []},
        {"prompt": [[]]},
        {"prompt": [9999]},
    ],
)
def test_text_that_is_not_supported_is_refused(client: openai.OpenAI, how: dict[str, Any]) -> None:
    with pytest.raises(openai.BadRequestError, match="accepted") as caught:
        text(client, **how)
    assert caught.value.param == next(iter(how))


def test_what_changes_nothing_is_taken(client: openai.OpenAI) -> None:
    neutral: dict[str, Any] = {
        "frequency_penalty": 0, "presence_penalty": 0.0, "logit_bias": {}, "response_format": {"type": "text"},
        "user": "me", "store": False, "metadata": {"a": "b"}, "n": 1, "tool_choice": "none",
        "parallel_tool_calls": True, "stop": [],
    }  # fmt: skip
    assert chat(client, **neutral).choices == chat(client).choices


def test_an_unknown_model_is_not_found(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="'gpt' is not served; accepted: 'tiny'"):
        chat(client, model="gpt")


def test_a_body_that_is_too_large_is_refused(address: str) -> None:
    """Sent in chunks, of which no header tells the sum."""
    chunks = (b" " * 2**20 for _ in range(12))
    answer = httpx.post(f"{address}/v1/completions", content=chunks, trust_env=False)
    assert answer.status_code == 413 and "more than 8,388,608 bytes" in answer.text
    assert httpx.get(f"{address}/health", trust_env=False).status_code == 200


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"3", b"\xff", b"[" * 100_000, b'{"model": "tiny"}', b"{}"])
def test_malformed_bodies_are_refused(address: str, body: bytes) -> None:
    for path in ("chat/completions", "completions"):
        answer = httpx.post(f"{address}/v1/{path}", content=body, trust_env=False)
        assert answer.status_code == 400 and answer.json()["error"]["type"] == "invalid_request_error"


def test_lone_surrogates_are_refused_too(address: str) -> None:
    """JSON may hold them; the answer, in UTF-8, may not."""
    body = b'{"model": "tiny", "prompt": "x", "suffix": "\\ud800", "\\udfff": 1}'
    for content, shown in ((body, 'suffix = "\\ud800"'), (body.replace(b"suffix", b"user"), "\\udfff = 1")):
        answer = httpx.post(f"{address}/v1/completions", content=content, trust_env=False)
        assert answer.status_code == 400 and answer.json()["error"]["message"].startswith(shown)


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/nowhere", 404), ("GET", "/v1/completions", 405)])
def test_unknown_paths(address: str, method: str, path: str, status: int) -> None:
    answer = httpx.request(method, f"{address}{path}", trust_env=False)
    assert answer.status_code == status and "POST /v1/chat/completions" in answer.json()["error"]["message"]


def test_eight_clients_at_a_time_each_get_the_answer_they_get_alone(address: str) -> None:
    messages = [[{"role": "user", "content": "of the " + "cost " * number}] for number in range(8)]
    begin = threading.Barrier(8)

    def ask(number: int) -> tuple[str, int]:
        with connected(address) as one:
            begin.wait(30)
            how = {"messages": messages[number], "seed": number, "max_tokens": 5 + number}
            if number % 2:
                answer = chat(one, **how)
                return answer.choices[0].message.content, answer.usage.completion_tokens
            chunks = list(chat(one, stream=True, stream_options={"include_usage": True}, **how))
            said = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
            return said, chunks[-1].usage.completion_tokens

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, range(8)))
    expected = [direct(chat_prompt(messages[number]), 5 + number, number) for number in range(8)]
    assert answers == [(TOKENIZER.decode(one.tokens), len(one.tokens)) for one in expected]


def drained(address: str) -> bool:
    for _ in range(500):
        if httpx.get(f"{address}/health", trust_env=False).json() == {"status": "ok", "running": 0, "waiting": 0}:
            return True
        time.sleep(0.02)
    return False


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Servers whose model says what a script says."""
    open_servers = []

    def start(script: Callable[[list[list[int]], int], Iterator[Token]], **how: Any) -> str:
        monkeypatch.setattr(app, "stream", lambda _, rows, *, max_new_tokens, **rest: script(rows, max_new_tokens))
        context = server(create_app(MODEL, TOKENIZER, "tiny", **how))
        open_servers.append(context)
        return context.__enter__()

    yield start
    for context in open_servers:
        context.__exit__(None, None, None)


@pytest.mark.parametrize("streamed", [True, False])
def test_who_leaves_is_dropped_and_others_go_on(scripted: Callable[..., Any], streamed: bool) -> None:
    began, closed = threading.Event(), threading.Event()

    def endless(rows: list[list[int]], most: int) -> Iterator[Token]:
        try:
            began.set()
            while most > 1:  # answers of one token end at once
                time.sleep(0.002)
                yield Token(0, 70, -1.0, None)
            yield Token(0, 70, -1.0, "length")
        finally:
            if most > 1:
                closed.set()

    at = scripted(endless, max_running=2)
    body = {"model": "tiny", "prompt": "x", "max_tokens": 50, "stream": streamed}
    if streamed:
        with httpx.stream("POST", f"{at}/v1/completions", json=body, trust_env=False) as answer:
            assert next(answer.iter_lines()).startswith("data: {") and not closed.is_set()
    else:
        sent = json.dumps(body).encode()
        with socket.create_connection(("127.0.0.1", int(at.rsplit(":", 1)[1]))) as leaving:
            leaving.sendall(
                b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(sent) + sent
            )
            assert began.wait(30) and not closed.is_set()
    assert closed.wait(30) and drained(at)
    with connected(at) as other:
        assert text(other, max_tokens=1).usage.completion_tokens == 1


def test_a_full_queue_refuses(scripted: Callable[..., Any]) -> None:
    go = threading.Event()

    def gated(rows: list[list[int]], most: int) -> Iterator[Token]:
        assert go.wait(30)
        yield Token(0, 70, -1.0, "length")

    at = scripted(gated, max_running=1, max_waiting=1)
    with connected(at) as one, ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(text, one) for _ in range(2)]
        while sum(httpx.get(f"{at}/health", trust_env=False).json()[kind] for kind in ("running", "waiting")) < 2:
            time.sleep(0.01)
        with pytest.raises(openai.RateLimitError, match="1 requests run and 1 wait") as caught:
            text(one)
        assert caught.value.response.headers["retry-after"] == "1"
        go.set()
        assert [future.result().choices[0].finish_reason for future in waiting] == ["length"] * 2
        assert text(one).choices[0].finish_reason == "length"


def test_the_failure_of_one_request_is_its_own(scripted: Callable[..., Any]) -> None:
    def failing(rows: list[list[int]], most: int) -> Iterator[Token]:
        yield Token(0, 70, -1.0, None)
        time.sleep(0.05)
        if most == 13:
            raise MemoryError("no room")
        yield Token(0, 71, -1.0, "length")

    at = scripted(failing)
    with connected(at) as one, ThreadPoolExecutor(4) as pool:
        good = [pool.submit(text, one) for _ in range(3)]
        with pytest.raises(openai.InternalServerError, match="MemoryError: no room"):
            text(one, max_tokens=13)
        assert len({future.result().choices[0].text for future in good}) == 1
        with pytest.raises(openai.APIError, match="no room"):
            list(text(one, max_tokens=13, stream=True))


CALLS = (
    f'\n\n<{DSML}tool_calls>\n<{DSML}invoke name="add">\n<{DSML}parameter name="a" string="false">1</{DSML}parameter>\n'
    f"</{DSML}invoke>\n</{DSML}tool_calls>"
)
TOOLS: list[Any] = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]


def test_thinking_and_tool_calls(scripted: Callable[..., Any]) -> None:
    pieces = encode(
        [
            {"role": "user", "content": "?"},
            {
                "role": "assistant",
                "content": "Adding.",
                "reasoning_content": "A sum.",
                "tool_calls": [{"function": {"name": "add", "arguments": '{"a": 1}'}}],
            },
        ],
        thinking=True,
    )
    says = tokenize([piece for piece in pieces if piece.trained], TOKENIZER)[0]
    prompts: list[list[int]] = []

    def script(rows: list[list[int]], most: int) -> Iterator[Token]:
        prompts.extend(rows)
        for i in says:
            yield Token(0, i, -1.0, "stop" if i == EOS else None)

    at = scripted(script, texts=TEXTS)
    how = {"tools": TOOLS, "max_tokens": 500, "extra_body": {"chat_template_kwargs": {"thinking": True}}}
    with connected(at) as one:
        choice = chat(one, **how).choices[0]
        chunks = [chunk.choices[0] for chunk in chat(one, stream=True, **how)]
        without = chat(one, **{**how, "tool_choice": "none"}).choices[0]
    assert prompts[0] == prompts[1] == chat_prompt(tools=TOOLS, thinking=True, texts=TEXTS)
    assert prompts[2] == chat_prompt(thinking=True)
    assert choice.message.content == "Adding." and choice.message.reasoning_content == "A sum."
    assert choice.finish_reason == "tool_calls" and choice.message.tool_calls[0].id.startswith("call_")
    called = choice.message.tool_calls[0].function
    assert (called.name, json.loads(called.arguments)) == ("add", {"a": 1})
    assert "".join(chunk.delta.content or "" for chunk in chunks) == "Adding."
    assert "".join(getattr(chunk.delta, "reasoning_content", None) or "" for chunk in chunks) == "A sum."
    streamed = chunks[-1].delta.tool_calls[0].function
    assert (streamed.name, streamed.arguments) == (called.name, called.arguments)
    assert chunks[-1].finish_reason == "tool_calls"
    assert without.finish_reason == "stop" and without.message.tool_calls is None


def test_a_tokenizer_without_chat_tokens_serves_text_only() -> None:
    plain = Tokenizer.fit(["Minimise the cost of the two plants."])
    with server(create_app(MODEL, plain, "tiny")) as at, connected(at) as one:
        with pytest.raises(openai.BadRequestError, match=r"no special token '<｜User｜>'.*use /v1/completions"):
            chat(one)
        assert text(one).usage.completion_tokens == 8


@pytest.mark.parametrize(
    "how", [{"max_tokens_limit": 1}, {"max_running": 0}, {"max_waiting": -1}], ids=lambda how: next(iter(how))
)
def test_limits_that_make_no_sense_are_refused(how: dict[str, int]) -> None:
    with pytest.raises(ServeError, match=rf"{next(iter(how))} = .*accepted"):
        create_app(MODEL, TOKENIZER, "tiny", **how)  # type: ignore[arg-type]


def test_a_tokenizer_larger_than_the_model_is_refused() -> None:
    larger = Tokenizer.fit(["Minimise the cost of the two plants, or maximise the profit."], special=SPECIAL)
    with pytest.raises(ServeError, match=f"accepted: up to {TOKENIZER.vocab_size}"):
        create_app(MODEL, larger, "tiny")


def test_the_engine_stops_with_requests_running() -> None:
    def endless() -> Iterator[Token]:
        while True:
            yield Token(0, 1, -1.0, None)

    async def run() -> None:
        with Engine(1, 1) as engine:
            jobs = [engine.submit(endless()) for _ in range(2)]
            await anext(jobs[0].tokens())
            engine.stop()
            with pytest.raises(Stopped):
                engine.submit(endless())
        for job in jobs:
            with pytest.raises(Stopped):
                async for _ in job.tokens():
                    pass
        with pytest.raises(Stopped):
            engine.submit(endless())

    asyncio.run(asyncio.wait_for(run(), 30))


def test_running_requests_get_a_token_each_in_turn() -> None:
    """Two at a time; the third begins when one of them has ended; one that is cancelled makes room."""
    order: list[str] = []
    go = threading.Event()

    def spoken(name: str, count: int) -> Iterator[Token]:
        go.wait(30)
        for at in range(count):
            order.append(name)
            yield Token(0, at, -1.0, None)

    async def run() -> None:
        with Engine(2, 2) as engine:
            jobs = [engine.submit(spoken(name, count)) for name, count in (("a", 3), ("b", 5), ("c", 2), ("d", 9))]
            jobs[3].cancel()
            go.set()
            for job in jobs[:3]:
                async for _ in job.tokens():
                    pass

    asyncio.run(asyncio.wait_for(run(), 30))
    assert "".join(order) == "abababbcbc"
