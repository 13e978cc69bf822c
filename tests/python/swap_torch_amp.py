"""Puts ampcast's classes in the place of torch's, under every name that programs use for them.

Code written for `torch.autocast` and `torch.amp.GradScaler` then runs on ampcast unchanged. As a pytest plugin it
serves test files of others: `PYTHONPATH=tests/python pytest -p swap_torch_amp --swap-torch-amp FILES`.
Not for strict torch.export, which traces without the callbacks that give torch's classes back to Dynamo.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch._dynamo.variables  # its table of autocast classes must hold torch's
from torch._dynamo.callback import CompilationCallbackHandler

import ampcast


class CudaGradScaler(ampcast.GradScaler):
    """`torch.cuda.amp.GradScaler`, whose device is implied."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("cuda", *args, **kwargs)


class CpuGradScaler(ampcast.GradScaler):
    """`torch.cpu.amp.GradScaler`, whose device is implied."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("cpu", *args, **kwargs)


def cuda_autocast(
    enabled: bool = True, dtype: torch.dtype = torch.float16, cache_enabled: bool = True
) -> ampcast.autocast:
    """`torch.cuda.amp.autocast`, whose device is implied."""
    return ampcast.autocast("cuda", dtype, enabled, cache_enabled)


def cpu_autocast(
    enabled: bool = True, dtype: torch.dtype = torch.bfloat16, cache_enabled: bool = True
) -> ampcast.autocast:
    """`torch.cpu.amp.autocast`, whose device is implied."""
    return ampcast.autocast("cpu", dtype, enabled, cache_enabled)


# Dynamo looks the autocast classes that it knows up under these names.
NAMES_DYNAMO_READS = [
    (torch.amp.autocast_mode, "autocast", ampcast.autocast),
    (torch.cuda.amp, "autocast", cuda_autocast),
    (torch.cpu.amp, "autocast", cpu_autocast),
]
OTHER_NAMES = [
    (torch, "autocast", ampcast.autocast),
    (torch, "GradScaler", ampcast.GradScaler),
    (torch.amp, "autocast", ampcast.autocast),
    (torch.amp, "GradScaler", ampcast.GradScaler),
    (torch.amp.grad_scaler, "GradScaler", ampcast.GradScaler),
    (torch.cuda.amp, "GradScaler", CudaGradScaler),
    (torch.cuda.amp.autocast_mode, "autocast", cuda_autocast),
    (torch.cuda.amp.grad_scaler, "GradScaler", CudaGradScaler),
    (torch.cpu.amp, "GradScaler", CpuGradScaler),
    (torch.cpu.amp.autocast_mode, "autocast", cpu_autocast),
    (torch.cpu.amp.grad_scaler, "GradScaler", CpuGradScaler),
]


@contextlib.contextmanager
def replaced(names: list[tuple[Any, str, Any]]) -> Iterator[None]:
    """Give attributes of modules and classes other values."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name, value in names:
            patch.setattr(module, name, value)
        yield


def originals_while_compiling() -> tuple[Any, str, Any]:
    """Return the replacement that gives torch's own classes back to Dynamo for the time of each compilation."""
    originals = [(module, name, getattr(module, name)) for module, name, _ in NAMES_DYNAMO_READS]
    around_compilation = CompilationCallbackHandler.install_callbacks

    @contextlib.contextmanager
    def install_callbacks(*args: Any, **kwargs: Any) -> Iterator[None]:
        with replaced(originals), around_compilation(*args, **kwargs):
            yield

    return CompilationCallbackHandler, "install_callbacks", install_callbacks


@contextlib.contextmanager
def swapped_torch_amp() -> Iterator[None]:
    """Let every name of torch's autocast and gradient scaler mean ampcast's."""
    with replaced([originals_while_compiling(), *NAMES_DYNAMO_READS, *OTHER_NAMES]):
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that swaps the names for the whole run."""
    parser.addoption("--swap-torch-amp", action="store_true", help="run torch.amp's names on ampcast")


def pytest_configure(config: pytest.Config) -> None:
    """Swap the names, if asked to, before test files are imported: some import them from torch by name."""
    if config.getoption("--swap-torch-amp"):
        swap = swapped_torch_amp()
        swap.__enter__()
        config.add_cleanup(lambda: swap.__exit__(None, None, None))
