"""Checkpoints: folders of safetensors and JSON, written whole and refused when damaged.

Models in the layout of Hugging Face: `load_hf`, `save_hf`, `convert`, `dequantize`. Runs that go on: `training`.
"""

from trex.checkpoint.convert import convert, dequantize
from trex.checkpoint.errors import CheckpointError
from trex.checkpoint.hf import load_hf, save_hf

__all__ = ["CheckpointError", "convert", "dequantize", "load_hf", "save_hf"]
