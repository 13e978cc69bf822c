"""The gradients that the operators are checked with: every dtype, size, place of a NaN, alignment, stride and list."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch

from bench.gpu import gradients
from bench.gpu.gradients import DTYPES, Gradients, View, lay_out, mixed_views, strided_views

SIZES = (0, 1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 255, 256, 257, 1001, 16383, 16384, 16385, 65537, 1 << 20)
QUICK_SIZES = (0, 1, 7, 33, 1001, 16385)
INV_SCALES = (1.0, 2.0**-16, 0.3, 2.0**20, math.inf)
COUNTS = (0, 1, 3, 300, 2500)
POSITIONS = ("first", "second", "middle", "last")
BAD = (math.nan, math.inf, -math.inf)


@dataclass(frozen=True)
class Case:
    """Gradients to make, and the inverse scale."""

    layout: str
    views: tuple[View, ...]
    numbers: str = "normal"
    inv_scale: float = 0.3
    planted: tuple[str, float] | None = None
    """Where, and what, in the middle one of the views."""

    def __str__(self) -> str:
        planted = "" if self.planted is None else " with {1} planted {0}".format(*self.planted)
        return f"{self.layout}, {self.numbers} numbers{planted}, inv_scale {self.inv_scale:g}"

    def gradients(self) -> Gradients:
        made = lay_out(self.views, self.numbers)
        tensor = made.tensors[len(self.views) // 2] if self.planted is not None else None
        if self.planted is not None and tensor is not None and tensor.numel():
            gradients.plant(tensor, *self.planted)
        return made


def sized_cases(quick: bool) -> list[Case]:
    """One tensor of every dtype and size with every inverse scale, and a NaN or Inf at every place."""
    sizes, inv_scales = (QUICK_SIZES, (0.3, 2.0**20)) if quick else (SIZES, INV_SCALES)
    bad = itertools.cycle(BAD)
    cases = []
    for dtype, numel, inv_scale in itertools.product(DTYPES, sizes, inv_scales):
        case = Case(f"{dtype} x {numel}", (View(dtype, (numel,)),), inv_scale=inv_scale)
        cases += [case, dataclasses.replace(case, numbers="any bits")]
        cases += [dataclasses.replace(case, planted=(position, next(bad))) for position in POSITIONS if numel]
    return cases


def misaligned_cases() -> list[Case]:
    return [
        Case(f"{dtype} x {numel}, {by} elements off", (View(dtype, (numel,), misaligned=by),), planted=planted)
        for dtype, numel, by in itertools.product(DTYPES, (1, 9, 33, 1001, 16390), range(1, 8))
        for planted in (None, ("first", math.nan), ("last", math.inf))
    ]


def strided_cases() -> list[Case]:
    return [
        Case(f"{dtype} {view.shape} with strides {view.stride}", (view,), numbers, inv_scale)
        for dtype in DTYPES
        for view in strided_views(dtype)
        for numbers, inv_scale in itertools.product(("normal", "any bits"), (1.0, 0.3))
    ]


def list_cases(quick: bool) -> list[Case]:
    """Lists of all dtypes, sizes and alignments at once."""
    cases = []
    for count in COUNTS[:4] if quick else COUNTS:
        case = Case(f"{count} tensors of all dtypes", tuple(mixed_views(count)), inv_scale=0.3)
        cases += [dataclasses.replace(case, inv_scale=inv_scale) for inv_scale in (1.0, 0.3, 2.0**20)]
        cases += [dataclasses.replace(case, numbers=numbers) for numbers in ("any bits", "large")]
        cases += [dataclasses.replace(case, planted=("last", bad)) for bad in BAD if count]
    return cases


def finite_cases(quick: bool) -> list[Case]:
    """Gradients whose norm is a number, squares and sums beyond float32 included."""
    sizes = QUICK_SIZES if quick else SIZES
    return [
        Case(f"{dtype} x {numel}", (View(dtype, (numel,), misaligned=numel % 3),), numbers, inv_scale)
        for dtype, numel in itertools.product(DTYPES, sizes)
        for numbers, inv_scale in (("normal", 0.3), ("large", 1.0), ("large", 2.0**-16))
    ]


def only(dtypes: Iterable[torch.dtype], cases: Iterable[Case]) -> list[Case]:
    allowed = set(dtypes)
    return [case for case in cases if case.views and {view.dtype for view in case.views} <= allowed]
