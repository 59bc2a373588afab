"""From a folder to a server: which tokenizer is read, what is refused, and what is imported only when needed."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from trex.checkpoint import save_hf
from trex.data.prompt_texts import PromptTexts
from trex.data.tokens import Tokenizer, _file
from trex.data.vocabulary import FullTokenizer
from trex.model.config import ModelConfig
from trex.model.transformer import Transformer
from trex.serve import ServeError, app, load

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
