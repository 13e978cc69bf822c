"""Checks of the operators on gradients, and of `update_scale_`, case by case."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import torch

from bench.gpu.check import Check, Target
from bench.gpu.gradient_cases import (
    Case,
    finite_cases,
    list_cases,
    misaligned_cases,
    only,
    sized_cases,
    strided_cases,
)
from bench.gpu.gradients import REAL_DTYPES, Mismatch, expect_flag, expect_norm, expect_same, norm_of

TORCH_DTYPES = {"cpu": REAL_DTYPES, "cuda": (torch.float32, torch.float64, torch.float16)}
"""What torch's own operator takes."""


class OperatorChecks:
    """Runs an operator on the device under test and on the CPU, and compares both with torch's arithmetic."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def check_finite(self, case: Case) -> None:
        made = case.gradients()
        bad, bad_product = not made.are_finite(), not made.times(case.inv_scale).are_finite()
        for device in self.target.devices:
            given = made.on(device)
            for inv_scale, expected in ((None, bad), (scalar(case.inv_scale, device), bad_product)):
                found_inf = scalar(0.0, device)
                torch.ops.ampcast.check_finite_(given.tensors, found_inf, inv_scale)
                expect_flag(found_inf, expected)
            expect_same(given, made)

    def unscale(self, case: Case) -> None:
        made = case.gradients()
        expected = made.times(case.inv_scale)
        for device in self.target.devices:
            given, found_inf = made.on(device), scalar(0.0, device)
            torch.ops.ampcast.unscale_(given.tensors, found_inf, scalar(case.inv_scale, device))
            expect_same(given, expected)
            expect_flag(found_inf, not expected.are_finite())

    def unscale_norm(self, case: Case) -> None:
        made = case.gradients()
        expected = made.times(case.inv_scale)
        finite = expected.are_finite()
        for device, norm_type in itertools.product(self.target.devices, (2.0, math.inf)):
            given, found_inf, norm = made.on(device), scalar(0.0, device), scalar(-1.0, device)
            torch.ops.ampcast.unscale_norm_(given.tensors, found_inf, scalar(case.inv_scale, device), norm, norm_type)
            expect_same(given, expected)
            expect_flag(found_inf, not finite)
            if not finite and bool(norm.isfinite()):
                raise Mismatch(f"the norm of gradients that are not finite is {norm.item()}")
            if finite:
                expect_norm(norm, norm_of(expected.tensors, norm_type), ulps_of_norm(case, norm_type))

    def norm_repeats(self, case: Case) -> None:
        made, norms = case.gradients(), set()
        for _ in range(3):
            given, norm = made.on(self.target.device), scalar(-1.0, self.target.device)
            inv_scale = scalar(case.inv_scale, self.target.device)
            torch.ops.ampcast.unscale_norm_(given.tensors, torch.zeros_like(norm), inv_scale, norm)
            norms.add(norm.cpu().view(torch.int32).item())
        if len(norms) != 1:
            raise Mismatch(f"the same gradients gave the norms {norms}, as integers")

    def clip(self, case: Case) -> None:
        made = case.gradients()
        for norm, max_norm in ((4.0, 1.0), (0.5, 1.0), (3.0, 0.0), (math.inf, 2.0), (math.nan, 1.0), (2.0, math.inf)):
            coefficient = clip_coefficient(norm, max_norm)
            expected = made.on("cpu") if coefficient == 1.0 else made.times(coefficient)
            for device in self.target.devices:
                given = made.on(device)
                torch.ops.ampcast.clip_(given.tensors, scalar(norm, device), max_norm)
                expect_same(given, expected)

    def torch_unscale(self, case: Case) -> None:
        """Torch tests before it multiplies, so the flag is that of the gradients as they were."""
        made, device = case.gradients(), self.target.device
        ours, torchs = made.on(device), made.on(device)
        found_inf, torch_found_inf = scalar(0.0, device), scalar(0.0, device)
        inv_scale = scalar(case.inv_scale, device)
        torch.ops.ampcast.unscale_(ours.tensors, found_inf, inv_scale)
        torch._amp_foreach_non_finite_check_and_unscale_(torchs.tensors, torch_found_inf, inv_scale)
        expect_same(ours, torchs.on("cpu"))
        if math.isfinite(case.inv_scale) and case.inv_scale <= 1.0:
            expect_flag(found_inf, bool(torch_found_inf.item()))

    def flag_stays(self, case: Case) -> None:
        device = self.target.device
        given, found_inf, one = case.gradients().on(device), scalar(1.0, device), scalar(1.0, device)
        torch.ops.ampcast.check_finite_(given.tensors, found_inf, None)
        torch.ops.ampcast.unscale_(given.tensors, found_inf, one)
        torch.ops.ampcast.unscale_norm_(given.tensors, found_inf, one, scalar(0.0, device))
        expect_flag(found_inf, True)

    def update_scale(self, seed: int) -> None:
        """A random sequence of steps, one after the other on the same state."""
        generator, device = torch.Generator().manual_seed(seed), self.target.device
        growth, backoff, interval, rate = torch.rand(4, generator=generator).tolist()
        state = [
            (scalar(2.0 ** (40 * rate), device), torch.zeros(1, dtype=torch.int32, device=device)) for _ in range(2)
        ]
        updates: tuple[Callable[..., object], ...] = (torch.ops.ampcast.update_scale_, torch._amp_update_scale_)
        for step in range(200):
            found_inf = scalar(float(torch.rand((), generator=generator) < rate), device)
            for update, (scale, tracker) in zip(updates, state, strict=True):
                update(scale, tracker, found_inf, 1.0 + 4 * growth, backoff, 1 + int(10 * interval))
            (ours, tracker), (torchs, torch_tracker) = state
            if not torch.equal(ours, torchs) or not torch.equal(tracker, torch_tracker):
                raise Mismatch(
                    f"step {step}: scale {ours.item()!r}, tracker {tracker.item()}, torch's {torchs.item()!r}"
                )


def scalar(value: float, device: torch.device) -> torch.Tensor:
    return torch.full((1,), value, device=device)


def ulps_of_norm(case: Case, norm_type: float) -> int:
    """2 for sums; the absolute value of a complex number may be rounded twice; the largest real number is exact."""
    if norm_type == 2.0:
        return 2
    return 1 if any(view.dtype.is_complex for view in case.views) else 0


def clip_coefficient(norm: float, max_norm: float) -> float:
    """Return what `torch.nn.utils.clip_grads_with_norm_` multiplies by."""
    return float(torch.clamp(max_norm / (torch.tensor(norm) + 1e-6), max=1.0))


def operator_checks(target: Target) -> list[Check]:
    checks, quick = OperatorChecks(target), target.quick
    families = {
        "dtypes and sizes": sized_cases(quick),
        "misaligned": misaligned_cases()[:: 7 if quick else 1],
        "strides": strided_cases(),
        "lists": list_cases(quick),
    }
    everywhere: dict[str, Callable[[Case], None]] = {
        "check_finite_": checks.check_finite,
        "unscale_": checks.unscale,
        "unscale_norm_": checks.unscale_norm,
        "clip_": checks.clip,
    }
    grids = [
        Check(f"{op}: {family}", op, cases[::5] if op == "clip_" and len(cases) > 500 else cases, run)
        for op, run in everywhere.items()
        for family, cases in families.items()
    ]
    finite, sized = finite_cases(quick), families["dtypes and sizes"]
    torch_cases = only(TORCH_DTYPES[target.device.type], [*sized, *families["misaligned"], *families["strides"]])
    return [
        *grids,
        Check("unscale_norm_: large numbers", "unscale_norm_", finite, checks.unscale_norm),
        Check("unscale_norm_: same bits again", "unscale_norm_", [*finite, *families["lists"]], checks.norm_repeats),
        Check("found_inf is never cleared", "check_finite_ unscale_ unscale_norm_", finite[::9], checks.flag_stays),
        Check("unscale_: in lockstep with torch", "unscale_", torch_cases, checks.torch_unscale),
        Check(
            "update_scale_: in lockstep with torch", "update_scale_", range(10 if quick else 50), checks.update_scale
        ),
    ]
