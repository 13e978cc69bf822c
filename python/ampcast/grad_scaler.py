"""`GradScaler`: torch's gradient scaler with its work done by ampcast's operators."""

from __future__ import annotations

import inspect
import warnings
from collections import defaultdict
from typing import Any

import torch
from torch.amp.grad_scaler import OptState, _refresh_per_optimizer_state
from torch.cuda.amp.common import amp_definitely_not_available

from ampcast import _C
from ampcast._gradient_checks import GradientChecks
from ampcast._scaler_arguments import check_new_scale, scalable

__all__ = ["GradScaler"]


class GradScaler(GradientChecks):
    """Scales losses so that float16 gradients do not underflow, and skips optimizer steps whose gradients overflowed.

    A drop-in for `torch.amp.GradScaler`, of which it is a subclass: same arguments, state machine, errors, `state_dict` and
    pickles. With the same calls it takes and skips the same steps with the same scale, and differs in this:

    - Gradients are tested after they are multiplied, so that a product which overflows (possible only at scales below 1)
      skips the step; torch tests before and steps on Inf.
    - For fused optimizers the same product is tested, so that they skip the same steps as others, and `optimizer.found_inf`
      is exactly 0 or 1 whatever the number of devices. `grad_scale` and `found_inf` are removed also when the step raises.
    - Complex gradients are unscaled.
    - A scale that is not finite and above 0 in float32, a factor that is not finite and above 0, and a growth interval
      below 1 raise ValueError; a loss that is neither floating point nor complex raises TypeError.
    - A call that raises changes nothing; `update` leaves the recorded `found_inf` tensors as they are.

    Gradients on devices for which ampcast has no kernels, and tensor subclasses such as DTensor, are unscaled by torch's
    own operator and have torch's rules. The scale lives on the device of the first scaled output. An instance is for one
    thread at a time.

    Args:
        device: type of the device that losses live on. "cuda" without CUDA warns and disables the scaler.
        init_scale: first scale.
        growth_factor: multiplies the scale after `growth_interval` steps in a row without Inf or NaN; above 1.
        backoff_factor: multiplies the scale after a step with Inf or NaN; below 1.
        growth_interval: steps without Inf or NaN before the scale grows.
        enabled: if False, `scale` returns its argument, `step` steps, and all else does nothing and checks nothing.

    Raises:
        AssertionError: `growth_factor` is not above 1, or `backoff_factor` not below 1.
        ValueError: an argument breaks one of the rules above.
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if enabled and device == "cuda" and amp_definitely_not_available():  # type: ignore[no-untyped-call]
            # Torch's own warning would name this line as its cause.
            message = "torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling."
            warnings.warn(message, stacklevel=2)
            enabled = False
        super().__init__(device, init_scale, growth_factor, backoff_factor, growth_interval, enabled)
        if self._enabled:
            _C.checked_scale(init_scale, "init_scale")
            _C.checked_factor(growth_factor, "growth_factor")
            _C.checked_factor(backoff_factor, "backoff_factor")
            _C.checked_growth_interval(growth_interval)

    def scale(self, outputs: Any) -> Any:
        """Multiply a tensor, or each tensor of nested iterables, by the current scale.

        A float16 loss receives the scale as its gradient in float16, which overflows from 65520 on: compute losses in
        float32. Lists and tuples keep their type; other iterables give an iterator that multiplies when it is consumed.
        Queues work on the outputs' devices, waits for none.

        Args:
            outputs: what to scale; its tensors may live on several devices.

        Returns:
            The scaled outputs, or `outputs` itself when the scaler is disabled.

        Raises:
            ValueError: an output is neither a tensor nor an iterable.
            TypeError: a tensor is neither floating point nor complex (torch would return a floating point one).
        """
        if not self._enabled:
            return outputs
        with _C.ProfilerRange("ampcast::scale"):
            return super().scale(scalable(outputs))

    def unscale_(self, optimizer: torch.optim.Optimizer) -> None:
        """Divide the gradients of `optimizer` by the scale in place and record whether any is Inf or NaN afterwards.

        `step` does this where the program did not; call it first to clip or inspect gradients. Runs on the gradients'
        devices and current streams, waits for none. A sparse float16 gradient is coalesced and replaced.

        Args:
            optimizer: the optimizer that owns the gradients, all of them accumulated.

        Raises:
            AssertionError: `scale` was not called before.
            RuntimeError: called twice for `optimizer` since the last `update`, or after `step`.
            ValueError: a gradient is float16.
        """
        super().unscale_(optimizer)

    def clip_grad_norm_(
        self,
        optimizer: torch.optim.Optimizer,
        max_norm: float,
        norm_type: float = 2.0,
        error_if_nonfinite: bool = False,
    ) -> torch.Tensor:
        """Unscale the gradients if `unscale_` was not called, and clip their norm to `max_norm`.

        `unscale_` and `torch.nn.utils.clip_grad_norm_` of all of the optimizer's parameters in one call, in at most two
        passes over the gradients, the second only where clipping is due. Dense gradients with `norm_type` 2 or infinity
        take the fused operators, everything else torch's function. May be called again; a disabled scaler only clips.
        Waits for a device only for `error_if_nonfinite`.

        Args:
            optimizer: the optimizer that owns the gradients, all of them accumulated.
            max_norm: the norm to clip to, from 0 on.
            norm_type: the order of the norm, infinity included.
            error_if_nonfinite: raise if the norm is Inf or NaN. Without it such gradients are multiplied by 0 or NaN, as
                torch does, and `step` skips them.

        Returns:
            The norm that the unscaled gradients had, of shape (), on the device of the first gradient; float32 when
            fused, else what torch returns.

        Raises:
            AssertionError: `scale` was not called before.
            RuntimeError: called after `step`; or the norm is not finite and `error_if_nonfinite` is set: the gradients are
                then unscaled and not clipped, and `step` skips.
            ValueError: `max_norm` is negative or NaN, or a gradient is float16.
        """
        norm_type = float(norm_type)
        if self._enabled:
            norm = self._unscale_and_clip_(optimizer, _C.checked_max_norm(max_norm), norm_type, error_if_nonfinite)
            if norm is not None:
                return norm
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        return torch.nn.utils.clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite)

    def step(self, optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> float | None:
        """Unscale the gradients if `unscale_` was not called, and step `optimizer` unless they hold Inf or NaN.

        Waits for the gradients' devices to know, except for optimizers that handle the scale themselves (`fused=True`):
        these get `grad_scale` and `found_inf` as attributes for the time of their step and decide on the device. A
        `grad_scale` that was set on the optimizer before is multiplied in, and removed with the others.

        Args:
            optimizer: the optimizer to step.
            args: passed on to `optimizer.step`.
            kwargs: passed on to `optimizer.step`; closures are not supported.

        Returns:
            What `optimizer.step` returns, or None if the step was skipped.

        Raises:
            AssertionError: `scale` was not called before, or `optimizer` has no gradients.
            RuntimeError: called twice for `optimizer` since the last `update`, or `closure` was given.
        """
        with _C.ProfilerRange("ampcast::step"):
            handles_scale = getattr(optimizer, "_step_supports_amp_scaling", False)
            if not (self._enabled and handles_scale) or "closure" in kwargs:
                return super().step(optimizer, *args, **kwargs)
            self._check_scale_growth_tracker("step")
            state = self._per_optimizer_states[id(optimizer)]
            if state["stage"] is OptState.STEPPED:
                raise RuntimeError("step() has already been called since the last update().")
            result: float | None
            if "grad_scaler" in inspect.signature(optimizer.step).parameters:
                _warn_of_grad_scaler_argument()
                result = optimizer.step(*args, **{**kwargs, "grad_scaler": self})
            else:
                result = self._step_fused(optimizer, *args, **kwargs)
            state["stage"] = OptState.STEPPED
            return result

    def update(self, new_scale: float | torch.Tensor | None = None) -> None:
        """Back the scale off if any optimizer's gradients overflowed, else count towards growth; begin a new iteration.

        Call it once an iteration, after `step` of every optimizer. Runs on the scale's device, waits for none.

        Args:
            new_scale: sets the scale to this instead, and leaves the growth tracker alone. A tensor must have one element,
                live on this scaler's type of device and not require grad. The value of a CPU tensor is checked; reading
                one on another device would wait for it.

        Raises:
            AssertionError: `scale` was not called before, no gradients were checked, or `new_scale` is an unfit tensor.
            ValueError: `new_scale` is not finite and above 0 in float32.
        """
        if not self._enabled:
            return
        scale, growth_tracker = self._check_scale_growth_tracker("update")
        with _C.ProfilerRange("ampcast::update"):
            if new_scale is not None:
                check_new_scale(new_scale)
                super().update(new_scale)
                return
            update_scale_ = _C.update_scale_ if _C.has_kernels(scale) else torch._amp_update_scale_
            update_scale_(
                scale,
                growth_tracker,
                _C.combine_found_inf(self._recorded_found_inf(), scale.device),
                self._growth_factor,
                self._backoff_factor,
                self._growth_interval,
            )
            self._per_optimizer_states = defaultdict(_refresh_per_optimizer_state)

    def set_growth_factor(self, new_factor: float) -> None:
        """Set the factor by which the scale grows; exactly 1 holds it still.

        Raises:
            ValueError: `new_factor` is not finite and above 0.
        """
        if self._enabled:
            _C.checked_factor(new_factor, "growth_factor")
        super().set_growth_factor(new_factor)

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set the factor by which the scale backs off; exactly 1 holds it still.

        Raises:
            ValueError: `new_factor` is not finite and above 0.
        """
        if self._enabled:
            _C.checked_factor(new_factor, "backoff_factor")
        super().set_backoff_factor(new_factor)

    def set_growth_interval(self, new_interval: int) -> None:
        """Set the number of steps without Inf or NaN after which the scale grows.

        Raises:
            ValueError: `new_interval` is below 1.
        """
        if self._enabled:
            _C.checked_growth_interval(new_interval)
        super().set_growth_interval(new_interval)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore what `state_dict` of ampcast's or torch's scaler returned, in Python or C++.

        Does nothing when the scaler is disabled, and changes nothing when it raises.

        Args:
            state_dict: `scale`, `growth_factor`, `backoff_factor`, `growth_interval` and `_growth_tracker`.

        Raises:
            RuntimeError: `state_dict` is empty.
            KeyError: a key is missing.
            TypeError: a value is not a number.
            ValueError: a value breaks its rule (see the class), or the tracker is negative.
        """
        if self._enabled and len(state_dict) != 0:
            state_dict = {
                "scale": _C.checked_scale(state_dict["scale"], "scale"),
                "growth_factor": _C.checked_factor(state_dict["growth_factor"], "growth_factor"),
                "backoff_factor": _C.checked_factor(state_dict["backoff_factor"], "backoff_factor"),
                "growth_interval": _C.checked_growth_interval(state_dict["growth_interval"]),
                "_growth_tracker": _C.checked_growth_tracker(state_dict["_growth_tracker"]),
            }
        super().load_state_dict(state_dict)


def _warn_of_grad_scaler_argument() -> None:
    warnings.warn(
        "GradScaler is going to stop passing itself as a keyword argument to the passed "
        "optimizer. In the near future GradScaler registers `grad_scale: Tensor` and "
        "`found_inf: Tensor` to the passed optimizer and let the optimizer use them directly.",
        FutureWarning,
        stacklevel=3,
    )
