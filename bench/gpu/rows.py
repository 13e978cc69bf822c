"""Rows G1 to G6, G9 and G12: device and host time against torch; G8 is a count, and a check."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch

from bench.gpu import workloads
from bench.gpu.clocks import Clock, block, clocks, graph_block
from bench.gpu.workloads import Calls, Tensors
from bench.harness import Block, Effort, interleave
from bench.row import Goal, Row
from bench.shapes import transformer_sizes

LANGUAGE_MODEL = tuple(transformer_sizes(vocabulary=32768, width=768, layers=12))
SMALL = (1024,) * 1000
MANY = (4096,) * 2000
ODD = (1_000_001,) * 160
DTYPE_NAMES = {torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16"}


@dataclass(frozen=True)
class Work:
    """What is called, by whom at the peer's, and how often it moves the bytes of the gradients at best."""

    calls: Callable[[Tensors], Calls]
    peer: str
    passes: int
    reads_only: bool = False


UNSCALE = Work(workloads.unscale, "torch op", 2)
UNSCALE_BFLOAT16 = Work(workloads.unscale, "torch op, fp16", 2)
CHECK = Work(workloads.check, "torch op, scale 1", 1, reads_only=True)
SCALER = Work(workloads.scaler_unscale, "torch.amp", 2)
CLIP = Work(workloads.clip, "torch.amp", 4)
STEP = Work(workloads.step, "torch.amp, fused", 9)
CLIP_STEP = Work(workloads.clip_and_step, "torch.amp, fused", 11)
REPLAY = Work(workloads.replay, "torch.amp, eager", 9)


@dataclass(frozen=True)
class GpuCase:
    """A row to measure by a clock of `clocks`: "device", "graph" (the device's without the host's), "host" or "wall"."""

    name: str
    work: Work
    sizes: tuple[int, ...]
    goal: float
    clock: str = "device"
    dtype: torch.dtype = torch.float32
    copy_share: float | None = None
    """The goal in parts of the rate at which the same run copies."""

    @property
    def nbytes(self) -> int:
        return self.work.passes * sum(self.sizes) * self.dtype.itemsize

    @property
    def shape(self) -> str:
        one_size = len(set(self.sizes)) == 1
        return f"{len(self.sizes)} x {self.sizes[0]}" if one_size else f"{len(self.sizes)}, {sum(self.sizes)} in all"

    def plan(self) -> str:
        share = "" if self.copy_share is None else f" and {self.copy_share:.0%} of the copy rate"
        dtype, nbytes = DTYPE_NAMES[self.dtype], f"{self.nbytes / 1e6:.1f} MB"
        goal = f"{Goal(self.goal)}{share}"
        return f"{self.name:<32} {dtype} {self.shape:<24} {nbytes:>10}  {self.clock:<6} {self.work.peer:<17} {goal}"


CASES = (
    GpuCase("G1 unscale, op", UNSCALE, LANGUAGE_MODEL, 1.05, copy_share=0.9),
    GpuCase("G2 unscale, op", UNSCALE, LANGUAGE_MODEL, 1.2, dtype=torch.float16, copy_share=0.88),
    GpuCase("G2 unscale, op", UNSCALE_BFLOAT16, LANGUAGE_MODEL, 1.2, dtype=torch.bfloat16, copy_share=0.88),
    GpuCase("G3 check only, op", CHECK, LANGUAGE_MODEL, 1.8),
    GpuCase("G4 unscale, op, device time", UNSCALE, SMALL, 2.0, clock="graph"),
    GpuCase("G4 unscale, scaler, host time", SCALER, SMALL, 10.0, clock="host"),
    GpuCase("G5 unscale and clip", CLIP, LANGUAGE_MODEL, 1.5),
    GpuCase("G5 unscale and clip, wall time", CLIP, MANY, 8.0, clock="wall"),
    GpuCase("G6 AdamW step", STEP, LANGUAGE_MODEL, 1.2),
    GpuCase("G6 AdamW clip and step", CLIP_STEP, LANGUAGE_MODEL, 1.4),
    GpuCase("G9 graph of a step, host time", REPLAY, SMALL, 10.0, clock="host"),
    GpuCase("G12 unscale, odd sizes", UNSCALE, ODD, 1.3),
    GpuCase("G12 unscale, odd sizes", UNSCALE, ODD, 1.3, dtype=torch.float16),
)


def select(only: str) -> list[GpuCase]:
    return [case for case in CASES if only in case.name]


def measure_case(case: GpuCase, device: torch.device, effort: Effort) -> Row:
    tensors = Tensors(case.sizes, case.dtype, device)
    clock = clocks(device)[case.clock]
    calls = case.work.calls(tensors)
    if case.clock in ("device", "graph"):
        calls = {**calls, **workloads.copy_probes(tensors, case.nbytes, case.work.reads_only)}
    blocks = {name: block_of(call, case, clock, effort, device) for name, call in calls.items()}
    return Row(
        case=case.name,
        dtype=DTYPE_NAMES[case.dtype],
        shape=case.shape,
        threads=1,
        peer=case.work.peer,
        goal=Goal(case.goal),
        times=interleave(blocks, effort),
        device=device.type,
    )


def block_of(call: Callable[[], None], case: GpuCase, clock: Clock, effort: Effort, device: torch.device) -> Block:
    if case.clock == "graph":
        return graph_block(call, clock, effort, device)
    return block(call, clock, effort)


def shrunk(case: GpuCase, divisor: int) -> GpuCase:
    """Fewer and smaller tensors."""
    sizes = case.sizes[: max(1, len(case.sizes) // divisor)]
    return dataclasses.replace(case, sizes=tuple(max(1, size // divisor) for size in sizes))


def rate_line(case: GpuCase, row: Row) -> str:
    """Bytes over time, next to those of the copy of the same run. Says nothing of a row without one."""
    if "copy" not in row.times:
        return ""
    share = float(np.median(row.times["copy"] / row.times["ours"]))
    ours, copy = (case.nbytes / float(np.median(row.times[name])) / 1e9 for name in ("ours", "copy"))
    line = f"    {case.name}: {ours:.0f} GB/s, copy {copy:.0f} GB/s: {share:.0%} of it"
    if case.copy_share is None:
        return line
    return f"{line}, goal >={case.copy_share:.0%}: {'yes' if share >= case.copy_share else 'no'}"


def measure(
    cases: Iterable[GpuCase], device: torch.device, effort: Effort
) -> Iterator[tuple[GpuCase, Row | Exception]]:
    """Measure each case, also after one that raised."""
    for case in (shrunk(case, effort.shrink) for case in cases):
        try:
            yield case, measure_case(case, device, effort)
        except Exception as error:  # an operator that fails in one row may serve in the next
            yield case, error
        if device.type == "cuda":
            torch.cuda.empty_cache()
