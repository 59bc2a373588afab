"""From a folder to a running server."""

import importlib.util
import json
import socket
import warnings
from os import PathLike
from pathlib import Path

from trex.data.problem import DataError
from trex.data.prompt_texts import PLACE, PromptTexts
from trex.data.tokens import Tokenizer
from trex.data.vocabulary import AnyTokenizer, FullTokenizer
from trex.device import detect
from trex.serve import ServeError

FULL, REDUCED = "tokenizer.json", "trex_tokenizer.json"
MAX_PORT = 65535
EXPORT = (
    "serve an export of it: model = trex.checkpoint.training.load_model(Path(CHECKPOINT)); "
    f'trex.checkpoint.save_hf(model, FOLDER, extra={{"{REDUCED}": tokenizer.to_dict()}})'
)


def load_tokenizer(folder: str | PathLike[str]) -> AnyTokenizer:
    """The whole tokenizer of a folder, else a reduced one. Raises ServeError where it has neither or one is damaged."""
    full, reduced = Path(folder) / FULL, Path(folder) / REDUCED
    try:
        if full.is_file():
            return FullTokenizer.from_file(full)
        if reduced.is_file():
            body = json.loads(reduced.read_bytes())
            if not isinstance(body, dict):
                raise ServeError(f"{reduced} holds a {type(body).__name__}; accepted: a JSON object")
            return Tokenizer.from_dict(body)
    except (DataError, OSError, ValueError) as error:
        raise ServeError(str(error) if str(folder) in str(error) else f"{folder}: {error}") from None
    raise ServeError(f"{folder} has no tokenizer; accepted: {FULL} (Hugging Face's) or {REDUCED} (our own, reduced)")


def load_texts(folder: str | PathLike[str]) -> PromptTexts | None:
    """The prompt texts of the release that a folder holds; None, with a warning, where they are not as V4 has them."""
    path = Path(folder) / PLACE
    try:
        return PromptTexts.read(path) if path.is_file() else None
    except DataError as error:
        warnings.warn(f"no tools, response formats or reasoning effort: {error}", stacklevel=2)
        return None


def serve(
    folder: str | PathLike[str], *, host: str = "127.0.0.1", port: int = 8000, name: str | None = None,
    max_tokens_limit: int = 4096, max_running: int = 8, max_waiting: int = 64,
) -> None:  # fmt: skip
    """Serve a checkpoint until interrupted. name: the folder's unless given. The rest: see `create_app`.

    At the signal to end, requests that are open get an error and the server ends once the token in work is done.
    Raises ServeError for a folder or setting that cannot be served, and for an address that cannot be had.
    """
    missing = [package for package in ("fastapi", "uvicorn") if importlib.util.find_spec(package) is None]
    if missing:
        raise ServeError(f"{' and '.join(missing)} not installed; install with: pip install -e '.[serve]'")
    if not Path(folder).is_dir():
        raise ServeError(f"{folder} is no folder")
    if not 0 <= port <= MAX_PORT:
        raise ServeError(f"port = {port}; accepted: integers from 0 (takes a free one) to {MAX_PORT}")
    import uvicorn

    from trex.checkpoint import load_hf
    from trex.checkpoint.storage import METADATA
    from trex.serve.app import create_app
    from trex.serve.server import Server

    if (Path(folder) / METADATA).is_file():
        raise ServeError(f"{folder} is a training checkpoint; {EXPORT}")
    tokenizer, texts = load_tokenizer(folder), load_texts(folder)
    address = f"[{host}]" if ":" in host else host
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))  # a taken address shows before the model is read; uvicorn listens once it is
        except (OSError, UnicodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise ServeError(f"cannot listen at {address}:{port}: {reason}") from None
        try:
            model = load_hf(Path(folder)).to(detect().torch).eval()
        except ValueError as error:
            raise ServeError(str(error)) from error
        app = create_app(
            model, tokenizer, name or Path(folder).resolve().name,
            max_tokens_limit=max_tokens_limit, max_running=max_running, max_waiting=max_waiting, texts=texts,
        )  # fmt: skip
        print(f"{name or Path(folder).resolve().name} at http://{address}:{listener.getsockname()[1]}/v1", flush=True)
        server = Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=5))
        try:
            server.run(sockets=[listener])
        except KeyboardInterrupt:  # raised again by uvicorn after it has shut down
            return
