"""Rows C1 to C8 and C13: unscaling, checking and clipping gradients, and casting parameters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

import ampcast
from bench.harness import Block, Effort, interleave, timed
from bench.row import Goal, Row
from bench.scales import CLIP_SCALE, INV_SCALE, LARGE_NORM, MAX_NORM, SCALE
from bench.shapes import transformer_sizes

UNSCALE = "unscale, op"
CHECK = "check only, op"
SCALER = "unscale, scaler"
CLIP = "unscale and clip"
CLIP_NOT_DUE = "unscale and clip, not due"
COPY = "copy and cast, op"
STATEMENTS = {
    UNSCALE: (
        "ops.unscale_(gradients, found_inf, inv_scale)",
        "torch_unscale_(gradients, found_inf, inv_scale)",
    ),
    CHECK: (
        "ops.check_finite_(gradients, found_inf, inv_scale)",
        "torch_unscale_(gradients, found_inf, one)",
    ),
}
PEERS = {
    UNSCALE: "torch op",
    CHECK: "torch op, scale 1",
    SCALER: "torch.amp",
    CLIP: "torch.amp",
    CLIP_NOT_DUE: "torch.amp",
    COPY: "torch._foreach_copy_",
}


@dataclass(frozen=True)
class ScalerCase:
    """A row to measure: gradients, or parameters to cast to bfloat16, of `sizes` elements each."""

    number: str
    what: str
    sizes: list[int]
    dtype: torch.dtype
    goal: float
    threads: int = 2

    @property
    def name(self) -> str:
        return f"{self.number} {self.what}"

    @property
    def dtype_name(self) -> str:
        if self.what == COPY:
            return "fp32->bf16"
        return "bf16" if self.dtype == torch.bfloat16 else "fp32"


CASES = (
    ScalerCase("C1", UNSCALE, [64] * 1000, torch.float32, 3.0),
    ScalerCase("C1", SCALER, [64] * 1000, torch.float32, 8.0),
    ScalerCase("C2", UNSCALE, [1024] * 1000, torch.float32, 3.5),
    ScalerCase("C2", UNSCALE, [1024] * 1000, torch.bfloat16, 2.5),
    ScalerCase("C3", UNSCALE, [16384] * 1000, torch.float32, 1.6),
    ScalerCase("C3", UNSCALE, [16384] * 1000, torch.float32, 1.15, threads=1),
    ScalerCase("C4", UNSCALE, [64 * 2**20], torch.float32, 0.97),
    ScalerCase("C4", UNSCALE, [64 * 2**20], torch.bfloat16, 1.08),
    ScalerCase("C5", CHECK, [64 * 2**20], torch.float32, 1.1),
    ScalerCase("C5", CHECK, [64 * 2**20], torch.bfloat16, 1.4),
    ScalerCase("C6", SCALER, [1024] * 1000, torch.float32, 6.0),
    ScalerCase("C7", CLIP, transformer_sizes(), torch.float32, 4.0),
    ScalerCase("C7", CLIP_NOT_DUE, transformer_sizes(), torch.float32, 4.0),
    ScalerCase("C8", CLIP, [1024] * 1000, torch.float32, 20.0),
    ScalerCase("C8", CLIP_NOT_DUE, [1024] * 1000, torch.float32, 20.0),
    ScalerCase("C13", COPY, [1024] * 1000, torch.float32, 2.4),
    ScalerCase("C13", COPY, [64 * 2**20], torch.float32, 1.0),
)


def measure(only: str, threads: int | None, cores: int, effort: Effort) -> Iterator[Row]:
    """Measure the cases whose name holds `only`."""
    for case in CASES:
        if only in case.name:
            yield measure_case(case, min(threads or case.threads, cores), effort)


def measure_case(case: ScalerCase, threads: int, effort: Effort) -> Row:
    sizes = shrunk(case.sizes, effort.shrink)
    optimizer = optimizer_with_gradients(sizes, case.dtype)
    compared = {SCALER: use_scaler, CLIP: clip, CLIP_NOT_DUE: clip, COPY: copy_parameters}.get(case.what, call_operator)
    blocks = {
        **compared(case.what, optimizer, threads, effort),
        **floor_probes(case.what, optimizer, threads, effort),
    }
    return Row(
        case=case.name,
        dtype=case.dtype_name,
        shape=f"{len(sizes)} x {sizes[0]}" if len(set(sizes)) == 1 else f"{len(sizes)}, {sum(sizes)} in all",
        threads=threads,
        peer=PEERS[case.what],
        goal=Goal(case.goal),
        times=interleave(blocks, effort),
    )


def shrunk(sizes: list[int], divisor: int) -> list[int]:
    return [max(64, size // divisor) for size in sizes[: max(1, len(sizes) // divisor)]]


def optimizer_with_gradients(sizes: list[int], dtype: torch.dtype) -> torch.optim.Optimizer:
    """Gradients that parameters own, as in use.

    For a tensor that only Python owns, torch takes and gives back the GIL on each call of an operator.
    """
    parameters = [torch.nn.Parameter(torch.zeros(size, dtype=dtype)) for size in sizes]
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    return torch.optim.SGD(parameters)


def gradients_of(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [parameter.grad for parameter in optimizer.param_groups[0]["params"]]


def call_operator(what: str, optimizer: torch.optim.Optimizer, threads: int, effort: Effort) -> dict[str, Block]:
    variables: dict[str, Any] = {
        "gradients": gradients_of(optimizer),
        "found_inf": torch.zeros(1),
        "inv_scale": torch.tensor([INV_SCALE]),
        "one": torch.ones(1),
        "torch_unscale_": torch._amp_foreach_non_finite_check_and_unscale_,
        "ops": ampcast.ops,
    }
    ours, peer = STATEMENTS[what]
    return {
        "ours": timed(ours, variables, threads, effort),
        "peer": timed(peer, variables, threads, effort),
    }


def use_scaler(_: str, optimizer: torch.optim.Optimizer, threads: int, effort: Effort) -> dict[str, Block]:
    def unscale(scaler: torch.amp.GradScaler) -> Block:
        scaler.scale(torch.ones(1))
        variables = {"scaler": scaler, "optimizer": optimizer, "states": scaler._per_optimizer_states}
        # Emptying the states stands for `update`, without which an optimizer is unscaled once only.
        return timed("scaler.unscale_(optimizer); states.clear()", variables, threads, effort)

    return {
        "ours": unscale(ampcast.GradScaler("cpu", init_scale=SCALE)),
        "peer": unscale(torch.amp.GradScaler("cpu", init_scale=SCALE)),
    }


def clip(what: str, optimizer: torch.optim.Optimizer, threads: int, effort: Effort) -> dict[str, Block]:
    scale, max_norm = (CLIP_SCALE, MAX_NORM) if what == CLIP else (SCALE, LARGE_NORM)

    def block(statement: str, scaler: torch.amp.GradScaler) -> Block:
        scaler.scale(torch.ones(1))
        variables = {
            "scaler": scaler,
            "optimizer": optimizer,
            "states": scaler._per_optimizer_states,
            "parameters": optimizer.param_groups[0]["params"],
            "max_norm": max_norm,
            "torch_clip_": torch.nn.utils.clip_grad_norm_,
        }
        return timed(f"{statement}; states.clear()", variables, threads, effort)

    return {
        "ours": block("scaler.clip_grad_norm_(optimizer, max_norm)", ampcast.GradScaler("cpu", init_scale=scale)),
        "peer": block(
            "scaler.unscale_(optimizer); torch_clip_(parameters, max_norm)",
            torch.amp.GradScaler("cpu", init_scale=scale),
        ),
    }


def copy_parameters(_: str, optimizer: torch.optim.Optimizer, threads: int, effort: Effort) -> dict[str, Block]:
    source = gradients_of(optimizer)
    casts = optimizer_with_gradients([tensor.numel() for tensor in source], torch.bfloat16)
    variables: dict[str, Any] = {
        "target": gradients_of(casts),
        "source": source,
        "torch_copy_": torch._foreach_copy_,
        "ops": ampcast.ops,
    }
    return {
        "ours": timed("ops.copy_cast_(target, source)", variables, threads, effort),
        "peer": timed("torch_copy_(target, source)", variables, threads, effort),
    }


def floor_probes(what: str, optimizer: torch.optim.Optimizer, threads: int, effort: Effort) -> dict[str, Block]:
    """What memory allows: as many bytes in one float32 tensor, scaled in place, copied, or read."""
    numel = sum(gradient.nbytes for gradient in gradients_of(optimizer)) // torch.float32.itemsize
    if what == COPY:
        numel = numel * 3 // 4  # half as much is written as is read
    variables = {"source": torch.randn(numel), "target": torch.randn(numel), "factor": INV_SCALE}
    written = {"scale": "source.mul_(factor)", "copy": "target.copy_(source)"}
    probes = {"read": "source.sum()"} if what == CHECK else written
    return {name: timed(statement, variables, threads, effort) for name, statement in probes.items()}
