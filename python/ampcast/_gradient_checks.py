"""How `GradScaler` unscales and checks gradients, and hands both to fused optimizers."""

from __future__ import annotations

from typing import Any

import torch

# Bound here, once: code that puts ampcast's class in the place of torch's must not make it call itself.
from torch.amp.grad_scaler import GradScaler as TorchGradScaler
from torch.amp.grad_scaler import OptState

from ampcast import _C


class GradientChecks(TorchGradScaler):
    """Torch's scaler with the gradients processed by ampcast's operators, where there are kernels for them."""

    def _unscale_grads_(
        self,
        optimizer: torch.optim.Optimizer,
        inv_scale: torch.Tensor,
        found_inf: torch.Tensor,
        allow_fp16: bool,
    ) -> dict[torch.device, torch.Tensor]:
        found = _C.unscale_gradients_(optimizer, inv_scale, found_inf, allow_fp16)
        return super()._unscale_grads_(optimizer, inv_scale, found_inf, allow_fp16) if found is None else found

    def _check_inf_per_device(self, optimizer: torch.optim.Optimizer) -> dict[Any, Any]:
        scale, _ = self._check_scale_growth_tracker("_check_inf_per_device")
        preset = getattr(optimizer, "grad_scale", None)
        inv_scale = _C.inverse_of_scale(scale if preset is None else scale * preset)
        found: dict[Any, Any] | None = _C.check_gradients(optimizer, inv_scale, torch.zeros_like(scale))
        if found is None:
            return super()._check_inf_per_device(optimizer)
        self._per_optimizer_states[id(optimizer)]["found_inf_per_device"] = found
        return found

    def _unscale_and_clip_(
        self, optimizer: torch.optim.Optimizer, max_norm: float, norm_type: float, error_if_nonfinite: bool
    ) -> torch.Tensor | None:
        """Unscale what is not yet, clip, and return the norm; None where ampcast's operators cannot clip."""
        scale, _ = self._check_scale_growth_tracker("clip_grad_norm_")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("clip_grad_norm_() is being called after step().")
        is_first = state["stage"] is OptState.READY
        inv_scale = _C.inverse_of_scale(scale) if is_first else torch.ones_like(scale)
        clipped = _C.unscale_and_clip_gradients_(
            optimizer, inv_scale, torch.zeros_like(scale), max_norm, norm_type, error_if_nonfinite
        )
        if clipped is None:
            if is_first:
                self.unscale_(optimizer)
            return None
        found, norm = clipped
        if is_first:
            state["found_inf_per_device"], state["stage"] = found, OptState.UNSCALED
        if error_if_nonfinite and not norm.isfinite():
            raise RuntimeError(
                f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be clipped. "
                "To disable this error and scale the gradients by the non-finite norm anyway, "
                "set `error_if_nonfinite=False`"
            )
        return norm

    def _step_fused(self, optimizer: Any, *args: Any, **kwargs: Any) -> float | None:
        """Step an optimizer that reads `grad_scale` and `found_inf` from its attributes."""
        scale, _ = self._check_scale_growth_tracker("step")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.READY:
            self._check_inf_per_device(optimizer)
            grad_scale: torch.Tensor | None = scale * getattr(optimizer, "grad_scale", 1)
        else:
            grad_scale = getattr(optimizer, "grad_scale", None)
        found = list(state["found_inf_per_device"].values())
        # Fused kernels skip on exactly 1, while programs that reduce over ranks may leave a sum. With nothing checked, torch's
        # plain 0 does for an optimizer without gradients, and is refused by one whose gradients came after `unscale_`.
        found_inf = _C.combine_found_inf(found, scale.device).ne(0).to(torch.float32) if found else 0
        optimizer.grad_scale, optimizer.found_inf = grad_scale, found_inf
        try:
            result: float | None = optimizer.step(*args, **kwargs)
        finally:
            del optimizer.grad_scale, optimizer.found_inf
        return result

    def _recorded_found_inf(self) -> list[torch.Tensor]:
        states = self._per_optimizer_states.values()
        found = [found_inf for state in states for found_inf in state["found_inf_per_device"].values()]
        if not found:
            raise AssertionError("No inf checks were recorded prior to update.")
        return found
