"""The scaler's operators as torch.ops: registration, fake tensors, torch.compile, and the same bits from every kernel."""

import functools
import hashlib
import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing._internal.optests import opcheck

import ampcast  # noqa: F401  (registers the operators)

INF = float("inf")
NAN = float("nan")
REAL_DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
DTYPES = [*REAL_DTYPES, torch.complex64, torch.complex128]

check_finite_ = torch.ops.ampcast.check_finite_.default
unscale_ = torch.ops.ampcast.unscale_.default
unscale_norm_ = torch.ops.ampcast.unscale_norm_.default
clip_ = torch.ops.ampcast.clip_.default
copy_cast_ = torch.ops.ampcast.copy_cast_.default
update_scale_ = torch.ops.ampcast.update_scale_.default


def scalar(value: float) -> torch.Tensor:
    return torch.full((1,), value)


def gradients() -> list[torch.Tensor]:
    """Return one gradient of each dtype, some of them with gaps."""
    return [torch.randn(5, 6, dtype=dtype)[:, : 6 - i % 2] for i, dtype in enumerate(DTYPES)]


def cast_pairs() -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Return destinations of each dtype, and sources of another dtype and other strides."""
    dtypes = [*REAL_DTYPES[1:], REAL_DTYPES[0], torch.complex128, torch.complex64]
    return gradients(), [torch.randn(d.shape[::-1], dtype=t).t() for d, t in zip(gradients(), dtypes, strict=True)]


def update_scale_arguments() -> tuple[Any, ...]:
    return scalar(8.0), torch.zeros(1, dtype=torch.int32), scalar(1.0), 2.0, 0.5, 3


SAMPLES: dict[str, Callable[[], tuple[Any, tuple[Any, ...]]]] = {
    "check_finite_": lambda: (check_finite_, (gradients(), scalar(0.0))),
    "check_finite_ with inv_scale": lambda: (check_finite_, (gradients(), scalar(0.0), scalar(0.5))),
    "unscale_": lambda: (unscale_, (gradients(), scalar(0.0), scalar(0.5))),
    "unscale_ of nothing": lambda: (unscale_, ([], scalar(0.0), scalar(0.5))),
    "unscale_norm_": lambda: (unscale_norm_, (gradients(), scalar(0.0), scalar(0.5), scalar(0.0))),
    "unscale_norm_ inf": lambda: (unscale_norm_, (gradients(), scalar(0.0), scalar(0.5), scalar(0.0), INF)),
    "clip_": lambda: (clip_, (gradients(), scalar(3.0), 1.0)),
    "copy_cast_": lambda: (copy_cast_, cast_pairs()),
    "copy_cast_ of nothing": lambda: (copy_cast_, ([], [])),
    "update_scale_": lambda: (update_scale_, update_scale_arguments()),
}


@pytest.mark.parametrize("sample", SAMPLES)
def test_opcheck(sample: str) -> None:
    op, args = SAMPLES[sample]()
    assert set(opcheck(op, args).values()) == {"SUCCESS"}


@pytest.mark.parametrize("op", [check_finite_, unscale_, unscale_norm_, clip_, copy_cast_, update_scale_])
def test_operators_are_tagged_as_safe_to_compile_and_return_nothing(op: torch._ops.OpOverload) -> None:
    assert torch.Tag.pt2_compliant_tag in op.tags
    assert op._schema.returns == []


def test_unscale_does_not_move_the_version_counters_as_torch_does_not() -> None:
    ours, theirs = torch.ones(3), torch.ones(3)
    unscale_([ours], scalar(0.0), scalar(0.5))
    torch._amp_foreach_non_finite_check_and_unscale_([theirs], scalar(0.0), scalar(0.5))
    assert ours._version == theirs._version == 0


def test_copy_cast_moves_the_version_counters_of_what_it_writes_as_torch_does() -> None:
    ours, theirs, source = torch.zeros(3), torch.zeros(3), torch.ones(3, dtype=torch.float16)
    copy_cast_([ours, ours.new_zeros(2)], [source, torch.ones(2)])
    theirs.copy_(source)
    assert ours._version == theirs._version == 1
    assert source._version == 0


def test_copy_cast_of_a_saved_value_is_refused_by_backward() -> None:
    parameter = torch.ones(3, requires_grad=True)
    loss = parameter.square().sum()
    with torch.no_grad():
        copy_cast_([parameter], [torch.zeros(3, dtype=torch.float64)])
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


# torch.compile and fake tensors


def unscale_and_update(grads: list[torch.Tensor], state: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """One step of a scaler; the sum shows that what follows sees what was written."""
    scale, tracker, found_inf = state
    norm = torch.empty(1)
    unscale_(grads, found_inf, scale.reciprocal())
    unscale_norm_(grads, found_inf, scale, norm)
    clip_(grads, norm, 1.0)
    update_scale_(scale, tracker, found_inf, 2.0, 0.5, 1)
    check_finite_(grads, found_inf)
    return torch.stack([grad.sum() for grad in grads]).sum() + scale + norm


@pytest.mark.parametrize(("backend", "dynamic"), [("eager", False), ("aot_eager", True), ("inductor", False)])
def test_compiled_step_gives_the_eager_values(backend: str, dynamic: bool) -> None:
    torch._dynamo.reset()

    def arguments(value: float) -> tuple[list[torch.Tensor], tuple[torch.Tensor, ...]]:
        grads = [torch.full((5,), 4.0), torch.full((2, 3), value), torch.ones(4, 4)[:, 1:3]]
        return grads, (scalar(8.0), torch.zeros(1, dtype=torch.int32), scalar(0.0))

    compiled_step = torch.compile(unscale_and_update, backend=backend, fullgraph=True, dynamic=dynamic)
    for value in (3.0, INF):
        eager, compiled = arguments(value), arguments(value)
        same = functools.partial(torch.testing.assert_close, rtol=0, atol=0, equal_nan=True)
        same(compiled_step(*compiled), unscale_and_update(*eager))
        for a, b in zip(itertools.chain(*eager), itertools.chain(*compiled), strict=True):
            same(a, b)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_compiled_copy_cast_gives_the_eager_values(backend: str) -> None:
    torch._dynamo.reset()

    def cast_and_sum(dst: list[torch.Tensor], src: list[torch.Tensor]) -> torch.Tensor:
        copy_cast_(dst, [source * 2 for source in src])
        return torch.stack([d.float().sum() for d in dst])

    def arguments() -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        src = [torch.arange(12.0).view(3, 4), torch.linspace(0, 1, 5).double()]
        return [torch.zeros(4, 3, dtype=torch.bfloat16).t(), torch.zeros(5)], src

    eager, compiled = arguments(), arguments()
    result = torch.compile(cast_and_sum, backend=backend, fullgraph=True)(*compiled)
    torch.testing.assert_close(result, cast_and_sum(*eager), rtol=0, atol=0)
    torch.testing.assert_close(compiled[0], eager[0], rtol=0, atol=0)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_fake_tensors_run_the_checks_and_nothing_else(device: str) -> None:
    with FakeTensorMode():
        grads = [torch.ones(3, device=device, dtype=dtype) for dtype in DTYPES]
        found_inf, inv_scale = torch.zeros(1, device=device), torch.ones(1, device=device)
        assert unscale_(grads, found_inf, inv_scale) is None
        assert check_finite_(grads, found_inf) is None
        assert unscale_norm_(grads, found_inf, inv_scale, torch.zeros(1, device=device)) is None
        assert clip_(grads, torch.ones(1, device=device), 0.5) is None
        assert copy_cast_(grads, grads) is None
        with pytest.raises(TypeError, match=r"`grads\[0\]` must be float32, .* got Int"):
            unscale_([torch.ones(3, device=device, dtype=torch.int32)], found_inf, inv_scale)


def test_meta_tensors_get_the_errors_of_the_cpu() -> None:
    found_inf, inv_scale = torch.zeros(1, device="meta"), torch.ones(1, device="meta")
    unscale_([torch.ones(3, device="meta")], found_inf, inv_scale)
    with pytest.raises(RuntimeError, match="must not overlap itself"):
        unscale_([torch.ones(1, device="meta").expand(3)], found_inf, inv_scale)
    with pytest.raises(ValueError, match="`found_inf` must hold one element"):
        check_finite_([], torch.zeros(2, device="meta"))
    with pytest.raises(ValueError, match="`norm_type` must be 2 or inf"):
        unscale_norm_([], found_inf, inv_scale, torch.ones(1, device="meta"), 1.0)
    with pytest.raises(ValueError, match="`max_norm` must be a number from 0 on"):
        clip_([], torch.ones(1, device="meta"), -1.0)
    copy_cast_([torch.ones(3, device="meta")], [torch.ones(3, device="meta").half()])
    with pytest.raises(ValueError, match=r"`src\[0\]` must have the shape of its destination, \[3\], got \[2\]"):
        copy_cast_([torch.ones(3, device="meta")], [torch.ones(2, device="meta")])
    with pytest.raises(RuntimeError, match=r"`src\[0\]` must be on the device of `dst\[0\]`, meta, got cpu"):
        copy_cast_([torch.ones(3, device="meta")], [torch.ones(3)])


# Values: what only Python can reach


def test_python_errors_have_the_types_that_python_users_expect() -> None:
    good = scalar(0.0), scalar(0.5)
    with pytest.raises(TypeError, match=r"ampcast::unscale_: `grads\[1\]` must be dense, got layout Sparse; coalesce"):
        unscale_([torch.ones(3), torch.ones(3).to_sparse()], *good)
    with pytest.raises(TypeError, match="must be dense, got layout SparseCsr"):
        check_finite_([torch.eye(3).to_sparse_csr()], scalar(0.0))
    with pytest.raises(TypeError, match="must be dense, got layout Mkldnn"):
        unscale_([torch.eye(3).to_mkldnn()], *good)
    with pytest.raises(TypeError, match="got Float8_e4m3fn"):
        unscale_([torch.ones(3).to(torch.float8_e4m3fn)], *good)
    with pytest.raises(ValueError, match=r"`inv_scale` must hold one element, got shape \[2\]"):
        unscale_([torch.ones(3)], scalar(0.0), torch.ones(2))
    with pytest.raises(RuntimeError, match=r"leaf that requires grad.*torch.no_grad\(\)"):
        unscale_([torch.ones(3, requires_grad=True)], *good)
    with pytest.raises(ValueError, match="`src` must have as many tensors as `dst`, 1, got 0"):
        copy_cast_([torch.ones(3)], [])
    with pytest.raises(ValueError, match=r"`src\[0\]` must have the shape of its destination, \[3\], got \[1\]"):
        copy_cast_([torch.ones(3)], [torch.ones(1)])
    with pytest.raises(TypeError, match=r"copy_cast_: `src\[0\]` must be real as its destination is, Float"):
        copy_cast_([torch.ones(3)], [torch.ones(3, dtype=torch.complex64)])
    with pytest.raises(TypeError, match=r"`src\[0\]` must be dense, got layout SparseCsr"):
        copy_cast_([torch.eye(3)], [torch.eye(3).to_sparse_csr()])


def test_copy_cast_reads_conjugated_and_negated_views() -> None:
    source = torch.randn(7, dtype=torch.complex64)
    conjugate, negated = torch.zeros(7, dtype=torch.complex128), torch.zeros(7, dtype=torch.float16)
    copy_cast_([conjugate], [source.conj()])
    copy_cast_([negated], [source.conj().imag])
    assert torch.equal(conjugate, source.conj().to(torch.complex128))
    assert torch.equal(negated, -source.imag.half())


def real_products(grads: torch.Tensor, inv_scale: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return torch's result for ``grads`` and whether any of it is not finite."""
    expected = grads.clone()
    torch._amp_foreach_non_finite_check_and_unscale_([expected], scalar(0.0), scalar(inv_scale))
    return expected, ~expected.isfinite().all()


@pytest.mark.parametrize("dtype", REAL_DTYPES)
@pytest.mark.parametrize("inv_scale", [2.0**-16, 0.3, 2.0**20, INF, 0.0, NAN])
def test_every_number_of_a_16_bit_dtype_and_random_bits_give_torchs_result(
    dtype: torch.dtype, inv_scale: float
) -> None:
    if dtype.itemsize == 2:
        grads = torch.arange(2**16, dtype=torch.int32).to(torch.int16).view(dtype)
    else:
        seed = torch.seed()
        print("seed", seed)
        grads = torch.randint(-(2**31), 2**31 - 1, (2**16,), dtype=torch.int32).view(dtype)
    ours = grads.clone()
    unscale_([ours], scalar(0.0), scalar(inv_scale))
    expected, _ = real_products(grads, inv_scale)
    torch.testing.assert_close(ours, expected, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(ours.signbit()[~ours.isnan()], expected.signbit()[~expected.isnan()])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("inv_scale", [1.0, 2.0**-16, 1.0001, 2.0, 2.0**20, 2.0**120])
def test_flag_of_every_16_bit_number_tells_whether_its_product_is_finite(dtype: torch.dtype, inv_scale: float) -> None:
    numbers = torch.arange(0, 2**16, 7, dtype=torch.int32).to(torch.int16).view(dtype)
    for number in numbers[::13].split(1):
        _, bad = real_products(number, inv_scale)
        for check in (lambda g, f, s: unscale_([g.clone()], f, s), lambda g, f, s: check_finite_([g], f, s)):
            found_inf = scalar(0.0)
            check(number, found_inf, scalar(inv_scale))
            assert found_inf.item() == float(bad), number


# The same bits from every instruction set and thread count


def random_bits(size: int, dtype: torch.dtype) -> torch.Tensor:
    """Return numbers that no arithmetic made: torch's own results may differ between instruction sets."""
    return torch.randint(256, (size * dtype.itemsize,), dtype=torch.uint8).view(dtype)


def digest() -> str:
    """Return a hash of what the operators make of a list of all dtypes, layouts and sizes."""
    torch.manual_seed(0)
    hasher = hashlib.sha256()
    for inv_scale in (2.0**-16, 0.3, 2.0**20):
        grads = [random_bits(n, d) for d in DTYPES for n in (1, 31, 1001, 300_001)]
        grads += [random_bits(40 * 33, d).view(40, 33)[:, ::2] for d in DTYPES]
        found_inf = [scalar(0.0) for _ in grads]
        for grad, found in zip(grads, found_inf, strict=True):
            check_finite_([grad], found, scalar(inv_scale))
        unscale_(grads, scalar(0.0), scalar(inv_scale))
        casts = [torch.empty_like(g, dtype=d) for g in grads for d in DTYPES if d.is_complex == g.is_complex()]
        copy_cast_(casts, [g for g in grads for d in DTYPES if d.is_complex == g.is_complex()])
        for tensor in (*grads, *found_inf, *casts):
            real = torch.view_as_real(tensor) if tensor.is_complex() else tensor
            hasher.update(real.nan_to_num(nan=7.0, posinf=INF, neginf=-INF).contiguous().view(torch.uint8).numpy())
    grads = [torch.randint(-1000, 1000, (n,)).to(d) for d in DTYPES for n in (1, 31, 1001, 300_001)]
    for norm_type in (2.0, INF):
        norm = scalar(0.0)
        unscale_norm_(grads, scalar(0.0), scalar(0.3), norm, norm_type)
        clip_(grads, norm, 100.0)
        hasher.update(norm.numpy())
    for grad in grads:
        hasher.update(grad.contiguous().view(torch.uint8).numpy())
    return hasher.hexdigest()


def print_digests() -> None:
    """Print the instruction set in use and a digest for each number of threads; run in child processes."""
    print(torch.backends.cpu.get_cpu_capability())
    for threads in (1, 2):
        torch.set_num_threads(threads)
        print(digest())


def test_same_bits_from_every_instruction_set_and_number_of_threads() -> None:
    supported = ["DEFAULT", "AVX2", "AVX512"].index(torch.backends.cpu.get_cpu_capability())
    digests = set()
    for capability in ["default", "avx2", "avx512"][: supported + 1]:
        env = {**os.environ, "ATEN_CPU_CAPABILITY": capability}
        env["PYTHONPATH"] = os.pathsep.join([os.path.dirname(__file__), *sys.path])
        command = [sys.executable, "-c", "import test_ops; test_ops.print_digests()"]
        output = subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout
        used, *of_threads = output.split()
        assert used == capability.upper()
        digests.update(of_threads)
    assert len(digests) == 1
