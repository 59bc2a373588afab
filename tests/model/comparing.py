"""What the tests of the model share: a model with live weights, its gradients by name, and when two sets are equal."""

from collections.abc import Mapping

import torch
from tests.model.oracle import random_weights
from torch import Tensor, nn

from trex.model.config import ModelConfig
from trex.model.transformer import Transformer


def draw(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def random_tokens(config: ModelConfig, batch: int, length: int, seed: int) -> Tensor:
    return torch.randint(0, config.vocab_size, (batch, length), generator=draw(seed))


def lively(config: ModelConfig, seed: int = 0, dtype: torch.dtype = torch.float64) -> Transformer:
    """Our model with the weights of `oracle.random_weights`, all of them and nothing else."""
    model = Transformer(config).to(dtype)
    model.load_state_dict(random_weights(config, seed))
    return model


def gradients(loss: Tensor, model: nn.Module, retain_graph: bool = False) -> dict[str, Tensor]:
    """Gradients by parameter. Parameters that `loss` does not depend on are left out, those with zeros are not."""
    names, parameters = zip(*model.named_parameters(), strict=True)
    found = torch.autograd.grad(loss, parameters, allow_unused=True, retain_graph=retain_graph)
    return {name: gradient for name, gradient in zip(names, found, strict=True) if gradient is not None}


def unequal(found: Mapping[str, Tensor], expected: Mapping[str, Tensor], tolerance: float) -> dict[str, float]:
    """Tensors for which ‖found - expected‖ > tolerance · max(‖expected‖, 1e-3 · global norm / √tensors).

    The second bound is for tensors whose own gradient is small against the others'. Both must hold the same names.
    """
    assert found.keys() == expected.keys(), found.keys() ^ expected.keys()
    whole = torch.stack([tensor.norm() for tensor in expected.values()]).norm()
    least = 1e-3 * whole / len(expected) ** 0.5
    result = {}
    for name, tensor in expected.items():
        excess = (found[name] - tensor).norm() / torch.maximum(tensor.norm(), least)
        if not excess <= tolerance:  # nan is unequal
            result[name] = float(excess)
    return result
