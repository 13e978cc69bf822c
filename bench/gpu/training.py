"""A scaler and an optimizer on a device, fed with given gradients."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

AMPCAST, TORCH = "ampcast", "torch.amp"
NEVER = 2**31 - 1


def grad_scaler(library: str, device: torch.device, **options: Any) -> torch.amp.GradScaler:
    """A scaler of `library`, which is imported here because the script may have had to build it first."""
    scaler: torch.amp.GradScaler = importlib.import_module(library).GradScaler(device.type, **options)
    scaler.scale(torch.ones((), device=device))  # makes the scale, which a captured graph must find
    return scaler


def adamw(parameters: Sequence[torch.nn.Parameter], fused: bool = True) -> torch.optim.Optimizer:
    """AdamW that may be captured into a graph where there are graphs."""
    return torch.optim.AdamW(parameters, lr=1e-3, fused=fused, capturable=fused and parameters[0].is_cuda)


def sgd(parameters: Sequence[torch.nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.01, momentum=0.9)


def adamw_foreach(parameters: Sequence[torch.nn.Parameter]) -> torch.optim.Optimizer:
    return adamw(parameters, fused=False)


OPTIMIZERS: dict[str, Callable[[Sequence[torch.nn.Parameter]], torch.optim.Optimizer]] = {
    "SGD": sgd,
    "AdamW": adamw_foreach,
    "AdamW(fused=True)": adamw,
}


class Training:
    """Parameters with gradients that stay where they are, as a captured graph needs them."""

    def __init__(
        self, scaler: torch.amp.GradScaler, optimizer: str, sizes: Sequence[int], device: torch.device
    ) -> None:
        generator = torch.Generator().manual_seed(0)
        self.parameters = [torch.nn.Parameter(torch.randn(n, generator=generator).to(device)) for n in sizes]
        for parameter in self.parameters:
            parameter.grad = torch.zeros_like(parameter)
        self.scaler = scaler
        self.optimizer = OPTIMIZERS[optimizer](self.parameters)

    @property
    def gradients(self) -> list[torch.Tensor]:
        return [parameter.grad for parameter in self.parameters if parameter.grad is not None]

    def set_gradients(self, gradients: Sequence[torch.Tensor]) -> None:
        for own, given in zip(self.gradients, gradients, strict=True):
            own.copy_(given)

    def step(self) -> None:
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def unscale_and_step(self) -> None:
        self.scaler.unscale_(self.optimizer)
        self.step()

    def clip_and_step(self) -> None:
        """Ampcast's scaler only: torch's has no such method."""
        clip: Any = self.scaler
        clip.clip_grad_norm_(self.optimizer, 1.0)
        self.step()

    def tensors(self) -> list[torch.Tensor]:
        """All that a step changes."""
        scale, tracker = self.scaler._scale, self.scaler._growth_tracker
        assert scale is not None and tracker is not None
        state = [value for values in self.optimizer.state.values() for value in values.values()]
        return [scale, tracker, *self.parameters, *self.gradients, *(t for t in state if isinstance(t, torch.Tensor))]


def scaled_gradients(
    sizes: Sequence[int], scale: float, overflows: bool, generator: torch.Generator
) -> list[torch.Tensor]:
    """Gradients of a loss multiplied by `scale`, one element of which is not finite if it `overflows`."""
    gradients = [torch.randn(size, generator=generator) * scale for size in sizes]
    if overflows:
        gradient = gradients[int(torch.randint(len(sizes), (), generator=generator))]
        bad = (math.inf, -math.inf, math.nan)[int(torch.randint(3, (), generator=generator))]
        gradient[int(torch.randint(gradient.numel(), (), generator=generator))] = bad
    return gradients


def first_difference(ours: Sequence[torch.Tensor], theirs: Sequence[torch.Tensor]) -> int | None:
    """The index of the first tensor that is not equal bit for bit, NaN to NaN."""
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if not torch.equal(a.isnan(), b.isnan()) or not torch.equal(a.nan_to_num(nan=1.5), b.nan_to_num(nan=1.5)):
            return i
    return None
