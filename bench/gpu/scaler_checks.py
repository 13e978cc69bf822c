"""Checks of whole steps: in lockstep with torch's scaler, as a replayed graph, and by what the profiler counts."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from bench.gpu import trace
from bench.gpu.check import Check, Target
from bench.gpu.gradients import Mismatch
from bench.gpu.graph import capture, warm_up
from bench.gpu.training import AMPCAST, OPTIMIZERS, TORCH, Training, first_difference, grad_scaler, scaled_gradients

SIZES = (7, 15, 1, 64, 1000, 16385)
MAX_KERNELS = 4
OPTIONS: dict[str, Any] = {"init_scale": 1024.0, "growth_interval": 3}


@dataclass(frozen=True)
class ParityCase:
    """A run of a scaler and an optimizer."""

    optimizer: str
    overflow_rate: float
    unscale_first: bool
    seed: int
    steps: int

    def __str__(self) -> str:
        unscaled = ", unscaled first" if self.unscale_first else ""
        return f"{self.optimizer}, overflow in {self.overflow_rate:.0%}{unscaled}, seed {self.seed}"


def parity_cases(quick: bool) -> list[ParityCase]:
    """Runs that differ in all that decides which steps are taken."""
    seeds = itertools.count(torch.initial_seed() % 10**6)
    choices = itertools.product(OPTIMIZERS, (0.05, 0.5), (False, True))
    return [ParityCase(*choice, seed=next(seeds), steps=20 if quick else 200) for choice in choices]


class ScalerChecks:
    """Trains on the device under test."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def lockstep(self, case: ParityCase) -> None:
        choose, generator = random.Random(case.seed), torch.Generator().manual_seed(case.seed)
        options: dict[str, Any] = {
            "init_scale": 2.0 ** choose.randint(0, 24) * choose.uniform(1.0, 2.0),
            "growth_factor": choose.uniform(1.1, 4.0),
            "backoff_factor": choose.uniform(0.3, 0.9),
            "growth_interval": choose.choice([1, 2, 3, 10]),
        }
        ours, torchs = (self.training(library, case.optimizer, **options) for library in (AMPCAST, TORCH))
        for step in range(case.steps):
            scale = torchs.scaler.get_scale()
            # Below 1 torch misses products that overflow, far above the numbers do.
            if not 1.0 <= scale <= 2.0**100:
                for training in (ours, torchs):
                    training.scaler.update(options["init_scale"])
                scale = torchs.scaler.get_scale()
            gradients = scaled_gradients(SIZES, scale, choose.random() < case.overflow_rate, generator)
            for training in (ours, torchs):
                training.set_gradients(gradients)
                (training.unscale_and_step if case.unscale_first else training.step)()
            expect_equal(ours, torchs, step)

    def operator_graph(self, steps: int) -> None:
        """`unscale_norm_`, `clip_` and `update_scale_` replayed on changing gradients, against the same eagerly."""
        replayed, eager = (self.training(AMPCAST, "SGD", **OPTIONS) for _ in range(2))
        self.compare_with_replay(replayed, eager, lambda training: OperatorStep(training).step, steps)

    def scaler_graph(self, steps: int) -> None:
        """`clip_grad_norm_`, `step` and `update` of the scaler with a fused AdamW."""
        replayed, eager = (self.training(AMPCAST, "AdamW(fused=True)", **OPTIONS) for _ in range(2))
        self.compare_with_replay(replayed, eager, lambda training: training.clip_and_step, steps)

    def compare_with_replay(
        self, replayed: Training, eager: Training, call_of: Callable[[Training], Callable[[], None]], steps: int
    ) -> None:
        calls = [call_of(training) for training in (replayed, eager)]
        for call in calls:
            warm_up(call, self.target.device)
        calls[0] = capture(calls[0], self.target.device)
        generator = torch.Generator().manual_seed(0)
        for step in range(steps):
            scale = eager.scaler.get_scale()
            gradients = scaled_gradients(SIZES, scale, step % 4 == 3, generator)
            for training, call in zip((replayed, eager), calls, strict=True):
                training.set_gradients(gradients)
                call()
            expect_equal(replayed, eager, step)

    def side_stream(self, seed: int) -> None:
        """Gradients that the current stream is still writing when the operators are queued."""
        device = self.target.device
        stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        generator = torch.Generator(device).manual_seed(seed)
        source = torch.randn(1 << 24, device=device, generator=generator)
        late, found_inf = torch.zeros_like(source), torch.zeros(1, device=device)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            torch.cuda._sleep(20_000_000)  # type: ignore[no-untyped-call]
            late.copy_(source)
            torch.ops.ampcast.unscale_([late], found_inf, torch.full((1,), 0.5, device=device))
            unscaled = late.clone()
        torch.cuda.synchronize()
        if not torch.equal(unscaled, source * 0.5) or found_inf.item() != 0.0:
            raise Mismatch("the operator did not wait for the work of its stream")

    def operator_counts(self, tensors: int) -> str:
        """Unscale, norm, clip and update as operators, with the inverse scale at hand."""
        training = self.training(AMPCAST, "SGD", sizes=[1024] * tensors)
        found = self.count(OperatorStep(training).operators)
        return within_goal(f"{tensors} x 1024: {found}", found)

    def scaler_counts(self, tensors: int) -> str:
        """The same by the scaler, which also makes what the operators take."""
        training = self.training(AMPCAST, "SGD", sizes=[1024] * tensors)
        found = self.count(functools.partial(scaler_part, training))
        return within_goal(f"{tensors} x 1024: {found}", found)

    def step_counts(self, library: str) -> str:
        """With the optimizer, whose kernels are none of ours; fused, it decides on the device, so that nothing waits."""
        training = self.training(library, "AdamW(fused=True)", sizes=[1024] * 1000)
        found = self.count(training.step, may_wait=library == TORCH)
        note = f"{library}, 1000 x 1024: {found}"
        return note if library == TORCH else within_goal(note, dataclasses.replace(found, kernels=0))

    def count(self, call: Callable[[], None], may_wait: bool = False) -> trace.Counts:
        warm_up(call, self.target.device)
        with contextlib.nullcontext() if may_wait else waiting_is_an_error():
            call()
        return trace.count(call)

    def training(self, library: str, optimizer: str, sizes: list[int] | None = None, **options: Any) -> Training:
        scaler = grad_scaler(library, self.target.device, **options)
        return Training(scaler, optimizer, sizes or SIZES, self.target.device)


class OperatorStep:
    """The operators on the gradients and the scale of a training, without its scaler."""

    def __init__(self, training: Training) -> None:
        self.gradients = training.gradients
        self.scale, self.tracker = training.tensors()[:2]
        self.found_inf, self.norm = (torch.zeros_like(self.scale) for _ in range(2))
        self.inv_scale = torch.ones_like(self.scale)

    def operators(self) -> None:
        torch.ops.ampcast.unscale_norm_(self.gradients, self.found_inf, self.inv_scale, self.norm)
        torch.ops.ampcast.clip_(self.gradients, self.norm, 1.0)
        torch.ops.ampcast.update_scale_(self.scale, self.tracker, self.found_inf, 2.0, 0.5, 3)

    def step(self) -> None:
        self.found_inf.zero_()
        self.inv_scale.copy_(self.scale.double().reciprocal())
        self.operators()


@contextlib.contextmanager
def waiting_is_an_error() -> Iterator[None]:
    """Have torch raise where it would wait for the device."""
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def within_goal(note: str, found: trace.Counts) -> str:
    if found.kernels > MAX_KERNELS or found.waits or found.copies_to_host:
        raise Mismatch(f"{note}; the goal is {MAX_KERNELS} kernels at most, and no wait")
    return note


def scaler_part(training: Training) -> None:
    """A step of the scaler alone."""
    scaler = training.scaler
    scaler.clip_grad_norm_(training.optimizer, 1.0)  # type: ignore[attr-defined]
    scaler.update()


def expect_equal(ours: Training, theirs: Training, step: int) -> None:
    """Compare scale, tracker, weights, gradients and the optimizers' state."""
    index = first_difference(ours.tensors(), theirs.tensors())
    if index is not None:
        what = ("the scale", "the growth tracker")[index] if index < 2 else f"tensor {index - 2} of the training"
        raise Mismatch(f"step {step}: {what} differs")


def scaler_checks(target: Target) -> list[Check]:
    checks = ScalerChecks(target)
    ops = "unscale_norm_ clip_ update_scale_"
    lockstep_ops = "unscale_ check_finite_ update_scale_"
    steps = [8 if target.quick else 50]
    return [
        Check(
            "scaler: in lockstep with torch.amp",
            lockstep_ops,
            parity_cases(target.quick),
            checks.lockstep,
        ),
        Check("graph: operators replayed", ops, steps, checks.operator_graph),
        Check("graph: scaler and AdamW replayed", ops, steps, checks.scaler_graph),
        Check("stream: operators keep its order", "unscale_", range(3), checks.side_stream, needs_cuda=True),
        Check("G8 kernels and waits, operators", ops, (1000, 2000), checks.operator_counts, needs_cuda=True),
        Check("G8 kernels and waits, scaler", ops, (1000, 2000), checks.scaler_counts, needs_cuda=True),
        Check("G8 kernels and waits, with AdamW", ops, (TORCH, AMPCAST), checks.step_counts, needs_cuda=True),
    ]
