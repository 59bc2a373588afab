"""Checkpoints: folders of safetensors and JSON, written whole and refused when damaged."""

from trex.checkpoint.folder import Checkpoint, CheckpointError, load, newest, save

__all__ = ["Checkpoint", "CheckpointError", "load", "newest", "save"]
