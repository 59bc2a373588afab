"""The endpoint: OpenAI's routes over one engine. Needs the extra `serve` (fastapi, uvicorn)."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from trex.data.prompt_texts import PromptTexts
from trex.data.vocabulary import END, AnyTokenizer
from trex.model.config import ConfigError
from trex.model.generate import stream
from trex.model.transformer import Transformer
from trex.serve import ServeError
from trex.serve.answers import ChatForm, Choice, Envelope, Form, TextForm, usage
from trex.serve.engine import Engine, Job, QueueFull, Stopped
from trex.serve.requests import ApiError, Ask, Served, read_chat, read_completion
from trex.serve.writer import Delta, Entry, Writer

LARGEST_BODY = 8 * 1024 * 1024  # bytes of a request
CLIENT_LEFT = 499  # nobody reads it; the access log does


def create_app(
    model: Transformer, tokenizer: AnyTokenizer, name: str, *,
    max_tokens_limit: int = 4096, max_running: int = 8, max_waiting: int = 64, texts: PromptTexts | None = None,
) -> FastAPI:  # fmt: skip
    """An application that answers for the model under this name.

    max_tokens_limit: tokens of prompt and answer together. max_running: requests that get tokens in turn; each keeps a
    cache. max_waiting: requests that may queue for that, beyond which they are refused. texts: without them, chats with
    tools and the like are refused. Raises ServeError for limits below 1 (max_waiting: 0) and a tokenizer with more ids
    than the model.
    """
    for field, value, least in (
        ("max_tokens_limit", max_tokens_limit, 2),
        ("max_running", max_running, 1),
        ("max_waiting", max_waiting, 0),
    ):
        if value < least:
            raise ServeError(f"{field} = {value}; accepted: integers from {least}")
    vocab_size = model.config.vocab_size
    if tokenizer.vocab_size > vocab_size:
        raise ServeError(f"a tokenizer of {tokenizer.vocab_size} ids; accepted: up to {vocab_size}, the model's")
    served = Served(name, tokenizer, vocab_size, max_tokens_limit, texts)
    card = {
        "id": name, "object": "model", "created": int(time.time()), "owned_by": "trex",
        "max_model_len": max_tokens_limit,
    }  # fmt: skip

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        with Engine(max_running, max_waiting) as engine:
            app.state.engine = engine
            yield

    app = FastAPI(title="trex serve", lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)

    async def answer(request: Request, read: Callable[[object, Served], Ask], form: Form) -> Response:
        ask = await asyncio.to_thread(read, await _body(request), served)  # a long prompt takes a while to tokenise
        try:
            tokens = stream(
                model, ask.rows, max_new_tokens=ask.max_new_tokens, temperature=ask.temperature, top_p=ask.top_p,
                stop=tokenizer.special_id(END), seed=ask.seeds,
            )  # fmt: skip
            job = request.app.state.engine.submit(tokens)
        except ConfigError as error:
            raise ApiError(400, str(error)) from None
        except QueueFull as error:
            raise ApiError(429, str(error), code="queue_full") from None
        except Stopped as error:
            raise ApiError(503, str(error)) from None
        envelope = Envelope.new(form, name)
        if ask.stream:
            return StreamingResponse(_events(job, ask, tokenizer, envelope), media_type="text/event-stream")
        return await _while_connected(request, _whole(job, ask, tokenizer, envelope))

    @app.post("/v1/chat/completions")
    async def chat(request: Request) -> Response:
        return await answer(request, read_chat, ChatForm())

    @app.post("/v1/completions")
    async def completions(request: Request) -> Response:
        return await answer(request, read_completion, TextForm())

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        return {"object": "list", "data": [card]}

    @app.get("/v1/models/{model:path}")  # path: a name may have slashes
    async def retrieve(model: str) -> dict[str, Any]:
        served.check_name(model)
        return card

    @app.get("/health")
    async def health(request: Request) -> Response:
        engine: Engine = request.app.state.engine
        running, waiting = engine.load
        body = {"status": "ok" if engine.alive else "stopped", "running": running, "waiting": waiting}
        return JSONResponse(body, 200 if engine.alive else 503)

    @app.exception_handler(ApiError)
    async def refused(request: Request, error: ApiError) -> Response:
        return JSONResponse(error.body, error.status, {"Retry-After": "1"} if error.status == 429 else None)

    @app.exception_handler(HTTPException)
    async def unknown(request: Request, error: HTTPException) -> Response:
        where = f"{request.method} {request.url.path}"
        accepted = "GET /health, GET /v1/models, GET /v1/models/NAME, POST /v1/chat/completions, POST /v1/completions"
        body = ApiError(error.status_code, f"{where}: {error.detail}; accepted: {accepted}").body
        return JSONResponse(body, error.status_code)

    return app


async def _body(request: Request) -> object:
    body = bytearray()
    try:
        async for piece in request.stream():
            body += piece
            if len(body) > LARGEST_BODY:
                raise ApiError(413, f"the body has more than {LARGEST_BODY:,} bytes")
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ApiError(400, f"the body is not JSON: {error}") from None
    except ClientDisconnect:
        raise ApiError(CLIENT_LEFT, "the client left before its request was read") from None


async def _deltas(job: Job, ask: Ask, tokenizer: AnyTokenizer) -> AsyncGenerator[tuple[int, Delta, Entry], None]:
    """What each token adds, and to which choice, until all are finished. However it ends, the job is dropped."""
    writers = [Writer(tokenizer, ask.stop, ask.thinking, ask.tools) for _ in ask.rows]
    try:
        async with aclosing(job.tokens()) as tokens:
            async for token in tokens:
                writer = writers[token.row]
                if writer.finish is None:  # else a stop string has ended it, and its row goes on in vain
                    yield token.row, *writer.add(token)
                if all(writer.finish is not None for writer in writers):
                    return
    except ConfigError as error:
        raise ApiError(500, f"generation failed: {error}") from None
    except Stopped as error:
        raise ApiError(503, str(error)) from None
    except Exception as error:  # out of memory, say: this request's failure
        raise ApiError(500, f"generation failed: {type(error).__name__}: {error}") from error
    finally:
        job.cancel()


async def _whole(job: Job, ask: Ask, tokenizer: AnyTokenizer, envelope: Envelope) -> Response:
    choices = [Choice() for _ in ask.rows]
    async with aclosing(_deltas(job, ask, tokenizer)) as deltas:
        async for row, delta, entry in deltas:
            choices[row].add(delta, entry)
    form = envelope.form
    written = [
        {"index": row, **form.choice(choice, choice.entries if ask.logprobs else None)}
        for row, choice in enumerate(choices)
    ]
    counts = usage(sum(map(len, ask.prompts)), sum(len(choice.entries) for choice in choices))
    return JSONResponse(envelope.around(form.whole, written, usage=counts))


async def _events(job: Job, ask: Ask, tokenizer: AnyTokenizer, envelope: Envelope) -> AsyncIterator[str]:
    """Server-sent events: a chunk per token that adds something, then the usage where it is asked for, then the end."""
    form, count = envelope.form, 0
    more: dict[str, Any] = {"usage": None} if ask.usage else {}

    def event(choices: list[dict[str, Any]], **more: Any) -> str:
        return _event(envelope.around(form.chunk, choices, **more))

    try:
        begin = form.begin()
        for row in range(len(ask.rows) if begin else 0):
            yield event([{"index": row, **(begin or {})}], **more)
        async with aclosing(_deltas(job, ask, tokenizer)) as deltas:
            async for row, delta, entry in deltas:
                count += 1
                if ask.logprobs or delta != Delta():
                    part = form.part(delta, [entry] if ask.logprobs else None)
                    yield event([{"index": row, **part}], **more)
        if ask.usage:
            yield event([], usage=usage(sum(map(len, ask.prompts)), count))
        yield "data: [DONE]\n\n"
    except ApiError as error:  # the status is sent already
        yield _event(error.body)
    finally:
        job.cancel()


def _event(body: dict[str, Any]) -> str:
    return f"data: {json.dumps(body, ensure_ascii=False)}\n\n"


async def _while_connected(request: Request, work: Coroutine[Any, Any, Response]) -> Response:
    """The response, or, where the client leaves before, none: its work is dropped."""
    answer, left = asyncio.ensure_future(work), asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait({answer, left}, return_when=asyncio.FIRST_COMPLETED)
        return answer.result() if answer.done() else Response(status_code=CLIENT_LEFT)
    finally:
        for task in (answer, left):
            task.cancel()
        await asyncio.gather(answer, left, return_exceptions=True)


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
