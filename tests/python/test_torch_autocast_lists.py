"""Every entry of torch's own autocast test lists, in regions of torch's name: on torch's classes and on ampcast's."""

import functools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_flatten

import ampcast
import torch_autocast_lists as lists

SCRIPT = Path(lists.__file__)
CPU_NAMES = [entry.name for entry in lists.cpu_entries(torch.bfloat16)]
CUDA_NAMES = [entry.name for entry in lists.cuda_entries(torch.float16)]

BANNED = "banned-0-binary_cross_entropy"

# The CUDA entries that raise without a GPU, in or out of a region, and why.
NO_FAKE_RESULT = {
    "equal": "reads values, which fake tensors have none of",
    "einsum": "the entry is no call: its operands are not the second item; torch's own test passes it over",
    "_convolution": "asks the driver, in some CUDA builds, which convolution to take",
    "cudnn_convolution": "needs cuDNN",
    "cudnn_convolution_transpose": "needs cuDNN",
    "gru_cell": "asks the GPU for its number of threads",
    "grid_sampler": "asks whether cuDNN can do it",
}

pytestmark = [
    pytest.mark.usefixtures("amp"),
    pytest.mark.filterwarnings("ignore:torch.chain_matmul is deprecated"),
    pytest.mark.filterwarnings("ignore:Using torch.cross without specifying the dim arg"),
]


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> dict[torch.dtype, Any]:
    """Return what `torch.autocast` gives in a process that has never seen ampcast's kernels."""
    path = tmp_path_factory.mktemp("stock") / "results.pt"
    subprocess.run([sys.executable, "-W", "ignore", str(SCRIPT), str(path)], check=True)
    return torch.load(path)


@functools.cache
def cpu_entries(dtype: torch.dtype) -> dict[str, lists.Entry]:
    return {entry.name: entry for entry in lists.cpu_entries(dtype)}


@functools.cache
def cuda_entries(dtype: torch.dtype) -> dict[str, lists.Entry]:
    return {entry.name: entry for entry in lists.cuda_entries(dtype)}


def bits(results: Any) -> tuple[Any, ...]:
    """Return something that is equal for the same bits in the same structure only, NaN included."""
    leaves, structure = tree_flatten(results)
    return structure, *map(leaf_bits, leaves)


def leaf_bits(leaf: Any) -> Any:
    if not isinstance(leaf, torch.Tensor):
        return leaf
    return leaf.dtype, leaf.shape, leaf.detach().contiguous().view(-1).view(torch.uint8).tolist()


def float_dtypes(results: Any) -> Iterator[torch.dtype]:
    return (leaf.dtype for leaf in tree_flatten(results)[0] if isinstance(leaf, torch.Tensor))


@pytest.mark.parametrize("dtype", lists.DTYPES, ids=str)
@pytest.mark.parametrize("name", CPU_NAMES)
def test_cpu_entry_gives_the_bits_of_a_cast_by_hand(name: str, dtype: torch.dtype) -> None:
    entry = cpu_entries(dtype)[name]
    with torch.autocast("cpu", dtype):
        results = entry.results()
        with torch.autocast("cpu", enabled=False):
            expected = entry.results_cast_by_hand()
    assert results
    assert set(float_dtypes(results)) == {entry.returns}
    assert bits(results) == bits(expected)


@pytest.mark.parametrize("dtype", lists.DTYPES, ids=str)
@pytest.mark.parametrize("name", CPU_NAMES)
def test_cpu_entry_gives_the_bits_of_torchs_own_kernels(
    name: str, dtype: torch.dtype, stock: dict[torch.dtype, Any]
) -> None:
    with torch.autocast("cpu", dtype):
        results = cpu_entries(dtype)[name].results()
    assert bits(results) == bits(stock[dtype]["cpu"][name])


@pytest.mark.parametrize("dtype", lists.DTYPES, ids=str)
@pytest.mark.parametrize("name", CUDA_NAMES)
def test_cuda_entry_gives_the_dtypes_of_a_cast_by_hand(name: str, dtype: torch.dtype) -> None:
    entry = cuda_entries(dtype)[name]
    with lists.fake_cuda_region(dtype, torch.autocast("cpu", dtype)):
        results = lists.outcome(entry.results)
        torch.set_autocast_enabled("cuda", False)
        expected = lists.outcome(entry.results_cast_by_hand)
    if name == BANNED:
        assert results.startswith("RuntimeError: ") and "binary_cross_entropy" in results
        return
    if entry.op in NO_FAKE_RESULT and isinstance(results, str):
        pytest.xfail(NO_FAKE_RESULT[entry.op])
    assert not isinstance(results, str), results
    assert set(float_dtypes(results)) == {entry.returns}
    assert lists.described(results) == lists.described(expected)


@pytest.mark.parametrize("dtype", lists.DTYPES, ids=str)
def test_cuda_entries_give_what_torchs_own_kernels_give(dtype: torch.dtype, stock: dict[torch.dtype, Any]) -> None:
    results = lists.cuda_outcomes(torch.autocast("cpu", dtype), dtype)
    expected = dict(stock[dtype]["cuda"])
    if torch.autocast is ampcast.autocast:
        assert "aten::binary_cross_entropy must not be autocast on cuda" in results.pop(BANNED)
        assert "binary_cross_entropy" in expected.pop(BANNED)
    assert results == expected
