"""Checks of what is given to `GradScaler.scale` and `GradScaler.update`."""

from collections.abc import Iterable
from typing import Any

import torch

from ampcast import _C


def scalable(outputs: Any) -> torch.Tensor | Iterable[Any]:
    """Return `outputs`; raise, if need be when an iterator is consumed, where there is something that cannot be scaled."""
    if isinstance(outputs, torch.Tensor):
        if not (outputs.is_floating_point() or outputs.is_complex()):
            raise TypeError(f"GradScaler.scale: a loss must be floating point or complex, got {outputs.dtype}.")
        return outputs
    if not isinstance(outputs, Iterable):
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")
    checked = map(scalable, outputs)
    return type(outputs)(checked) if isinstance(outputs, (list, tuple)) else checked


def check_new_scale(new_scale: float | torch.Tensor) -> None:
    """Raise for a scale that is not finite and above 0, if it can be read without waiting for a device."""
    if isinstance(new_scale, float):
        _C.checked_scale(new_scale, "new_scale")
    elif isinstance(new_scale, torch.Tensor) and new_scale.is_cpu and new_scale.numel() == 1:
        _C.checked_scale(new_scale.item(), "new_scale")
