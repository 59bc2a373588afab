"""Parallel training: tensor, pipeline, expert and sharded data parallelism, one file per dimension."""

from trex.parallel.apply import ParallelModel, apply
from trex.parallel.meshes import Meshes, meshes

__all__ = ["Meshes", "ParallelModel", "apply", "meshes"]
