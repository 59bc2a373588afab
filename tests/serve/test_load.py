"""From a folder to a server: which tokenizer is read, what is refused, and what is imported only when needed."""

import dataclasses
import json
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import uvicorn

import trex
from trex.checkpoint import save_hf, training
from trex.data.prompt_texts import PromptTexts
from trex.data.tokens import Tokenizer, _file
from trex.data.vocabulary import FullTokenizer
from trex.model.config import ModelConfig
from trex.model.transformer import Transformer
from trex.serve import ServeError, app, load, server

REDUCED = Tokenizer.fit(["Minimise"], special=["<think>"])


def test_the_whole_tokenizer_is_preferred(tmp_path: Path) -> None:
    (tmp_path / "trex_tokenizer.json").write_text(json.dumps(REDUCED.to_dict()))
    assert load.load_tokenizer(tmp_path) == REDUCED
    shutil.copy(_file(), tmp_path / "tokenizer.json")
    assert isinstance(load.load_tokenizer(tmp_path), FullTokenizer)


@pytest.mark.parametrize("content", [None, "", "[]", "{}", '{"kind": "other"}'])
@pytest.mark.parametrize("name", ["tokenizer.json", "trex_tokenizer.json"])
def test_a_folder_without_a_tokenizer_that_can_be_read_is_refused(
    tmp_path: Path, name: str, content: str | None
) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(ServeError, match=tmp_path.name):
        load.load_tokenizer(tmp_path)


def test_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ServeError, match="is no folder"):
        load.serve(tmp_path / "missing")


@pytest.mark.parametrize("port", [-1, 65536, 99999])
def test_a_port_that_is_none_is_refused(tmp_path: Path, port: int) -> None:
    with pytest.raises(ServeError, match=f"port = {port}; accepted: integers from 0 .* to 65535"):
        load.serve(tmp_path, port=port)


def test_an_address_that_cannot_be_had_is_named(tmp_path: Path) -> None:
    (tmp_path / "trex_tokenizer.json").write_text(json.dumps(REDUCED.to_dict()))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ServeError, match=f"cannot listen at 127.0.0.1:{port}: Address already in use"):
            load.serve(tmp_path, port=port)
    with pytest.raises(ServeError, match=r"cannot listen at \[2001:db8::1\]:0: "):
        load.serve(tmp_path, host="2001:db8::1", port=0)
    with pytest.raises(ServeError, match=f"cannot listen at {'a' * 70}:0: "):  # too long for a name
        load.serve(tmp_path, host="a" * 70, port=0)


def test_a_training_checkpoint_is_told_and_its_export_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Transformer(config := ModelConfig.tiny(vocab_size=REDUCED.vocab_size))
    documents = {"config": dataclasses.asdict(config), "tokenizer": REDUCED.to_dict()}
    folder = training.save(tmp_path / "step-00000060", training.TrainingState(model, documents=documents))
    with pytest.raises(ServeError, match=r"step-00000060 is a training checkpoint; .*training\.load_model") as caught:
        load.serve(folder, port=0)
    names = {"trex": trex, "Path": Path, "CHECKPOINT": folder, "FOLDER": tmp_path / "export", "tokenizer": REDUCED}
    exec(str(caught.value).split(": ", 1)[1], names)  # what it says to do
    monkeypatch.setattr(server.Server, "run", lambda self, sockets: None)
    load.serve(tmp_path / "export", port=0)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (REDUCED.to_dict(), r"types \(None, None\); accepted: \('BPE', 'ByteLevel'\)"),
        ({"model": {"type": "WordPiece"}, "decoder": None}, r"types \('WordPiece', None\)"),
        ({"model": {"type": "BPE"}, "decoder": {"type": "ByteLevel"}}, "tokenizers cannot read: no 'added_tokens'"),
    ],
)
def test_a_tokenizer_that_is_something_else(tmp_path: Path, content: Any, said: str) -> None:
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(ServeError, match=rf"{tmp_path.name}: .*tokenizer\.json .*{said}") as caught:
        load.load_tokenizer(tmp_path)
    assert "Error" not in str(caught.value)


ENCODING = """REASONING_EFFORT_MAX = 'Take your time.'
TOOLS_TEMPLATE = 'Call one of {tool_schemas}.'
response_format_template = 'As {schema}.'
"""


def test_the_prompt_texts_beside_the_weights_are_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_hf(Transformer(ModelConfig.tiny(vocab_size=REDUCED.vocab_size)), folder := tmp_path / "model")
    (folder / "trex_tokenizer.json").write_text(json.dumps(REDUCED.to_dict()))
    served: list[PromptTexts | None] = []
    create = app.create_app

    def noted(*of: Any, **how: Any) -> Any:
        served.append(how["texts"])
        return create(*of, **how)

    monkeypatch.setattr(app, "create_app", noted)
    monkeypatch.setattr(uvicorn.Server, "run", lambda self, sockets: None)
    load.serve(folder, port=0)
    (folder / "encoding").mkdir()
    (folder / "encoding" / "encoding_dsv4.py").write_text(ENCODING)
    load.serve(folder, port=0)
    assert served == [None, PromptTexts("Take your time.", "Call one of {tool_schemas}.", "As {schema}.")]
    (folder / "encoding" / "encoding_dsv4.py").write_text("x = 1")
    with pytest.warns(UserWarning, match=r"no tools.*encoding_dsv4\.py: no REASONING_EFFORT_MAX"):
        load.serve(folder, port=0)
    assert served[-1] is None


@pytest.mark.parametrize("name", [None, "mine"])
def test_serve_builds_the_app_and_listens(
    tmp_path: Path, name: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Up to the server itself, which test_server tests."""
    started: list[Any] = []
    save_hf(Transformer(ModelConfig.tiny(vocab_size=REDUCED.vocab_size)), folder := tmp_path / "model")
    monkeypatch.setattr(uvicorn.Server, "run", lambda self, sockets: started.append((self.config.app, sockets[0])))
    (folder / "trex_tokenizer.json").write_text(json.dumps(REDUCED.to_dict()))
    load.serve(folder, port=0, name=name)
    assert [app.title for app, _ in started] == ["trex serve"]
    assert capsys.readouterr().out.startswith(f"{name or 'model'} at http://127.0.0.1:")
    with pytest.raises(ServeError, match="max_running = 0"):
        load.serve(folder, port=0, max_running=0)
    (folder / "model.safetensors").unlink()
    with pytest.raises(ServeError, match="safetensors"):
        load.serve(folder, port=0)


def test_without_the_extra_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        ServeError, match=r"fastapi and uvicorn not installed; install with: pip install -e '\.\[serve\]'"
    ):
        load.serve(tmp_path)


HIDDEN = """
import importlib.util, sys
hidden, found = ("fastapi", "uvicorn", "openai"), importlib.util.find_spec
sys.modules.update(dict.fromkeys(hidden))
importlib.util.find_spec = lambda name, *rest: None if name in hidden else found(name, *rest)
import trex.serve
from trex.cli import main
sys.argv = ["trex", "serve", "x"]
print("serve:", main())
sys.argv = ["trex", "--help"]
main()
"""


def test_the_command_line_needs_no_server_until_it_serves() -> None:
    """With the packages hidden, help still comes; `serve` asks for them in one line."""
    shown = subprocess.run([sys.executable, "-c", HIDDEN], capture_output=True, text=True)
    assert shown.returncode == 0 and shown.stdout.startswith("serve: 2\n") and "• serve" in shown.stdout
    assert shown.stderr.startswith("trex: fastapi and uvicorn not installed") and shown.stderr.count("\n") == 1


def test_help_names_the_folder() -> None:
    shown = subprocess.run([sys.executable, "-m", "trex", "serve", "--help"], capture_output=True, text=True)
    assert shown.returncode == 0 and "FOLDER" in shown.stdout.splitlines()[0]
