"""What regions are made of: entering, leaving and decorating, in eager code, under torch.compile and under export."""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch

from ampcast import _C

# Captured now, so that code which swaps names in torch.amp never makes ampcast enter itself.
torch_autocast = torch.amp.autocast_mode.autocast

# The device type whose autocast state carries the policy (csrc/autocast/policy_slot.h), and the dtype of "default".
SLOT_DEVICE = "ipu"
_SLOT_DTYPE = torch.bfloat16
_POLICIES = ("default", "torch")
_DEVICES = ("cpu", "cuda", "xpu", "mps", "mtia", "maia", "hpu", "xla")

Function = TypeVar("Function", bound=Callable[..., Any])
_Context = contextlib.AbstractContextManager[None]


def check_policy(policy: str | None) -> str:
    """Return the name of a policy; ValueError, with the names that exist, if there is none."""
    if policy is None:
        return "default"
    if policy not in _POLICIES:
        raise ValueError(f'autocast: `policy` must be None, "default" or "torch", got {policy!r}')
    return policy


# torch.compile traces plain torch.amp.autocast objects and generators made by contextlib, in every supported version.
# What follows is the same region made of those; with them torch restores the slot in compiled graphs and exported
# programs.


@contextlib.contextmanager
def traced_autocast(
    device_type: str,
    dtype: torch.dtype | None = None,
    enabled: bool = True,
    cache_enabled: bool | None = None,
    policy: str | None = None,
) -> Iterator[None]:
    policy = check_policy(policy)
    with torch_autocast(device_type, dtype, enabled and dtype is not torch.float32, cache_enabled):
        with torch_autocast(SLOT_DEVICE, _SLOT_DTYPE, _traced_slot(device_type, policy)):
            yield


def _traced_slot(device_type: str, policy: str) -> bool:
    """Whether the slot is on in a region of `device_type` just entered, which torch may have disabled."""
    if torch.is_autocast_enabled(device_type):
        return policy != "torch"
    return torch.is_autocast_enabled(SLOT_DEVICE) and traced_is_enabled()


def traced_is_enabled() -> bool:
    """Whether any device is autocast, where torch.compile traces, which cannot ask `_C`."""
    return any(torch.is_autocast_enabled(device) for device in _DEVICES)


def traced_policy() -> str:
    """Return the name of the policy in force where torch.compile traces, which cannot ask `_C`."""
    return "default" if torch.is_autocast_enabled(SLOT_DEVICE) else "torch"


@contextlib.contextmanager
def traced_disabled() -> Iterator[None]:
    with (
        torch_autocast(SLOT_DEVICE, enabled=False),
        torch_autocast("cpu", enabled=False),
        torch_autocast("cuda", enabled=False),
        torch_autocast("xpu", enabled=False),
        torch_autocast("mps", enabled=False),
    ):
        yield


class _ExportContexts(threading.local):
    def __init__(self) -> None:
        self.open: list[_Context] = []


_export_contexts = _ExportContexts()


def _is_exporting() -> bool:
    """Whether non-strict export records this thread's regions, which torch's own objects tell it."""
    if not torch._C._is_torch_function_mode_enabled():
        return False
    from torch.fx.experimental.proxy_tensor import PreDispatchTorchFunctionMode

    modes = torch.overrides._get_current_function_mode_stack()  # type: ignore[no-untyped-call]
    return any(isinstance(mode, PreDispatchTorchFunctionMode) for mode in modes)


def enter(region: _C.Region, traced: Callable[..., _Context], settings: tuple[Any, ...]) -> None:
    if _is_exporting():
        context = traced(*settings)
        context.__enter__()
        _export_contexts.open.append(context)
    else:
        region.enter()


def leave(region: _C.Region) -> None:
    if _is_exporting():
        _export_contexts.open.pop().__exit__(None, None, None)
    else:
        region.leave()


def decorate(
    region: contextlib.AbstractContextManager[Any],
    traced: Callable[..., _Context],
    settings: tuple[Any, ...],
    function: Function,
) -> Function:
    _check_decorated(type(region).__name__, function)

    @functools.wraps(function)
    def run_in_region(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_dynamo_compiling():
            with traced(*settings):
                return function(*args, **kwargs)
        with region:
            return function(*args, **kwargs)

    return run_in_region  # type: ignore[return-value]


def _check_decorated(name: str, function: object) -> None:
    if not callable(function):
        raise TypeError(
            f"{name}: only functions can be decorated, got {type(function).__name__}; "
            f"to run code in the region, write `with {name}(...):`"
        )
    lazy = (inspect.iscoroutinefunction, inspect.isasyncgenfunction, inspect.isgeneratorfunction)
    if any(is_lazy(function) for is_lazy in lazy):
        raise TypeError(
            f"{name}: the body of a generator or async function runs after the region has ended, got "
            f"{getattr(function, '__qualname__', function)}; enter the region inside its body, "
            "around code without await or yield"
        )
