"""Checks of `copy_cast_` against `Tensor.copy_` on the same device, and against the CPU."""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass

import torch

from bench.gpu.check import Check, Target
from bench.gpu.gradient_cases import COUNTS, QUICK_SIZES, SIZES
from bench.gpu.gradients import REAL_DTYPES, View, expect_same, lay_out, mixed_views, strided_views

COMPLEX_DTYPES = (torch.complex64, torch.complex128)
PAIRS = (*itertools.product(REAL_DTYPES, repeat=2), *itertools.product(COMPLEX_DTYPES, repeat=2))


@dataclass(frozen=True)
class CastCase:
    """Tensors to write, and as many to read."""

    name: str
    targets: tuple[View, ...]
    sources: tuple[View, ...]

    def __str__(self) -> str:
        return self.name


def sized_casts(quick: bool) -> list[CastCase]:
    """Every pair of dtypes in every size, either side misaligned in turn."""
    return [
        CastCase(
            f"{source} to {target} x {numel}, {off} and {by} elements off",
            (View(target, (numel,), misaligned=by),),
            (View(source, (numel,), misaligned=off),),
        )
        for target, source in PAIRS
        for numel, (off, by) in itertools.product(QUICK_SIZES if quick else SIZES, ((0, 0), (1, 1), (3, 0), (0, 5)))
    ]


def strided_casts() -> list[CastCase]:
    """A destination with gaps or permuted, a dense source; the other way round; and both, as a transposed pair."""
    cases = []
    for target, source in PAIRS:
        for to, of in zip(strided_views(target), strided_views(source), strict=True):
            for pair in ((to, dense(of)), (dense(to), of), (to, of)):
                cases.append(
                    CastCase(f"{source} to {target} {to.shape} with strides {to.stride}", *((v,) for v in pair))
                )
    return cases


def dense(view: View) -> View:
    return dataclasses.replace(view, stride=None)


def list_casts(quick: bool) -> list[CastCase]:
    """Lists of all pairs of dtypes at once."""
    cases = []
    for count in COUNTS[1:4] if quick else COUNTS[1:]:
        pairs = list(zip(itertools.cycle(PAIRS), mixed_views(count), strict=False))
        targets, sources = (tuple(View(pair[i], v.shape, None, v.misaligned) for pair, v in pairs) for i in (0, 1))
        cases.append(CastCase(f"{count} pairs of all dtypes", targets, sources))
    return cases


class CastChecks:
    """Runs `copy_cast_` on the device under test and on the CPU."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def copy_cast(self, case: CastCase) -> None:
        into, source = lay_out(case.targets, "normal"), lay_out(case.sources, "any bits")
        for device in self.target.devices:
            ours, torchs, given = into.on(device), into.on(device), source.on(device)
            torch.ops.ampcast.copy_cast_(ours.tensors, given.tensors)
            for to, of in zip(torchs.tensors, given.tensors, strict=True):
                to.copy_(of)
            expect_same(ours, torchs.on("cpu"))
            expect_same(given, source)


def cast_checks(target: Target) -> list[Check]:
    run = CastChecks(target).copy_cast
    return [
        Check("copy_cast_: dtypes and sizes", "copy_cast_", sized_casts(target.quick), run),
        Check("copy_cast_: strides", "copy_cast_", strided_casts(), run),
        Check("copy_cast_: lists", "copy_cast_", list_casts(target.quick), run),
    ]
