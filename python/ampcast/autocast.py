"""Autocast regions, and what is known about the region that a thread is in."""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, TypeVar

import torch

from ampcast import _C

# Captured now, so that code which swaps names in torch.amp never makes ampcast enter itself.
_torch_autocast = torch.amp.autocast_mode.autocast

# The device type whose autocast state carries the policy (csrc/autocast/policy_slot.h), and the dtype of "default".
_SLOT_DEVICE = "ipu"
_SLOT_DTYPE = torch.bfloat16
_POLICIES = ("default", "torch")
_DEVICES = ("cpu", "cuda", "xpu", "mps", "mtia", "maia", "hpu", "xla")

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Context = contextlib.AbstractContextManager[None]


class autocast:
    """Context manager and decorator in which ops run in the dtype that suits them: ``torch.autocast``, drop-in.

    Inside the region each op of the cast list (:func:`ampcast.cast_list`) casts its arguments by its rule; the results
    have the bits of ``torch.autocast``. One instance may be entered again before it is left and shared by threads.
    Regions nest in any order with ``torch.autocast``; each restores the state that it found, also when the body raises.
    The region acts on the calling thread and on a backward pass started inside it, and works inside and around
    ``torch.compile`` and ``torch.export``. It never waits for a device. When the thread's outermost region ends, the
    cast cache is emptied.

    Args:
        device_type: type of the device whose ops are cast, such as ``"cpu"`` or ``"cuda"``.
        dtype: ``torch.bfloat16`` or ``torch.float16``; by default bfloat16 on CPU and float16 on CUDA.
            ``torch.float32`` means full precision: the region casts nothing, and says nothing.
        enabled: ``False`` turns autocast off for the device inside the region.
        cache_enabled: whether casts of float32 leaves that require grad are kept until the outermost region ends;
            by default as outside.
        policy: ``"default"`` (or ``None``) or ``"torch"``; in this version both are the running torch's rules.

    Where ``torch.autocast`` warns and disables the region (an unsupported dtype, CUDA where there is none), the same
    warning comes and the region is disabled.

    Raises:
        ValueError: ``device_type`` is no string, or ``policy`` is unknown.
        RuntimeError: the device has no autocast, or does not support the dtype.
        TypeError: as a decorator, of what is no function, or of a generator or async function, whose body would run
            after the region has ended.
    """

    def __new__(
        cls,
        device_type: str,
        dtype: torch.dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
        policy: str | None = None,
    ) -> Any:
        """Return the region; under torch.compile one made of what it can trace."""
        if torch.compiler.is_dynamo_compiling():
            return _traced_autocast(device_type, dtype, enabled, cache_enabled, policy)
        return super().__new__(cls)

    def __init__(
        self,
        device_type: str,
        dtype: torch.dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
        policy: str | None = None,
    ) -> None:
        policy = _check_policy(policy)
        self._settings = (*_resolve(device_type, dtype, enabled, cache_enabled), policy)
        self.device, self.fast_dtype = self._settings[:2]
        self._region = _C.autocast_region(*self._settings)

    def __enter__(self) -> autocast:
        _enter(self._region, _traced_autocast, self._settings)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _leave(self._region)

    def __call__(self, function: _Function) -> _Function:
        """Return `function` such that its body runs in the region."""
        return _decorate(self, _traced_autocast, self._settings, function)


class disabled:
    """Context manager and decorator in which autocast is off for every device, on the calling thread.

    Regions entered inside it cast as usual. Re-entrant, and usable by several threads at once.

    Raises:
        TypeError: as for :class:`autocast`, when it decorates what it cannot.
    """

    def __new__(cls) -> Any:
        """Return the region; under torch.compile one made of what it can trace."""
        if torch.compiler.is_dynamo_compiling():
            return _traced_disabled()
        return super().__new__(cls)

    def __init__(self) -> None:
        self._region = _C.disabled_region()

    def __enter__(self) -> disabled:
        _enter(self._region, _traced_disabled, ())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _leave(self._region)

    def __call__(self, function: _Function) -> _Function:
        """Return `function` such that its body runs in the region."""
        return _decorate(self, _traced_disabled, (), function)


def is_enabled(device_type: str | None = None) -> bool:
    """Return whether the calling thread is in a region that casts ops of ``device_type``; by default, of any device.

    Raises:
        RuntimeError: ``device_type`` has no autocast.
    """
    if device_type is None:
        return any(torch.is_autocast_enabled(device) for device in _DEVICES)
    return torch.is_autocast_enabled(device_type)


def get_dtype(device_type: str) -> torch.dtype:
    """Return the dtype that a region on ``device_type`` casts to on the calling thread.

    Raises:
        RuntimeError: ``device_type`` has no autocast.
    """
    return torch.get_autocast_dtype(device_type)


def get_policy() -> str:
    """Return the name of the cast policy in force on the calling thread; ``"torch"`` where no ampcast region is."""
    return _C.get_policy()


def cast_list(device_type: str) -> dict[str, str]:
    """Return the rule of every op that a region on ``device_type`` casts under the policy ``"default"``.

    The keys are qualified names with overload, such as ``"aten::conv2d.padding"``; the rules are ``"lower"``,
    ``"fp32"``, ``"fp32_dtype"``, ``"promote"`` and ``"banned"`` (``ampcast::CastRule`` in C++ says what each does).

    Raises:
        ValueError: ``device_type`` is neither ``"cpu"`` nor ``"cuda"``.
    """
    return _C.cast_list(device_type)


def _resolve(
    device_type: str, dtype: torch.dtype | None, enabled: bool, cache_enabled: bool | None
) -> tuple[str, torch.dtype, bool, bool]:
    """Return the settings that torch makes of the arguments, with torch's warnings and errors."""
    enabled = enabled and dtype is not torch.float32
    if device_type == "cpu" and dtype in (torch.bfloat16, torch.float16):
        # Nothing to warn of, and torch's checks would make this region dearer than torch's own (bench row C16).
        cached = torch.is_autocast_cache_enabled() if cache_enabled is None else cache_enabled
        return device_type, dtype, enabled, cached
    checked = _torch_autocast(device_type, dtype, enabled, cache_enabled)
    return checked.device, checked.fast_dtype, checked._enabled, checked._cache_enabled


def _check_policy(policy: str | None) -> str:
    if policy is None:
        return "default"
    if policy not in _POLICIES:
        raise ValueError(f'autocast: `policy` must be None, "default" or "torch", got {policy!r}')
    return policy


# torch.compile traces plain torch.amp.autocast objects and generators made by contextlib, in every supported version.
# What follows is the same region made of those; with them torch restores the slot in compiled graphs and exported
# programs.


@contextlib.contextmanager
def _traced_autocast(
    device_type: str,
    dtype: torch.dtype | None = None,
    enabled: bool = True,
    cache_enabled: bool | None = None,
    policy: str | None = None,
) -> Iterator[None]:
    enabled = enabled and dtype is not torch.float32
    if enabled:
        slot_enabled = _check_policy(policy) != "torch"
    else:
        elsewhere = any(torch.is_autocast_enabled(device) for device in _DEVICES if device != device_type)
        slot_enabled = elsewhere and torch.is_autocast_enabled(_SLOT_DEVICE)
    with (
        _torch_autocast(_SLOT_DEVICE, _SLOT_DTYPE, slot_enabled),
        _torch_autocast(device_type, dtype, enabled, cache_enabled),
    ):
        yield


@contextlib.contextmanager
def _traced_disabled() -> Iterator[None]:
    with (
        _torch_autocast(_SLOT_DEVICE, enabled=False),
        _torch_autocast("cpu", enabled=False),
        _torch_autocast("cuda", enabled=False),
        _torch_autocast("xpu", enabled=False),
        _torch_autocast("mps", enabled=False),
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


def _enter(region: _C.Region, traced: Callable[..., _Context], settings: tuple[Any, ...]) -> None:
    if _is_exporting():
        context = traced(*settings)
        context.__enter__()
        _export_contexts.open.append(context)
    else:
        region.enter()


def _leave(region: _C.Region) -> None:
    if _is_exporting():
        _export_contexts.open.pop().__exit__(None, None, None)
    else:
        region.leave()


def _decorate(
    region: contextlib.AbstractContextManager[Any],
    traced: Callable[..., _Context],
    settings: tuple[Any, ...],
    function: _Function,
) -> _Function:
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
