"""Autocast regions in eager mode: values, state, threads, decorators and errors."""

import asyncio
import gc
import subprocess
import sys
import threading
import warnings
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import ampcast

STATE_DEVICES = ("cpu", "cuda", "ipu")


def autocast_state() -> tuple[Any, ...]:
    """Return everything of torch's autocast state that a region may change."""
    devices = [(torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)) for d in STATE_DEVICES]
    nesting = torch.autocast_increment_nesting() - 1
    torch.autocast_decrement_nesting()
    return (*devices, torch.is_autocast_cache_enabled(), nesting)


@pytest.fixture(autouse=True)
def state_is_restored() -> Iterator[None]:
    before = autocast_state()
    yield
    assert autocast_state() == before


def mm_dtype() -> torch.dtype:
    return torch.mm(torch.ones(2, 2), torch.ones(2, 2)).dtype


def model() -> torch.nn.Sequential:
    torch.manual_seed(0)
    layers = [
        torch.nn.Conv1d(3, 8, 3),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(48, 4),
        torch.nn.Softmax(1),
    ]
    return torch.nn.Sequential(*layers)


def trained(region: Any) -> list[torch.Tensor]:
    """Return loss, gradients and weights after a few steps whose forward pass runs in `region`."""
    net, x, y = model(), torch.randn(5, 3, 8, generator=torch.Generator().manual_seed(1)), torch.arange(5) % 4
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        with region:
            loss = torch.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
    return [loss.detach(), *(p.grad for p in net.parameters()), *(p.detach() for p in net.parameters())]  # type: ignore[misc]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("policy", [None, "default", "torch"])
@pytest.mark.parametrize("cache_enabled", [None, True, False])
def test_training_gives_the_bits_of_torch_autocast(
    dtype: torch.dtype, policy: str | None, cache_enabled: bool | None
) -> None:
    expected = trained(torch.autocast("cpu", dtype=dtype, cache_enabled=cache_enabled))
    actual = trained(ampcast.autocast("cpu", dtype=dtype, cache_enabled=cache_enabled, policy=policy))
    for e, a in zip(expected, actual, strict=True):
        assert e.dtype == a.dtype and torch.equal(e, a)


def test_region_casts_inside_and_not_after() -> None:
    with ampcast.autocast("cpu"):
        assert mm_dtype() is torch.bfloat16
    assert mm_dtype() is torch.float32


def test_dtype_defaults_to_the_devices_own() -> None:
    with ampcast.autocast("cpu"):
        assert ampcast.get_dtype("cpu") is torch.get_autocast_dtype("cpu") is torch.bfloat16


def test_disabled_region_casts_nothing() -> None:
    with ampcast.autocast("cpu"), ampcast.autocast("cpu", enabled=False):
        assert mm_dtype() is torch.float32
        assert not ampcast.is_enabled("cpu")


def test_float32_means_full_precision_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with ampcast.autocast("cpu"), ampcast.autocast("cpu", dtype=torch.float32):
            assert mm_dtype() is torch.float32
        with ampcast.autocast("cuda", dtype=torch.float32):
            assert not ampcast.is_enabled("cuda")


def test_disabled_turns_every_device_off() -> None:
    torch.set_autocast_enabled("cuda", True)
    try:
        with ampcast.autocast("cpu"):
            inside = autocast_state()
            with ampcast.disabled():
                assert not any(torch.is_autocast_enabled(d) for d in STATE_DEVICES)
                assert not ampcast.is_enabled() and not torch._C._is_any_autocast_enabled()
                assert mm_dtype() is torch.float32
                with ampcast.autocast("cpu"):
                    assert mm_dtype() is torch.bfloat16
            assert autocast_state() == inside
    finally:
        torch.set_autocast_enabled("cuda", False)


def test_regions_interleave_with_torchs_in_any_order() -> None:
    kinds = {"ours": ampcast.autocast, "torch": torch.autocast}
    for outer in kinds.values():
        for inner in kinds.values():
            with outer("cpu", dtype=torch.float16):
                between = autocast_state()
                with inner("cpu", dtype=torch.bfloat16, cache_enabled=False):
                    assert mm_dtype() is torch.bfloat16
                    assert not torch.is_autocast_cache_enabled()
                assert autocast_state() == between
                assert mm_dtype() is torch.float16


def test_leaving_out_of_order_restores_what_each_entry_found_as_torch_does() -> None:
    def states(kind: Any) -> list[Any]:
        first, second = (
            kind("cpu", dtype=torch.float16),
            kind("cpu", dtype=torch.bfloat16, cache_enabled=False),
        )
        seen = []
        for action in (first.__enter__, second.__enter__):
            action()
            seen.append(autocast_state()[0::3])
        for region in (first, second):
            region.__exit__(None, None, None)
            seen.append(autocast_state()[0::3])
        return seen

    def reset() -> None:
        for device in ("cpu", "ipu"):
            torch.set_autocast_enabled(device, False)
            torch.set_autocast_dtype(device, torch.bfloat16)
        torch.set_autocast_cache_enabled(True)

    slot_dtype = torch.get_autocast_dtype("ipu")
    expected = states(torch.autocast)
    reset()
    assert states(ampcast.autocast) == expected
    reset()
    torch.set_autocast_dtype("ipu", slot_dtype)


def test_one_instance_can_be_entered_again_inside_itself() -> None:
    region = ampcast.autocast("cpu", dtype=torch.float16)
    with region:
        with ampcast.autocast("cpu", dtype=torch.bfloat16):
            with region:
                assert mm_dtype() is torch.float16
            assert mm_dtype() is torch.bfloat16
        assert mm_dtype() is torch.float16
    assert mm_dtype() is torch.float32


def test_one_instance_serves_many_threads_at_once() -> None:
    region = ampcast.autocast("cpu")
    both_inside, failures = threading.Barrier(4), []

    def work(leave_late: bool) -> None:
        try:
            assert mm_dtype() is torch.float32
            with region:
                both_inside.wait(30)
                assert mm_dtype() is torch.bfloat16
                if leave_late:
                    both_inside.wait(30)
            if not leave_late:
                both_inside.wait(30)
            assert mm_dtype() is torch.float32
        except BaseException as error:  # reported by the main thread
            failures.append(error)
            both_inside.abort()

    threads = [threading.Thread(target=work, args=(i % 2 == 0,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_region_acts_on_its_own_thread_only() -> None:
    seen = []
    with ampcast.autocast("cpu"):
        thread = threading.Thread(target=lambda: seen.append((mm_dtype(), ampcast.get_policy())))
        thread.start()
        thread.join()
    assert seen == [(torch.float32, "torch")]


def test_leaving_on_another_thread_is_refused() -> None:
    region = ampcast.autocast("cpu")
    errors = []

    def leave() -> None:
        with pytest.raises(RuntimeError, match="left by the thread that entered it") as raised:
            region.__exit__(None, None, None)
        errors.append(raised)

    with region:
        thread = threading.Thread(target=leave)
        thread.start()
        thread.join()
        assert mm_dtype() is torch.bfloat16
    assert len(errors) == 1


def test_state_is_restored_and_the_error_passes_when_the_body_raises() -> None:
    before = autocast_state()
    with pytest.raises(ZeroDivisionError), ampcast.autocast("cpu", dtype=torch.float16, cache_enabled=False):
        _ = 1 / 0
    assert autocast_state() == before


def test_cast_cache_is_shared_in_the_outermost_region_and_emptied_at_its_end() -> None:
    weight = torch.nn.Parameter(torch.ones(2, 2))

    def cast_of_weight() -> Any:
        return torch.mm(weight, torch.ones(2, 2)).grad_fn.next_functions[0][0]  # type: ignore[union-attr]

    with ampcast.autocast("cpu"):
        first = cast_of_weight()
        with torch.autocast("cpu"):
            assert cast_of_weight() is first
        assert cast_of_weight() is first
    with pytest.raises(ZeroDivisionError), ampcast.autocast("cpu"):
        second = cast_of_weight()
        assert second is not first
        _ = 1 / 0
    with ampcast.autocast("cpu"):
        assert cast_of_weight() is not second
    with ampcast.autocast("cpu", cache_enabled=False):
        assert cast_of_weight() is not cast_of_weight()


def test_cast_cache_does_not_keep_a_weight_alive() -> None:
    weight = torch.nn.Parameter(torch.ones(2, 2))
    alive = weakref.ref(weight)
    with ampcast.autocast("cpu"):
        torch.mm(weight, torch.ones(2, 2))
    del weight
    gc.collect()
    assert alive() is None


def test_policy_is_that_of_the_innermost_region_and_survives_torchs_own() -> None:
    assert ampcast.get_policy() == "torch"
    with ampcast.autocast("cpu"):
        assert ampcast.get_policy() == "default"
        with torch.autocast("cpu", dtype=torch.float16):
            assert ampcast.get_policy() == "default"
        with ampcast.autocast("cpu", policy="torch"):
            assert ampcast.get_policy() == "torch"
        assert ampcast.get_policy() == "default"


def test_policy_slot_is_on_only_while_some_device_is_autocast() -> None:
    with ampcast.autocast("cpu"), ampcast.autocast("cpu", enabled=False):
        assert not torch._C._is_any_autocast_enabled()
    torch.set_autocast_enabled("cuda", True)
    try:
        with ampcast.autocast("cpu"), ampcast.autocast("cpu", enabled=False):
            assert ampcast.get_policy() == "default"
    finally:
        torch.set_autocast_enabled("cuda", False)


class SeesPolicy(torch.autograd.Function):
    """Records the policy and the dtype of a product in the backward pass."""

    seen: list[tuple[str, torch.dtype]] = []

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        SeesPolicy.seen.append((ampcast.get_policy(), mm_dtype()))
        return grad


def test_backward_started_in_a_region_has_its_state() -> None:
    SeesPolicy.seen.clear()
    x = torch.ones(2, requires_grad=True)
    with ampcast.autocast("cpu"):
        SeesPolicy.apply(x).sum().backward()
    SeesPolicy.apply(x).sum().backward()
    assert SeesPolicy.seen == [("default", torch.bfloat16), ("torch", torch.float32)]


def test_torch_threads_started_in_a_region_have_its_state() -> None:
    with ampcast.autocast("cpu"):
        future: torch.jit.Future[torch.Tensor] = torch.jit.fork(torch.mm, torch.ones(2, 2), torch.ones(2, 2))
        assert torch.jit.wait(future).dtype is torch.bfloat16


def test_decorator_runs_functions_and_methods_in_the_region() -> None:
    class Module(torch.nn.Module):
        @ampcast.autocast("cpu", dtype=torch.float16)
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            """Doc."""
            return torch.mm(x, x)

    @ampcast.disabled()
    def full() -> torch.dtype:
        return mm_dtype()

    assert Module()(torch.ones(2, 2)).dtype is torch.float16
    assert Module.forward.__doc__ == "Doc."
    with ampcast.autocast("cpu"):
        assert full() is torch.float32


def test_decorated_function_may_call_itself() -> None:
    @ampcast.autocast("cpu")
    def depth(n: int) -> list[torch.dtype]:
        return [mm_dtype(), *(depth(n - 1) if n else [])]

    assert depth(3) == [torch.bfloat16] * 4


async def coroutine() -> None:
    await asyncio.sleep(0)


async def async_generator() -> Any:
    yield 1


def generator() -> Any:
    yield 1


@pytest.mark.parametrize("region", [ampcast.autocast("cpu"), ampcast.disabled()])
@pytest.mark.parametrize("function", [coroutine, async_generator, generator])
def test_decorating_what_runs_later_raises(region: Any, function: Any) -> None:
    with pytest.raises(TypeError, match="runs after the region has ended"):
        region(function)


def test_decorating_what_is_no_function_raises() -> None:
    with pytest.raises(TypeError, match=r"got Tensor; .*`with autocast\(...\):`"):
        ampcast.autocast("cpu")(torch.ones(1))  # type: ignore[type-var]


def test_regions_torch_warns_of_and_disables_warn_alike_and_are_disabled() -> None:
    cases: list[tuple[Any, ...]] = [("cpu", torch.float64), ("cpu", torch.int32), ("cuda", torch.float16)]
    for case in cases[: 2 if torch.cuda.is_available() else 3]:
        with warnings.catch_warnings(record=True) as expected:
            warnings.simplefilter("always")
            torch.autocast(*case)
        with warnings.catch_warnings(record=True) as actual:
            warnings.simplefilter("always")
            region = ampcast.autocast(*case)
        assert [(w.category, str(w.message)) for w in actual] == [(w.category, str(w.message)) for w in expected]
        assert len(actual) == 1
        with region:
            assert not ampcast.is_enabled(case[0])


@pytest.mark.parametrize("device", [torch.device("cpu"), 3, "abacus", "meta"])
def test_devices_torch_refuses_are_refused_alike(device: Any) -> None:
    with pytest.raises((ValueError, RuntimeError)) as expected:
        torch.autocast(device)
    with pytest.raises(expected.type) as actual:
        ampcast.autocast(device)
    assert str(actual.value) == str(expected.value)


@pytest.mark.parametrize("policy", ["uniform", "", 3])
def test_unknown_policy_is_refused_with_the_names_that_exist(policy: Any) -> None:
    with pytest.raises(ValueError, match='must be None, "default" or "torch", got'):
        ampcast.autocast("cpu", policy=policy)


def test_the_device_that_carries_the_policy_is_handed_to_torchs_class() -> None:
    region = ampcast.autocast("ipu", torch.bfloat16)
    assert type(region) is torch.autocast
    with region:
        assert ampcast.get_policy() == "default"
    assert ampcast.get_policy() == "torch"


def test_queries_follow_the_region() -> None:
    assert not ampcast.is_enabled() and not ampcast.is_enabled("cpu")
    with ampcast.autocast("cpu", dtype=torch.float16):
        assert ampcast.is_enabled() and ampcast.is_enabled("cpu") and not ampcast.is_enabled("cuda")
        assert ampcast.get_dtype("cpu") is torch.float16
    with pytest.raises(RuntimeError):
        ampcast.is_enabled("abacus")


def test_is_enabled_asks_the_device_that_an_extension_brings() -> None:
    backend = torch._C._get_privateuse1_backend_name()
    torch.set_autocast_enabled(backend, True)
    try:
        assert ampcast.is_enabled()
    finally:
        torch.set_autocast_enabled(backend, False)
    assert not ampcast.is_enabled()


@pytest.mark.parametrize("value", [torch.ones(2, 2, dtype=torch.float16), torch.ones(2, 2)])
def test_two_regions_of_different_dtypes_do_not_share_casts_of_inputs(value: torch.Tensor) -> None:
    with ampcast.autocast("cpu", dtype=torch.float16):
        with ampcast.autocast("cpu", dtype=torch.bfloat16):
            assert torch.mm(value, value).dtype is torch.bfloat16
        assert torch.mm(value, value).dtype is torch.float16


def test_import_prints_nothing_and_leaves_torch_autocast_alone() -> None:
    code = (
        "import torch, ampcast; x = torch.ones(2, 2)\n"
        "with torch.autocast('cpu'): y = torch.mm(x, x)\n"
        "assert y.dtype is torch.bfloat16 and not torch.is_autocast_enabled('ipu')"
    )
    run = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
