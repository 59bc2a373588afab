"""The whole model on the CPU backends against the definitions, in float64: losses, gradients and loads."""

import pytest
import torch
from tests.model.comparing import gradients, lively, unequal
from tests.model.packs import pack

from trex.kernels import compiler, ops
from trex.kernels.attention import cpu as attention_cpu
from trex.model.config import ModelConfig

pytestmark = pytest.mark.skipif(bool(compiler.missing()), reason=f"missing: {compiler.missing()}")
CPU = [name for name, backends in ops.OPERATORS.items() if "cpu" in backends]
SMALL = {"num_layers": 3, "compress_ratios": (4, 128, 4), "hash_layers": 1, "index_topk": 3, "vocab_size": 64}
PACK = [[-5, 131, -2, -3, 9], [6, -1, 4, -139], [-150]]  # lengths of documents, negative for padding


@pytest.mark.parametrize(
    ("over", "rows", "mode", "gather_from"),
    [pytest.param({}, PACK, "sparse", 0.1, marks=pytest.mark.slow),
     ({}, PACK, "sparse", 1e9), ({}, PACK, "warm-up", 4), ({}, PACK, "frozen", 4),
     ({}, [[1, 3, 2, -1], [3, 3, 1]], "sparse", 0.1), ({}, [[1]], "sparse", 0.1),
     ({"window": 1, "index_topk": 1}, [[150], [140, 10]], "sparse", 0.1),
     ({"hc_mult": 2, "num_experts": 1, "experts_per_token": 1}, [[20, -3]], "sparse", 0.1),
     ({"num_experts": 4, "experts_per_token": 4, "num_shared_experts": 0}, [[20, -3]], "sparse", 0.1),
     ({"num_shared_experts": 2, "mtp_layers": 0, "compress_ratios": (0, 0, 0)}, [[20, -3]], "sparse", 0.1)],
)  # fmt: skip
def test_cpu_backends_train_as_the_definitions_do(
    over: dict[str, object], rows: list[list[int]], mode: str, gather_from: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention_cpu, "GATHER_FROM", gather_from)
    monkeypatch.setattr(attention_cpu, "GATHERED", 2000)
    config = ModelConfig.tiny(**{**SMALL, **over})
    model, given = lively(config, 1), pack(rows, seed=3, vocab=config.vocab_size)
    found = []
    for backend, recompute in (("reference", False), ("cpu", False), ("cpu", True)):
        with ops.use(",".join(f"{name}={backend}" for name in CPU)):
            output = model(given.tokens, given.doc_ids, given.targets, indexer=mode, recompute=recompute)
            found.append((output, gradients(torch.stack(list(output.losses.values())).sum(), model)))
    expected, known = found[0]
    for output, actual in found[1:]:
        for name, loss in expected.losses.items():
            assert (output.losses[name] - loss).abs() <= 1e-12 * max(1.0, float(loss.detach().abs()))
        assert actual.keys() == known.keys() and not unequal(actual, known, 1e-9)
        assert output.loads is not None and expected.loads is not None and torch.equal(output.loads, expected.loads)
