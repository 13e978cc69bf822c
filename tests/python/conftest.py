"""Options and fixtures of all test files."""

import contextlib
from collections.abc import Iterator

import pytest

from swap_torch_amp import pytest_addoption, pytest_configure, swapped_torch_amp

__all__ = ["pytest_addoption", "pytest_configure"]


@pytest.fixture(params=["torch", "ampcast"])
def amp(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run a test that is written for the names in `torch` on torch's classes, as a control, and on ampcast's."""
    if request.param == "torch" and request.config.getoption("--swap-torch-amp"):
        pytest.skip("the whole run is on ampcast's classes")
    with swapped_torch_amp() if request.param == "ampcast" else contextlib.nullcontext():
        yield request.param
