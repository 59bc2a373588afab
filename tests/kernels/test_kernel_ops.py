"""Which backend runs a call: the automatic choice, TREX_KERNELS, the context manager, and what is missing."""

import os

import pytest
import torch

from trex.kernels import compiler, dispatch, ops

LARGE = torch.ones(1024, 1024)


@pytest.fixture(autouse=True)
def _nothing_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ops.VARIABLE, raising=False)


@pytest.fixture
def works(monkeypatch: pytest.MonkeyPatch) -> None:
    """The choice as on a machine with a compiler; nothing is compiled."""
    backend = ops.BACKENDS["cpu"]
    changed = {**ops.BACKENDS, "cpu": ops.Backend(backend.devices, backend.dtypes, backend.elements, lambda: None)}
    monkeypatch.setattr(dispatch, "BACKENDS", changed)


def test_automatic_choice_by_size_dtype_and_device(works: None) -> None:
    assert ops.choose("rms_norm", LARGE) == "cpu"
    assert ops.choose("rms_norm", LARGE.bfloat16()) == "cpu"
    assert ops.choose("rms_norm", torch.nn.Parameter(LARGE)) == "reference"  # a subclass of Tensor
    assert ops.choose("rms_norm", LARGE[:-1]) == "reference"  # one row less than 2^20 elements
    assert ops.choose("rms_norm", LARGE.double()) == "reference"
    assert ops.choose("rms_norm", LARGE.to("meta")) == "reference"


def test_environment_variable_and_context_manager(works: None, monkeypatch: pytest.MonkeyPatch) -> None:
    small = torch.ones(2, 2)
    monkeypatch.setenv(ops.VARIABLE, "reference,rms_norm=cpu")
    assert (ops.choose("rms_norm", small), ops.choose("limited_swiglu", LARGE)) == ("cpu", "reference")
    with ops.use("limited_swiglu=cpu"):
        assert (ops.choose("rms_norm", small), ops.choose("limited_swiglu", small)) == ("reference", "cpu")
        with ops.use("reference"):
            assert ops.choose("rms_norm", LARGE) == "reference"
        assert ops.choose("limited_swiglu", small) == "cpu"
    assert os.environ[ops.VARIABLE] == "reference,rms_norm=cpu"


def test_choice_is_restored_after_an_error() -> None:
    with pytest.raises(RuntimeError, match="inside"), ops.use("reference"):
        raise RuntimeError("inside")
    assert ops.VARIABLE not in os.environ


def test_unknown_names_are_errors_that_say_what_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ops.KernelError, match=r"backend 'cuda'; accepted: cpu, reference"), ops.use("cuda"):
        pass
    with pytest.raises(ops.KernelError, match=f"operator 'norm'; accepted: {', '.join(ops.OPERATORS)}"):
        ops.choose("norm", LARGE)
    monkeypatch.setenv(ops.VARIABLE, "layer_norm=cpu")
    with pytest.raises(ops.KernelError, match="operator 'layer_norm'"):
        ops.rms_norm(LARGE)


def test_forced_backend_on_the_wrong_device(works: None) -> None:
    with ops.use("cpu"), pytest.raises(ops.KernelError, match="'cpu' runs on cpu, not on meta"):
        ops.rms_norm(torch.ones(2, 2, device="meta"))


def test_a_callers_own_compilation_sees_the_reference(works: None) -> None:
    """No graph break, no compiled backend nested: the surrounding graph holds the steps of the definition."""
    graphs = []

    def keep(graph: torch.fx.GraphModule, _: list[torch.Tensor]) -> torch.fx.GraphModule:
        graphs.append(graph)
        return graph

    outer = torch.compile(lambda x: ops.rms_norm(2 * x) + 1, backend=keep, fullgraph=True)
    x = torch.randn(1024, 1024)
    with ops.use("reference"):
        expected = ops.rms_norm(2 * x) + 1
    torch.testing.assert_close(outer(x), expected)
    assert len(graphs) == 1 and any("rsqrt" in str(node.target) for node in graphs[0].graph.nodes)


def test_both_backends_agree_through_the_automatic_choice(compiled_backend: str) -> None:
    assert compiler.missing() is None
    x = torch.randn(1024, 1024)
    assert ops.choose("rms_norm", x) == "cpu"
    with ops.use("reference"):
        expected = ops.rms_norm(x)
    torch.testing.assert_close(ops.rms_norm(x), expected, rtol=1e-5, atol=1e-6)
