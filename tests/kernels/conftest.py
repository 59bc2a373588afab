"""The backends under test; the compiled one is skipped, with the reason, where torch.compile cannot run."""

import pytest

from trex.kernels import compiler


@pytest.fixture(params=["reference", "cpu"])
def backend(request: pytest.FixtureRequest) -> str:
    if request.param == "cpu" and (lacking := compiler.missing()):
        pytest.skip(f"missing: {lacking}")
    return str(request.param)


@pytest.fixture
def compiled_backend() -> str:
    if lacking := compiler.missing():
        pytest.skip(f"missing: {lacking}")
    return "cpu"
