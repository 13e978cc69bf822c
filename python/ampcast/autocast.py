"""Autocast regions, and what is known about the region that a thread is in."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import torch

from ampcast import _C
from ampcast._regions import (
    SLOT_DEVICE,
    Function,
    check_policy,
    decorate,
    enter,
    leave,
    torch_autocast,
    traced_autocast,
    traced_disabled,
    traced_is_enabled,
    traced_policy,
)


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
            return traced_autocast(device_type, dtype, enabled, cache_enabled, policy)
        if device_type == SLOT_DEVICE:
            # An exported program restores the policy so, through this class where a program calls it torch.autocast.
            return torch_autocast(device_type, dtype, enabled, cache_enabled)
        return super().__new__(cls)

    def __init__(
        self,
        device_type: str,
        dtype: torch.dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
        policy: str | None = None,
    ) -> None:
        policy = check_policy(policy)
        self._settings = (*_resolve(device_type, dtype, enabled, cache_enabled), policy)
        self.device, self.fast_dtype = self._settings[:2]
        self._region = _C.autocast_region(*self._settings)

    def __enter__(self) -> autocast:
        enter(self._region, traced_autocast, self._settings)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        leave(self._region)

    def __call__(self, function: Function) -> Function:
        """Return `function` such that its body runs in the region."""
        return decorate(self, traced_autocast, self._settings, function)


class disabled:
    """Context manager and decorator in which autocast is off for every device, on the calling thread.

    Regions entered inside it cast as usual. Re-entrant, and usable by several threads at once.

    Raises:
        TypeError: as for :class:`autocast`, when it decorates what it cannot.
    """

    def __new__(cls) -> Any:
        """Return the region; under torch.compile one made of what it can trace."""
        if torch.compiler.is_dynamo_compiling():
            return traced_disabled()
        return super().__new__(cls)

    def __init__(self) -> None:
        self._region = _C.disabled_region()

    def __enter__(self) -> disabled:
        enter(self._region, traced_disabled, ())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        leave(self._region)

    def __call__(self, function: Function) -> Function:
        """Return `function` such that its body runs in the region."""
        return decorate(self, traced_disabled, (), function)


def is_enabled(device_type: str | None = None) -> bool:
    """Return whether the calling thread is in a region that casts ops of ``device_type``; by default, of any device.

    Raises:
        RuntimeError: ``device_type`` has no autocast.
    """
    if device_type is not None:
        return torch.is_autocast_enabled(device_type)
    return traced_is_enabled() if torch.compiler.is_dynamo_compiling() else _C.is_enabled()


def get_dtype(device_type: str) -> torch.dtype:
    """Return the dtype that a region on ``device_type`` casts to on the calling thread.

    Raises:
        RuntimeError: ``device_type`` has no autocast.
    """
    return torch.get_autocast_dtype(device_type)


def get_policy() -> str:
    """Return the name of the cast policy in force on the calling thread; ``"torch"`` where no ampcast region is."""
    return traced_policy() if torch.compiler.is_dynamo_compiling() else _C.get_policy()


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
    checked = torch_autocast(device_type, dtype, enabled, cache_enabled)
    return checked.device, checked.fast_dtype, checked._enabled, checked._cache_enabled
