"""What a row calls: ours, and the same work by torch."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from bench.gpu.graph import capture, warm_up
from bench.gpu.training import AMPCAST, TORCH, adamw, grad_scaler
from bench.scales import CLIP_SCALE, INV_SCALE, MAX_NORM, SCALE

Calls = dict[str, Callable[[], None]]

NO_GROWTH = 2**31 - 1


@dataclass(frozen=True)
class Tensors:
    """The tensors of a row, which live as long as this."""

    sizes: Sequence[int]
    dtype: torch.dtype
    device: torch.device
    made: list[torch.nn.Parameter] = field(default_factory=list)

    def parameters(self) -> list[torch.nn.Parameter]:
        """Make parameters that own their gradients, as in use.

        For a tensor that only Python owns, torch takes and gives back the GIL on each call of an operator.
        """
        made = [torch.nn.Parameter(torch.randn(n, dtype=self.dtype, device=self.device)) for n in self.sizes]
        for parameter in made:
            parameter.grad = torch.randn_like(parameter)
        self.made.extend(made)
        return made

    def optimizer(self) -> torch.optim.Optimizer:
        return adamw(self.parameters())

    def gradients(self) -> list[torch.Tensor]:
        return [parameter.grad for parameter in self.parameters() if parameter.grad is not None]

    def scalar(self, value: float) -> torch.Tensor:
        return torch.full((1,), value, device=self.device)

    def scaler(self, library: str, scale: float) -> Any:
        return grad_scaler(library, self.device, init_scale=scale, growth_interval=NO_GROWTH)


def unscale(tensors: Tensors) -> Calls:
    """Torch's operator takes no bfloat16 on CUDA, and gets as many bytes of float16."""
    gradients, found_inf, inv_scale = tensors.gradients(), tensors.scalar(0.0), tensors.scalar(INV_SCALE)
    peers = gradients
    if tensors.dtype == torch.bfloat16:
        peers = dataclasses.replace(tensors, dtype=torch.float16).gradients()
    return {
        "ours": lambda: torch.ops.ampcast.unscale_(gradients, found_inf, inv_scale),
        "peer": lambda: torch._amp_foreach_non_finite_check_and_unscale_(peers, found_inf, inv_scale),
    }


def check(tensors: Tensors) -> Calls:
    gradients, found_inf, one = tensors.gradients(), tensors.scalar(0.0), tensors.scalar(1.0)
    inv_scale = tensors.scalar(INV_SCALE)
    return {
        "ours": lambda: torch.ops.ampcast.check_finite_(gradients, found_inf, inv_scale),
        "peer": lambda: torch._amp_foreach_non_finite_check_and_unscale_(gradients, found_inf, one),
    }


def scaler_unscale(tensors: Tensors) -> Calls:
    optimizer = tensors.optimizer()

    def call(scaler: Any) -> Callable[[], None]:
        def unscale_once() -> None:
            scaler.unscale_(optimizer)
            scaler._per_optimizer_states.clear()  # stands for `update`, without which it is unscaled once only

        return unscale_once

    return {"ours": call(tensors.scaler(AMPCAST, SCALE)), "peer": call(tensors.scaler(TORCH, SCALE))}


def clip(tensors: Tensors) -> Calls:
    optimizer = tensors.optimizer()
    ours, peer = (tensors.scaler(library, CLIP_SCALE) for library in (AMPCAST, TORCH))

    def clip_ours() -> None:
        ours.clip_grad_norm_(optimizer, MAX_NORM)
        ours._per_optimizer_states.clear()

    def clip_peer() -> None:
        peer.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], MAX_NORM)
        peer._per_optimizer_states.clear()

    return {"ours": clip_ours, "peer": clip_peer}


def step(tensors: Tensors) -> Calls:
    def call(library: str) -> Callable[[], None]:
        scaler, optimizer = tensors.scaler(library, SCALE), tensors.optimizer()

        def step_once() -> None:
            scaler.step(optimizer)
            scaler.update()

        return step_once

    return {"ours": call(AMPCAST), "peer": call(TORCH)}


def clip_and_step(tensors: Tensors) -> Calls:
    ours, peer = (tensors.scaler(library, CLIP_SCALE) for library in (AMPCAST, TORCH))
    ours_of, peer_of = tensors.optimizer(), tensors.optimizer()

    def step_ours() -> None:
        ours.clip_grad_norm_(ours_of, MAX_NORM)
        ours.step(ours_of)
        ours.update()

    def step_peer() -> None:
        peer.unscale_(peer_of)
        torch.nn.utils.clip_grad_norm_(peer_of.param_groups[0]["params"], MAX_NORM)
        peer.step(peer_of)
        peer.update()

    return {"ours": step_ours, "peer": step_peer}


def replay(tensors: Tensors) -> Calls:
    """Ours is one replay of a captured step, the peer torch's step without a graph."""
    calls = step(tensors)
    warm_up(calls["ours"], tensors.device)
    return {"ours": capture(calls["ours"], tensors.device), "peer": calls["peer"]}


def copy_probes(tensors: Tensors, nbytes: int, reads: bool) -> Calls:
    """What memory allows: a copy that moves `nbytes` in all and, for what only reads, a sum over as many."""
    numel = max(1, nbytes // 2 // torch.float32.itemsize)
    source, target = (torch.randn(numel, device=tensors.device) for _ in range(2))
    whole = torch.randn(2 * numel, device=tensors.device) if reads else source

    def copy() -> None:
        target.copy_(source)

    def read() -> None:
        whole.sum()

    return {"copy": copy, "read": read} if reads else {"copy": copy}
