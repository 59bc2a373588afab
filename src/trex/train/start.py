"""What a run starts from: a small model with random weights, or a folder with config.json, weights and tokenizer."""

import json
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from trex.checkpoint.shards import CONFIG
from trex.data.problem import DataError
from trex.data.tokens import Tokenizer
from trex.data.vocabulary import FullTokenizer
from trex.model.config import ModelConfig
from trex.model.layout import Layout, Precision
from trex.model.transformer import Transformer
from trex.planner.memory import static_bytes
from trex.train.corpus import padded
from trex.train.recipes import TrainError

SMALL = {"tiny": ModelConfig.tiny, "nano": ModelConfig.nano}
DTYPES = {"float32": torch.float32, "float64": torch.float64}
FULL, REDUCED = "tokenizer.json", "trex_tokenizer.json"


@dataclass(frozen=True)
class Start:
    """A model that is asked for: `tiny`, `nano`, or a folder. Raises TrainError for another name."""

    name: str

    def __post_init__(self) -> None:
        if self.name not in SMALL and not (Path(self.name) / CONFIG).is_file():
            raise TrainError(f"model {self.name!r}; accepted: {', '.join(SMALL)}, or a folder with {CONFIG}")

    @property
    def weights(self) -> bool:
        """Whether it goes on from weights."""
        return self.name not in SMALL and any(Path(self.name).glob("*.safetensors"))

    def tokenizer(self) -> Tokenizer | FullTokenizer | None:
        """The folder's tokenizer, whole or reduced; None: one is to be fitted.

        Raises DataError for one that cannot be read, TrainError for weights without one.
        """
        full, reduced = Path(self.name) / FULL, Path(self.name) / REDUCED
        if self.name in SMALL:
            return None
        if full.is_file():
            return FullTokenizer.from_file(full)
        if reduced.is_file():
            try:
                body = json.loads(reduced.read_bytes())
            except (OSError, ValueError, RecursionError) as error:
                raise DataError(f"{reduced}: {error}") from None
            if not isinstance(body, dict):
                raise DataError(f"{reduced} holds a {type(body).__name__}; accepted: a JSON object")
            return Tokenizer.from_dict(body)
        if self.weights:
            raise TrainError(f"{self.name} has weights and no tokenizer; accepted: {FULL} (DeepSeek's) or {REDUCED}")
        return None

    def config(self, vocab_size: int) -> ModelConfig:
        """The model's shape for a tokenizer of `vocab_size` ids. Raises ConfigError, TrainError."""
        if self.name in SMALL:
            base = SMALL[self.name]()
            return replace(base, vocab_size=max(base.vocab_size, padded(vocab_size)))
        found = ModelConfig.from_hf(self.name, name=Path(self.name).resolve().name)
        if found.vocab_size < vocab_size:
            raise TrainError(f"{self.name} has {found.vocab_size:,} ids; the tokenizer has {vocab_size:,}")
        return found

    def model(self, config: ModelConfig, seed: int, dtype: str) -> Transformer:
        """The model: of weights the shapes only, which `train` fills; otherwise random on the CPU."""
        with torch.device("meta") if self.weights else nullcontext():
            return Transformer(config, seed=seed).to(DTYPES[dtype])


def parameters_per_rank(config: ModelConfig, layout: Layout) -> tuple[int, ...]:
    """Parameters, shards counted as such, on the ranks of each pipeline rank. Raises LayoutError."""
    counted = static_bytes(config, replace(layout, precision=Precision(1, 1, 1)))
    return tuple(rank.weights for rank in counted.ranks)
