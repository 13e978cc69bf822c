"""What `ampcast.GradScaler` does beyond, or unlike, torch's; what is equal is in test_grad_scaler_parity.py."""

import copy
import inspect
import io
import math
import pickle
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist

import ampcast

TorchGradScaler = torch.amp.GradScaler
INF, NAN = math.inf, math.nan
CPU, META = torch.device("cpu"), torch.device("meta")


def parameter(gradient: torch.Tensor) -> torch.nn.Parameter:
    """A parameter of ones with that gradient."""
    result = torch.nn.Parameter(torch.ones(gradient.shape, dtype=gradient.dtype, device=gradient.device))
    result.grad = gradient
    return result


def sgd(*gradients: torch.Tensor, **options: Any) -> torch.optim.SGD:
    return torch.optim.SGD([parameter(gradient) for gradient in gradients], lr=1.0, **options)


def weights(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [p.detach().clone() for group in optimizer.param_groups for p in group["params"]]


def gradients(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [p.grad for group in optimizer.param_groups for p in group["params"]]


def ready_scaler(init_scale: float = 4.0, **options: Any) -> ampcast.GradScaler:
    """A scaler that has scaled a loss."""
    scaler = ampcast.GradScaler("cpu", init_scale, **options)
    scaler.scale(torch.ones(()))
    return scaler


# Construction


def test_takes_torchs_arguments_and_is_a_torch_scaler() -> None:
    ours, torchs = inspect.signature(ampcast.GradScaler), inspect.signature(TorchGradScaler)
    assert [(p.name, p.default) for p in ours.parameters.values()] == [
        (p.name, p.default) for p in torchs.parameters.values()
    ]
    assert isinstance(ampcast.GradScaler("cpu"), TorchGradScaler)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"growth_factor": 1.0}, AssertionError, "The growth factor must be > 1.0."),
        ({"growth_factor": -1.0}, AssertionError, "The growth factor must be > 1.0."),
        ({"growth_factor": INF}, ValueError, "`growth_factor` must be finite and above 0, got inf"),
        ({"growth_factor": NAN}, ValueError, "`growth_factor` must be finite and above 0, got nan"),
        ({"backoff_factor": 1.0}, AssertionError, "The backoff factor must be < 1.0."),
        ({"backoff_factor": 0.0}, ValueError, "`backoff_factor` must be finite and above 0, got 0"),
        ({"backoff_factor": -0.5}, ValueError, "`backoff_factor` must be finite and above 0, got -0.5"),
        ({"backoff_factor": NAN}, ValueError, "`backoff_factor` must be finite and above 0, got nan"),
        ({"init_scale": 0.0}, ValueError, "`init_scale` must be finite and above 0 in float32, got 0"),
        ({"init_scale": -2.0}, ValueError, "`init_scale` must be finite and above 0 in float32, got -2"),
        ({"init_scale": INF}, ValueError, "`init_scale` must be finite and above 0 in float32, got inf"),
        ({"init_scale": NAN}, ValueError, "`init_scale` must be finite and above 0 in float32, got nan"),
        ({"init_scale": 1e39}, ValueError, "`init_scale` must be finite and above 0 in float32"),
        ({"init_scale": 1e-50}, ValueError, "`init_scale` must be finite and above 0 in float32"),
        ({"init_scale": "big"}, TypeError, "`init_scale` must be a number, got str"),
        ({"growth_interval": 0}, ValueError, "`growth_interval` must be at least 1, got 0"),
        ({"growth_interval": 2.5}, TypeError, "`growth_interval` must be an int, got float"),
    ],
)
def test_constructor_refuses_bad_options_unless_disabled(
    options: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error) as raised:
        ampcast.GradScaler("cpu", **options)
    assert text in str(raised.value)
    assert not ampcast.GradScaler("cpu", **options, enabled=False).is_enabled()


@pytest.mark.skipif(torch.cuda.is_available(), reason="CUDA is available")
def test_warns_and_disables_itself_without_cuda_as_torch_does() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scaler = ampcast.GradScaler()
        torch_scaler = TorchGradScaler()
    ours, torchs = caught
    assert (str(ours.message), ours.category, ours.filename) == (str(torchs.message), torchs.category, torchs.filename)
    assert not scaler.is_enabled()
    assert not torch_scaler.is_enabled()


def test_disabled_scaler_checks_nothing_and_only_steps() -> None:
    scaler = ampcast.GradScaler("cpu", enabled=False)
    optimizer = sgd(torch.tensor([INF]))
    loss = torch.ones((), dtype=torch.int32)
    assert scaler.scale(loss) is loss
    assert scaler.scale("anything") == "anything"
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    scaler.update(-1.0)
    scaler.set_growth_factor(-1.0)
    scaler.set_backoff_factor(NAN)
    scaler.set_growth_interval(0)
    scaler.load_state_dict({})
    assert scaler.get_scale() == 1.0
    assert scaler.state_dict() == {}
    assert torch.isinf(weights(optimizer)[0]).all()


# scale


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.bool, torch.uint8])
@pytest.mark.parametrize("nest", [lambda x: x, lambda x: [torch.ones(()), x], lambda x: ([torch.ones(()), (x,)],)])
def test_integer_losses_are_refused_and_start_nothing(dtype: torch.dtype, nest: Any) -> None:
    scaler = ampcast.GradScaler("cpu")
    with pytest.raises(TypeError, match="a loss must be floating point or complex, got torch"):
        scaler.scale(nest(torch.ones((), dtype=dtype)))
    assert scaler._scale is None


@pytest.mark.parametrize("outputs", [3, None, [torch.ones(()), 3.0], (torch.ones(()), [None])])
def test_losses_that_are_no_tensors_are_refused_and_start_nothing(outputs: Any) -> None:
    scaler = ampcast.GradScaler("cpu")
    with pytest.raises(ValueError, match="outputs must be a Tensor or an iterable of Tensors"):
        scaler.scale(outputs)
    assert scaler._scale is None


def test_iterators_are_scaled_when_they_are_consumed() -> None:
    scaler = ampcast.GradScaler("cpu", 4.0)
    scaled = scaler.scale(x for x in [torch.ones(()), torch.ones((), dtype=torch.int32)])
    assert scaler._scale is None
    assert next(scaled).item() == 4.0
    with pytest.raises(TypeError, match=r"got torch\.int32"):
        next(scaled)


# unscale_


def test_gradients_of_all_dtypes_are_unscaled_together() -> None:
    dtypes = [torch.float32, torch.float64, torch.bfloat16, torch.complex64, torch.complex128]
    optimizer = sgd(*[torch.full((5,), 2.0, dtype=dtype) for dtype in dtypes])
    scaler = ready_scaler(4.0)
    scaler.unscale_(optimizer)
    for gradient in gradients(optimizer):
        assert torch.equal(gradient, torch.full((5,), 0.5, dtype=gradient.dtype))
    assert scaler._found_inf_per_device(optimizer) == {CPU: torch.zeros(())}


@pytest.mark.parametrize("value", [complex(INF, 1), complex(1, -INF), complex(NAN, 0), complex(0, NAN)])
def test_complex_gradient_with_a_part_that_is_not_finite_skips_the_step(value: complex) -> None:
    optimizer = sgd(torch.tensor([1 + 2j, value]))
    scaler = ready_scaler()
    scaler.step(optimizer)
    assert torch.equal(weights(optimizer)[0], torch.ones(2, dtype=torch.complex64))


def test_lazily_conjugated_and_negated_gradients_are_unscaled() -> None:
    p = torch.nn.Parameter(torch.zeros(2, dtype=torch.complex64))
    p.conj().backward(torch.tensor([4 + 8j, 8 - 4j]))
    q = torch.nn.Parameter(torch.zeros(2))
    q.grad = torch.tensor([4 + 8j, 8 - 4j]).conj().imag
    assert p.grad is not None
    assert p.grad.is_conj()
    assert q.grad.is_neg()
    ready_scaler(4.0).unscale_(torch.optim.SGD([p, q], lr=1.0))
    assert torch.equal(p.grad.resolve_conj(), torch.tensor([1 - 2j, 2 + 1j]))
    assert torch.equal(q.grad.resolve_neg(), torch.tensor([-2.0, 1.0]))


def test_float16_gradients_are_refused_before_any_is_written() -> None:
    optimizer = sgd(torch.ones(3), torch.ones(3, dtype=torch.float16))
    scaler = ready_scaler()
    for _ in range(2):
        with pytest.raises(ValueError, match=r"^Attempting to unscale FP16 gradients\.$"):
            scaler.unscale_(optimizer)
    assert torch.equal(gradients(optimizer)[0], torch.ones(3))


def test_unsupported_dtype_is_refused_with_torchs_error_before_any_gradient_is_written() -> None:
    optimizer = sgd(torch.ones(3), torch.ones(3).to(torch.float8_e4m3fn))
    errors = []
    for scaler_class in (ampcast.GradScaler, TorchGradScaler):  # torch's writes the first one
        scaler = scaler_class("cpu", 4.0)
        scaler.scale(torch.ones(()))
        with pytest.raises(NotImplementedError) as raised:
            scaler.unscale_(optimizer)
        errors.append(str(raised.value))
        if scaler_class is ampcast.GradScaler:
            assert torch.equal(gradients(optimizer)[0], torch.ones(3))
    assert errors[0] == errors[1]


def test_self_overlapping_gradient_is_refused_before_any_is_written() -> None:
    optimizer = sgd(torch.ones(3), torch.ones(3))
    optimizer.param_groups[0]["params"][1].grad = torch.ones(1).expand(3)
    scaler = ready_scaler()
    with pytest.raises(RuntimeError, match="must not overlap itself in memory"):
        scaler.unscale_(optimizer)
    assert torch.equal(gradients(optimizer)[0], torch.ones(3))


def test_gradient_refused_on_one_device_leaves_those_of_others_alone() -> None:
    parameters = [torch.nn.Parameter(torch.ones(3)), torch.nn.Parameter(torch.ones(3, device="meta"))]
    parameters[0].grad = torch.ones(3)
    parameters[1].grad = torch.ones(1, device="meta").expand(3)
    with pytest.raises(RuntimeError, match="must not overlap itself in memory"):
        ready_scaler().unscale_(torch.optim.SGD(parameters))
    assert torch.equal(parameters[0].grad, torch.ones(3))


def test_values_of_sparse_gradients_are_unscaled() -> None:
    gradient = torch.sparse_coo_tensor([[0, 2, 2]], [4.0, 8.0, 12.0], (3,), check_invariants=True)
    optimizer = sgd(gradient)
    ready_scaler(4.0).unscale_(optimizer)
    assert gradients(optimizer)[0] is gradient
    assert torch.equal(gradient._values(), torch.tensor([1.0, 2.0, 3.0]))


@pytest.mark.parametrize("unscale", [True, False])
def test_sparse_float16_gradient_is_coalesced_before_it_is_checked(unscale: bool) -> None:
    def unchecked(values: list[float]) -> torch.optim.SGD:
        return sgd(torch.sparse_coo_tensor([[0, 2, 2]], torch.tensor(values).half(), (3,), check_invariants=True))

    for values, overflows in ([1.0, 40000.0, 40000.0], True), ([1.0, 2.0, 3.0], False):
        optimizer, scaler = unchecked(values), ready_scaler(1.0)
        if unscale:
            found = scaler._unscale_grads_(optimizer, torch.tensor(1.0), torch.tensor(0.0), True)
        else:
            found = scaler._check_inf_per_device(optimizer)
        assert found == {CPU: torch.tensor(float(overflows))}
        assert gradients(optimizer)[0].is_coalesced()


def test_found_inf_is_recorded_once_a_device() -> None:
    optimizer = sgd(torch.ones(3), torch.ones(3, device="meta"), torch.tensor([NAN, 0.0]), torch.ones(2, device="meta"))
    scaler = ready_scaler(4.0)
    scaler.unscale_(optimizer)
    found = scaler._found_inf_per_device(optimizer)
    assert list(found) == [CPU, META]
    assert found[CPU].item() == 1.0
    assert found[META].device == META
    assert torch.equal(gradients(optimizer)[0], torch.full((3,), 0.25))


def test_given_found_inf_is_a_start_value_that_is_not_written() -> None:
    optimizer = sgd(torch.tensor([INF]))
    found_inf = torch.zeros(())
    found = ready_scaler()._unscale_grads_(optimizer, torch.tensor(0.5), found_inf, False)
    assert found == {CPU: torch.ones(())}
    assert found_inf.item() == 0.0


@pytest.fixture(scope="module")
def mesh() -> Iterator[Any]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield dist.init_device_mesh("cpu", (1,))
    dist.destroy_process_group()


@pytest.mark.parametrize("value", [4.0, INF])
def test_dtensor_gradients_go_through_torchs_own_operator(mesh: Any, value: float) -> None:
    from torch.distributed.tensor import DTensor, Shard, distribute_tensor

    p = torch.nn.Parameter(distribute_tensor(torch.ones(4), mesh, [Shard(0)]))
    p.grad = distribute_tensor(torch.tensor([4.0, value, 4.0, 4.0]), mesh, [Shard(0)])
    optimizer = torch.optim.SGD([p], lr=1.0)
    scaler = ready_scaler(4.0)
    scaler.step(optimizer)
    scaler.update()
    assert isinstance(p, DTensor)
    assert torch.equal(p.to_local(), torch.zeros(4) if value == 4.0 else torch.ones(4))
    assert scaler.get_scale() == (4.0 if value == 4.0 else 2.0)


def test_tensor_subclass_goes_through_torchs_own_operator() -> None:
    from torch.testing._internal.two_tensor import TwoTensor

    p = torch.nn.Parameter(TwoTensor(torch.ones(3), torch.ones(3)))
    p.grad = TwoTensor(torch.full((3,), 4.0), torch.full((3,), 8.0))
    seen = []

    class Recorder(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    with Recorder():
        ready_scaler(4.0).unscale_(torch.optim.SGD([p]))
    assert torch.ops.aten._amp_foreach_non_finite_check_and_unscale_.default in seen
    assert torch.equal(p.grad.a, torch.ones(3))
    assert torch.equal(p.grad.b, torch.full((3,), 2.0))


# step


@pytest.mark.parametrize("optimizer_class", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW])
def test_fused_and_plain_optimizers_skip_the_same_steps_when_a_product_overflows(optimizer_class: Any) -> None:
    for fused in (False, True):
        p = parameter(torch.full((3,), 2e38))
        scaler = ready_scaler(0.25)
        scaler.step(optimizer_class([p], lr=0.1, fused=fused))
        scaler.update()
        assert torch.equal(p, torch.ones(3))
        assert scaler.get_scale() == 0.125


class RecordingOptimizer(torch.optim.SGD):
    """A fused optimizer that remembers what the scaler gave it."""

    _step_supports_amp_scaling = True
    given: dict[str, Any]
    fails = False

    def step(self, closure: Any = None) -> Any:
        self.given = {"grad_scale": self.grad_scale, "found_inf": self.found_inf}
        if self.fails:
            raise OSError("step failed")
        return "stepped"


def recording_optimizer(*gradients: torch.Tensor) -> RecordingOptimizer:
    return RecordingOptimizer([parameter(gradient) for gradient in gradients], lr=1.0)


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("unscaled", [False, True])
def test_fused_optimizer_is_given_scale_and_flag_for_the_time_of_its_step(fails: bool, unscaled: bool) -> None:
    optimizer, scaler = recording_optimizer(torch.tensor([INF])), ready_scaler(4.0)
    optimizer.fails = fails
    if unscaled:
        scaler.unscale_(optimizer)
    if fails:
        with pytest.raises(OSError, match="step failed"):
            scaler.step(optimizer)
    else:
        assert scaler.step(optimizer) == "stepped"
    assert optimizer.given["grad_scale"] == (None if unscaled else 4.0)
    assert optimizer.given["found_inf"].item() == 1.0
    assert not hasattr(optimizer, "grad_scale")
    assert not hasattr(optimizer, "found_inf")


def test_grad_scale_set_on_the_optimizer_is_multiplied_in_also_for_the_check() -> None:
    for preset, overflows in (2.0, False), (torch.tensor(2.0**-20), True):
        optimizer, scaler = recording_optimizer(torch.tensor([1e38])), ready_scaler(4.0)
        optimizer.grad_scale = preset
        scaler.step(optimizer)
        assert optimizer.given["grad_scale"] == 4.0 * preset
        assert optimizer.given["found_inf"] == float(overflows)


def test_found_inf_for_fused_optimizers_is_exactly_1_whatever_was_added_up() -> None:
    optimizer, scaler = recording_optimizer(torch.ones(2)), ready_scaler()
    scaler._check_inf_per_device(optimizer)
    recorded = [torch.tensor(2.0), torch.tensor(1.0)]
    scaler.unscale_(optimizer)
    scaler._per_optimizer_states[id(optimizer)]["found_inf_per_device"] = dict(enumerate(recorded))
    scaler.step(optimizer)
    assert optimizer.given["found_inf"].item() == 1.0
    scaler.update()
    assert [t.item() for t in recorded] == [2.0, 1.0]
    assert scaler.get_scale() == 2.0


def test_fused_step_checks_without_writing_gradients() -> None:
    gradient = torch.full((4,), 3.0)
    scaler = ready_scaler(4.0)
    scaler.step(recording_optimizer(gradient))
    assert torch.equal(gradient, torch.full((4,), 3.0))


class OldOptimizer(torch.optim.SGD):
    """An optimizer of the older contract: its step takes the scaler."""

    _step_supports_amp_scaling = True

    def step(self, closure: Any = None, *, grad_scaler: Any = None) -> Any:
        return grad_scaler


def test_optimizer_that_takes_the_scaler_gets_it_with_torchs_warning() -> None:
    caught = []
    for scaler_class in (ampcast.GradScaler, TorchGradScaler):
        scaler = scaler_class("cpu")
        scaler.scale(torch.ones(()))
        optimizer = OldOptimizer([parameter(torch.ones(2))])
        with pytest.warns(FutureWarning) as record:
            assert scaler.step(optimizer) is scaler
        caught.append((str(record[0].message), record[0].filename))
        with pytest.raises(RuntimeError, match="step\\(\\) has already been called since the last update\\(\\)\\."):
            scaler.step(optimizer)
    assert caught[0] == caught[1]


# update and options


@pytest.mark.parametrize("new_scale", [0.0, -1.0, INF, NAN, 1e39, 1e-50])
def test_update_refuses_a_bad_scale_and_keeps_the_old(new_scale: float) -> None:
    optimizer, scaler = sgd(torch.ones(2)), ready_scaler(4.0)
    scaler.unscale_(optimizer)
    for value in (new_scale, torch.tensor(new_scale), torch.tensor([new_scale])):
        with pytest.raises(ValueError, match="`new_scale` must be finite and above 0 in float32"):
            scaler.update(value)
    assert scaler.get_scale() == 4.0
    with pytest.raises(RuntimeError, match="already been called"):
        scaler.unscale_(optimizer)


def test_update_leaves_recorded_flags_as_they_are() -> None:
    good, bad, scaler = sgd(torch.ones(2)), sgd(torch.tensor([INF])), ready_scaler(4.0)
    for optimizer in (good, bad):
        scaler.step(optimizer)
    recorded = [scaler._found_inf_per_device(optimizer)[CPU] for optimizer in (good, bad)]
    scaler.update()
    assert [found.item() for found in recorded] == [0.0, 1.0]
    assert scaler.get_scale() == 2.0


def test_setters_refuse_bad_values_and_accept_one() -> None:
    scaler = ampcast.GradScaler("cpu")
    for value in (0.0, -1.0, INF, NAN):
        with pytest.raises(ValueError, match="`growth_factor` must be finite and above 0"):
            scaler.set_growth_factor(value)
        with pytest.raises(ValueError, match="`backoff_factor` must be finite and above 0"):
            scaler.set_backoff_factor(value)
    for interval in (0, -3):
        with pytest.raises(ValueError, match="`growth_interval` must be at least 1"):
            scaler.set_growth_interval(interval)
    assert scaler.state_dict() == TorchGradScaler("cpu").state_dict()
    scaler.set_growth_factor(1.0)
    scaler.set_backoff_factor(1.0)
    assert (scaler.get_growth_factor(), scaler.get_backoff_factor()) == (1.0, 1.0)


# State


BAD_ENTRIES = [
    ("scale", 0.0, ValueError),
    ("scale", NAN, ValueError),
    ("scale", "big", TypeError),
    ("growth_factor", -1.0, ValueError),
    ("backoff_factor", INF, ValueError),
    ("growth_interval", 0, ValueError),
    ("growth_interval", 1.5, TypeError),
    ("_growth_tracker", -1, ValueError),
    ("_growth_tracker", 2**40, ValueError),
]


@pytest.mark.parametrize(("key", "value", "error"), BAD_ENTRIES)
@pytest.mark.parametrize("scaled", [False, True])
def test_bad_state_is_refused_and_nothing_of_it_is_loaded(
    key: str, value: Any, error: type[Exception], scaled: bool
) -> None:
    scaler = ready_scaler(4.0) if scaled else ampcast.GradScaler("cpu", 4.0)
    before = scaler.state_dict()
    good = ampcast.GradScaler("cpu", 64.0, 3.0, 0.25, 7).state_dict()
    with pytest.raises(error, match=key):
        scaler.load_state_dict({**good, key: value})
    with pytest.raises(KeyError, match=key):
        scaler.load_state_dict({k: v for k, v in good.items() if k != key})
    with pytest.raises(RuntimeError, match="The source state dict is empty"):
        scaler.load_state_dict({})
    assert scaler.state_dict() == before


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize(
    ("source_class", "target_class"),
    [(ampcast.GradScaler, TorchGradScaler), (TorchGradScaler, ampcast.GradScaler)],
)
def test_torch_and_ampcast_load_each_others_state(source_class: Any, target_class: Any, scaled: bool) -> None:
    source, target = source_class("cpu", 64.0, 3.0, 0.25, 7), target_class("cpu")
    source.scale(torch.ones(()))
    source.step(sgd(torch.ones(2)))
    source.update()
    if scaled:
        target.scale(torch.ones(()))
    file = io.BytesIO()
    torch.save(source.state_dict(), file)
    file.seek(0)
    target.load_state_dict(torch.load(file))
    assert target.state_dict() == source.state_dict()
    assert target.state_dict()["_growth_tracker"] == 1


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda scaler: pickle.loads(pickle.dumps(scaler))])
def test_copies_continue_on_their_own(duplicate: Any) -> None:
    scaler = ready_scaler(64.0, growth_interval=2)
    scaler.step(sgd(torch.ones(2)))
    scaler.update()
    twin = duplicate(scaler)
    assert type(twin) is ampcast.GradScaler
    twin.scale(torch.ones(()))
    twin.step(sgd(torch.ones(2)))
    twin.update()
    assert (scaler.get_scale(), twin.get_scale()) == (64.0, 128.0)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, pickle.dumps])
def test_copy_in_the_middle_of_an_iteration_is_refused(duplicate: Any) -> None:
    scaler = ready_scaler()
    scaler.unscale_(sgd(torch.ones(2)))
    with pytest.raises(AssertionError, match="may only be pickled at the beginning"):
        duplicate(scaler)


def test_works_in_the_place_of_torchs_names(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (torch.amp, torch.amp.grad_scaler, torch):
        monkeypatch.setattr(module, "GradScaler", ampcast.GradScaler)
    scaler = torch.amp.GradScaler("cpu", 4.0)
    assert isinstance(scaler, TorchGradScaler)
    optimizer = sgd(torch.full((2,), 4.0))
    scaler.scale(torch.ones(()))
    scaler.step(optimizer)
    scaler.update()
    assert torch.equal(weights(optimizer)[0], torch.zeros(2))
    assert type(pickle.loads(pickle.dumps(scaler))) is ampcast.GradScaler


def test_parameters_that_are_no_tensors_raise_torchs_error() -> None:
    optimizer, scaler = sgd(torch.ones(2)), ready_scaler()
    optimizer.param_groups[0]["params"] = ["weight"]
    with pytest.raises(AssertionError, match=r"expected param to be torch\.Tensor, got str"):
        scaler.unscale_(optimizer)
