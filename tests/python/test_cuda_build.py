"""What a build with CUDA kernels, and one without, shows on a machine that has no GPU."""

from typing import Any

import pytest
import torch

import ampcast
from ampcast import _build_info

OPS = torch.ops.ampcast
CUDA = torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA)
without_kernels = pytest.mark.skipif(not _build_info.NO_CUDA_REASON, reason="this build has CUDA kernels")
with_kernels = pytest.mark.skipif(bool(_build_info.NO_CUDA_REASON), reason="this build has no CUDA kernels")


def arguments() -> dict[torch._ops.OpOverload, tuple[Any, ...]]:
    grads, one = [torch.ones(3)], torch.ones(1)
    return {
        OPS.check_finite_.default: (grads, one, None),
        OPS.unscale_.default: (grads, one, one),
        OPS.unscale_norm_.default: (grads, one, one, one, 2.0),
        OPS.clip_.default: (grads, one, 1.0),
        OPS.copy_cast_.default: (grads, [torch.ones(3)]),
        OPS.update_scale_.default: (one, torch.zeros(1, dtype=torch.int32), one, 2.0, 0.5, 1),
    }


@pytest.mark.parametrize("op", arguments())
def test_every_operator_has_something_registered_for_cuda(op: torch._ops.OpOverload) -> None:
    assert torch._C._dispatch_has_kernel_for_dispatch_key(op._schema.name, "CUDA")


@without_kernels
@pytest.mark.parametrize("op", arguments())
def test_a_cuda_call_says_which_option_was_off_and_writes_nothing(op: torch._ops.OpOverload) -> None:
    args, before = arguments()[op], arguments()[op]
    reason = r"no CUDA kernels, for AMPCAST_CUDA was (OFF|AUTO and .*); build it with"
    with pytest.raises(NotImplementedError, match=reason):
        op.redispatch(CUDA, *args)
    torch.testing.assert_close(args, before, rtol=0, atol=0)


@without_kernels
def test_configuration_says_why_there_are_no_cuda_kernels() -> None:
    assert (
        f"none for CUDA, where torch's own unscale gradients, for {_build_info.NO_CUDA_REASON}" in ampcast.show_config()
    )


@with_kernels
def test_configuration_names_the_architectures() -> None:
    assert f"CPU, CUDA (architectures {_build_info.CUDA_ARCHITECTURES.replace(';', ', ')})" in ampcast.show_config()


@with_kernels
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_the_cpu_works_and_cuda_gives_torchs_error() -> None:
    gradient, found_inf = torch.ones(3), torch.zeros(1)
    OPS.unscale_([gradient], found_inf, torch.full((1,), 0.5))
    assert gradient.tolist() == [0.5] * 3
    with pytest.raises(RuntimeError, match="NVIDIA driver"):
        OPS.unscale_([torch.ones(3, device="cuda")], found_inf, found_inf)
