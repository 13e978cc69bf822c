"""The entries of torch's own autocast tests as calls that can be made in and out of a region.

Knows nothing of ampcast. As a script it makes the calls under `torch.autocast` in a process that has torch's kernels
only, and saves the results. usage: torch_autocast_lists.py FILE
"""

import contextlib
import dataclasses
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing._internal.autocast_test_lists import AutocastCPUTestLists, AutocastTestLists
from torch.utils._pytree import tree_map_only

DTYPES = [torch.bfloat16, torch.float16]
FAKE_CUDA = FakeTensorMode()


@dataclasses.dataclass(frozen=True)
class Entry:
    """One call: an op, which is looked up in `module` and among the tensor methods, and its arguments."""

    name: str
    module: Any
    op: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    runs_in: torch.dtype  # what a program that casts by hand would cast the arguments to
    returns: torch.dtype

    def variants(self) -> Iterator[Callable[..., Any]]:
        """Yield the op's function and its method, as far as torch has them."""
        for holder in (self.module, torch.Tensor):
            if holder is not None and hasattr(holder, self.op):
                yield getattr(holder, self.op)

    def results(self) -> list[Any]:
        return [variant(*self.args, **self.kwargs) for variant in self.variants()]

    def results_cast_by_hand(self) -> list[Any]:
        args, kwargs = cast((self.args, self.kwargs), self.runs_in)
        return [variant(*args, **kwargs) for variant in self.variants()]


def cast(values: Any, dtype: torch.dtype) -> Any:
    return tree_map_only(torch.Tensor, lambda t: t.to(dtype) if t.is_floating_point() else t, values)


def as_region(values: Any, dtype: torch.dtype) -> Any:
    """Return `values` with its 16-bit tensors in the region's dtype; the lists are written for one of the two."""
    return tree_map_only(torch.Tensor, lambda t: t.to(dtype) if t.dtype in DTYPES else t, values)


def module_of(list_name: str) -> Any:
    modules = {"nn": torch._C._nn, "linalg": torch._C._linalg, "methods": None, "torch": torch}
    return modules[list_name.split("_")[0]]


def cpu_entries(dtype: torch.dtype) -> list[Entry]:
    """Return the entries of `AutocastCPUTestLists` for a region of `dtype`; the same ones at each call."""
    torch.manual_seed(0)
    lists = AutocastCPUTestLists("cpu")
    entries = []
    for list_name, rows in vars(lists).items():
        for number, row in enumerate(rows):
            name = f"{list_name}-{number}-{row[0]}"
            args, kwargs, runs_in = row[1], {}, torch.float32
            if list_name.endswith("promote"):  # (op, bfloat16 arguments, float16 arguments[, output dtype])
                args = row[1] if dtype is torch.bfloat16 else row[2]
                returns = row[3] if len(row) > 3 else torch.float32
            else:  # (op, arguments[, keyword arguments])
                kwargs = row[2] if len(row) > 2 else {}
                returns = runs_in = dtype if list_name.endswith("16") else torch.float32
            entries.append(Entry(name, module_of(list_name), row[0], as_region(args, dtype), kwargs, runs_in, returns))
    return entries


def cuda_entries(dtype: torch.dtype) -> list[Entry]:
    """Return the entries of `AutocastTestLists` on fake CUDA tensors, for a region of `dtype`."""
    with FAKE_CUDA:
        lists = AutocastTestLists("cuda")
    entries = []
    for list_name, rows in vars(lists).items():
        for number, row in enumerate(rows):
            op, args, *more = row  # more: output dtype, or keyword arguments, or module, or a flag for ROCm
            with FAKE_CUDA:
                args = as_region(args, dtype)
            kwargs = more[0] if more and isinstance(more[0], dict) else {}
            module = more[0] if list_name == "banned" else module_of(list_name)
            runs_in = returns = dtype if list_name.endswith("16") else torch.float32
            if list_name.endswith("builtin_promote"):
                returns = more[0]
            entries.append(Entry(f"{list_name}-{number}-{op}", module, op, args, kwargs, runs_in, returns))
    return entries


@contextlib.contextmanager
def fake_cuda_region(dtype: torch.dtype, region: Any) -> Iterator[None]:
    """Turn autocast on for CUDA tensors without a GPU, where a region for "cuda" would disable itself.

    `region`, on another device, brings what a region brings beside the device's own state: the policy.
    """
    before = torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")
    with FAKE_CUDA, region:
        torch.set_autocast_enabled("cuda", True)
        torch.set_autocast_dtype("cuda", dtype)
        try:
            yield
        finally:
            torch.set_autocast_enabled("cuda", before[0])
            torch.set_autocast_dtype("cuda", before[1])


def described(results: Any) -> Any:
    """Return what can be known of fake tensors: dtype, shape, strides."""
    return tree_map_only(torch.Tensor, lambda t: (t.dtype, tuple(t.shape), t.stride()), results)


def outcome(call: Callable[[], Any]) -> Any:
    """Return what the call returns, or the error in its place."""
    try:
        return call()
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"


def cuda_outcomes(region: Any, dtype: torch.dtype) -> dict[str, Any]:
    outcomes = {}
    for entry in cuda_entries(dtype):
        with fake_cuda_region(dtype, region):
            outcomes[entry.name] = described(outcome(entry.results))
    return outcomes


def cpu_outcomes(dtype: torch.dtype) -> dict[str, Any]:
    outcomes = {}
    for entry in cpu_entries(dtype):
        with torch.autocast("cpu", dtype):
            outcomes[entry.name] = outcome(entry.results)
    return outcomes


if __name__ == "__main__":
    assert "ampcast" not in sys.modules
    saved = {
        dtype: {"cpu": cpu_outcomes(dtype), "cuda": cuda_outcomes(contextlib.nullcontext(), dtype)} for dtype in DTYPES
    }
    torch.save(saved, sys.argv[1])
