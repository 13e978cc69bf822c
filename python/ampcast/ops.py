"""The operators on gradients, for lists of tensors of one device.

Each is `torch.ops.ampcast`'s operator of the same name, and calls that under `torch.compile`; else it hands the lists over
without boxing them, which is what a call on many small tensors costs most. All gradients are dense, of dtype float32,
float64, float16, bfloat16, complex64 or complex128 in any mix and any strides; two of a list must not share memory.
`found_inf`, `inv_scale` and `norm` are one float32 element on the gradients' device. On CUDA the work is queued on the
current stream, and nothing waits for it. An argument that breaks a rule raises before anything is written.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ampcast import _C


def check_finite_(grads: Sequence[Tensor], found_inf: Tensor, inv_scale: Tensor | None = None) -> None:
    """Set `found_inf` to 1 if a gradient, times `inv_scale` and rounded to its dtype, is Inf or NaN; write no gradient."""
    _function("check_finite_")(grads, found_inf, inv_scale)


def unscale_(grads: Sequence[Tensor], found_inf: Tensor, inv_scale: Tensor) -> None:
    """Multiply `grads` by `inv_scale`, and set `found_inf` to 1 if what is written is Inf or NaN anywhere."""
    _function("unscale_")(grads, found_inf, inv_scale)


def unscale_norm_(
    grads: Sequence[Tensor], found_inf: Tensor, inv_scale: Tensor, norm: Tensor, norm_type: float = 2.0
) -> None:
    """Do what `unscale_` does, and set `norm` to the 2-norm, or for `norm_type` inf the inf-norm, of what is written."""
    _function("unscale_norm_")(grads, found_inf, inv_scale, norm, norm_type)


def clip_(grads: Sequence[Tensor], norm: Tensor, max_norm: float) -> None:
    """Multiply `grads`, whose norm is `norm`, by `max_norm / (norm + 1e-6)` if that is below 1."""
    _function("clip_")(grads, norm, max_norm)


def copy_cast_(dst: Sequence[Tensor], src: Sequence[Tensor]) -> None:
    """Copy each tensor of `src` to its counterpart in `dst`, converted to that one's dtype."""
    _function("copy_cast_")(dst, src)


def update_scale_(
    scale: Tensor,
    growth_tracker: Tensor,
    found_inf: Tensor,
    growth_factor: float,
    backoff_factor: float,
    growth_interval: int,
) -> None:
    """Move `scale` and the int32 `growth_tracker` by torch's rule, as `found_inf` says."""
    _function("update_scale_")(scale, growth_tracker, found_inf, growth_factor, backoff_factor, growth_interval)


def _function(name: str) -> Any:
    return getattr(torch.ops.ampcast if torch.compiler.is_compiling() else _C, name)
