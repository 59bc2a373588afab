"""Small sources of texts that tell each other apart."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write `count` texts of a word to WORD.jsonl, longer and shorter ones."""

    def made(word: str, count: int, repeat: int = 5) -> Path:
        path = tmp_path / f"{word}.jsonl"
        texts = [f"{word} {k}: " + f"{word} {k * k} and " * (1 + k % repeat) for k in range(count)]
        path.write_text("".join(json.dumps({"text": text, "licence": "CC0-1.0"}) + "\n" for text in texts))
        return path

    return made
