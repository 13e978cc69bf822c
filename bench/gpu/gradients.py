"""Lists of tensors in any dtype, layout and alignment, with guards around each, and what they must become."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

REAL_DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
DTYPES = (*REAL_DTYPES, torch.complex64, torch.complex128)
GUARD = 8
"""Elements before and after a tensor. Of any dtype they take a multiple of 16 bytes, so that a tensor is aligned."""
LARGE = {torch.float16: 2.0**10, torch.bfloat16: 2.0**80, torch.float32: 2.0**80, torch.float64: 2.0**130}
_INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
_POOL = 1 << 22


class Mismatch(AssertionError):
    """A result is not what it must be."""


@dataclass(frozen=True)
class View:
    """A tensor to lay out: row-major unless `stride` is given, `misaligned` elements behind an aligned address."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    stride: tuple[int, ...] | None = None
    misaligned: int = 0

    @property
    def strides(self) -> tuple[int, ...]:
        return self.stride or tuple(math.prod(self.shape[i + 1 :]) for i in range(len(self.shape)))

    @property
    def span(self) -> int:
        if 0 in self.shape:
            return 0
        return 1 + sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))


@dataclass(frozen=True)
class Gradients:
    """Tensors that are views of one buffer a dtype."""

    buffers: dict[torch.dtype, torch.Tensor]
    views: tuple[View, ...]
    offsets: tuple[int, ...]

    @functools.cached_property
    def tensors(self) -> list[torch.Tensor]:
        return [
            self.buffers[view.dtype].as_strided(view.shape, view.strides, offset)
            for view, offset in zip(self.views, self.offsets, strict=True)
        ]

    def on(self, device: torch.device | str) -> Gradients:
        """Return a copy."""
        buffers = {dtype: buffer.to(device, copy=True) for dtype, buffer in self.buffers.items()}
        return Gradients(buffers, self.views, self.offsets)

    def times(self, factor: float) -> Gradients:
        """Return a copy whose tensors are multiplied as the operators multiply."""
        result = self.on("cpu")
        for tensor in result.tensors:
            tensor.copy_(product(tensor, factor))
        return result

    def are_finite(self) -> bool:
        return all(bool(parts(tensor).isfinite().all()) for tensor in self.tensors)


def lay_out(views: Sequence[View], numbers: str) -> Gradients:
    """Place the views one behind the other, filled with `numbers`; see `draw`."""
    ends: dict[torch.dtype, int] = {}
    offsets = []
    for view in views:
        begin = (ends.get(view.dtype, 0) + 2 * GUARD - 1) // GUARD * GUARD + view.misaligned
        ends[view.dtype] = begin + view.span
        offsets.append(begin)
    gradients = Gradients(
        {dtype: guards(end + GUARD, dtype) for dtype, end in ends.items()}, tuple(views), tuple(offsets)
    )
    for tensor in gradients.tensors:
        tensor.copy_(draw(numbers, tensor.dtype, tensor.numel()).view(tensor.shape))
    return gradients


def guards(numel: int, dtype: torch.dtype) -> torch.Tensor:
    """Numbers to be left alone: a stray read finds a NaN, a stray write changes a 1.5."""
    values = torch.full((numel,), 1.5, dtype=dtype)
    values[::2] = math.nan
    return values


def draw(numbers: str, dtype: torch.dtype, numel: int) -> torch.Tensor:
    """Return `numel` random numbers: "any bits", "normal" ones, or "large" ones, whose squares or sums exceed float32."""
    pool = _pool(numbers, dtype)
    start = int(torch.randint(pool.numel() - numel + 1, ()))
    return pool[start : start + numel]


@functools.cache
def _pool(numbers: str, dtype: torch.dtype) -> torch.Tensor:
    """Numbers to take a part of, which is much faster than to draw them each time."""
    numel = _POOL // 2
    if numbers == "any bits":
        return torch.randint(256, (numel * dtype.itemsize,), dtype=torch.uint8).view(dtype)
    values = torch.randn(numel, dtype=torch.float64)
    return (values * LARGE[dtype.to_real()] if numbers == "large" else values).to(dtype)


def parts(tensor: torch.Tensor) -> torch.Tensor:
    """A view of the real numbers that `tensor` consists of."""
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def product(values: torch.Tensor, factor: float) -> torch.Tensor:
    """Return torch's own product with a float32 number: 16-bit numbers by way of float32, complex ones by their parts."""
    numbers = parts(values)
    wide = numbers.float() if numbers.itemsize == 2 else numbers
    result = (wide * torch.tensor(factor, dtype=torch.float32).to(wide.dtype)).to(numbers.dtype)
    return torch.view_as_complex(result) if values.is_complex() else result


def norm_of(tensors: Iterable[torch.Tensor], norm_type: float) -> float:
    """Return the norm of all elements together, taken in float64."""
    if norm_type == 2.0:
        return math.sqrt(math.fsum(float(parts(tensor).double().square().sum()) for tensor in tensors))
    wide = (tensor.to(torch.complex128 if tensor.is_complex() else torch.float64) for tensor in tensors)
    return max((float(tensor.abs().max()) for tensor in wide if tensor.numel()), default=0.0)


def expect_norm(found: torch.Tensor, exact: float, ulps: int) -> None:
    """Check a finite norm against its value in float64; beyond float32 it must be Inf."""
    with np.errstate(over="ignore"):
        expected = np.float32(exact)
    actual = np.float32(found.item())
    if actual == expected:
        return
    if not np.isfinite(expected) or not abs(float(actual) - exact) <= (ulps + 0.5) * float(np.spacing(expected)):
        raise Mismatch(f"the norm is {actual!r}, {expected!r} in float64")


def expect_flag(found_inf: torch.Tensor, expected: bool) -> None:
    if found_inf.item() != float(expected):
        raise Mismatch(f"found_inf is {found_inf.item()}, not {float(expected)}")


def expect_same(found: Gradients, expected: Gradients) -> None:
    """Compare bit for bit, guards and gaps included; any NaN equals any other."""
    for dtype, buffer in expected.buffers.items():
        different = _different_bits(found.buffers[dtype].cpu(), buffer)
        if different.any():
            index = int(different.nonzero()[0])
            raise Mismatch(
                f"{int(different.sum())} of {different.numel()} {dtype} numbers of the buffer differ, the first at "
                f"{index}: {parts(found.buffers[dtype]).flatten()[index].item()!r}, "
                f"not {parts(buffer).flatten()[index].item()!r}"
            )


def _different_bits(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    a, b = (parts(tensor).flatten() for tensor in (a, b))
    integers = _INTEGERS[a.itemsize]
    return (a.view(integers) != b.view(integers)) & ~(a.isnan() & b.isnan())


def plant(tensor: torch.Tensor, position: str, value: float) -> None:
    """Put a value at the "first", "second", "middle" or "last" real number of a row-major tensor that is not empty."""
    numbers = parts(tensor).view(-1)
    last = numbers.numel() - 1
    numbers[{"first": 0, "second": min(1, last), "middle": last // 2, "last": last}[position]] = value


def mixed_views(count: int) -> Iterator[View]:
    """Small tensors of every dtype, size and alignment in turn, none of the cycles in step with another."""
    sizes = (1, 64, 7, 0, 257, 33, 1000, 5, 16, 129, 2)
    for i in range(count):
        yield View(DTYPES[i % len(DTYPES)], (sizes[i % len(sizes)],), misaligned=i % 7 * (i % 5 == 0))


def strided_views(dtype: torch.dtype) -> list[View]:
    """Layouts by name: transposed, every second column, padded rows, channels last, a permutation of three."""
    return [
        View(dtype, (37, 21), (1, 37)),
        View(dtype, (40, 16), (33, 2)),
        View(dtype, (19, 65), (72, 1), misaligned=3),
        View(dtype, (4, 8, 6, 10), (480, 1, 80, 8)),
        View(dtype, (5, 7, 9), (9, 45, 1)),
    ]
