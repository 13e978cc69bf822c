"""`GradScaler.clip_grad_norm_` against torch's recipe: `unscale_`, then `torch.nn.utils.clip_grad_norm_`."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import ampcast

INF = float("inf")
NAN = float("nan")
SCALE = 2.0**10


def model_with_gradients(*gradients: torch.Tensor) -> list[torch.nn.Parameter]:
    parameters = [torch.nn.Parameter(torch.ones_like(gradient)) for gradient in gradients]
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient.clone()
    return parameters


def ready_scaler(scaler_class: Any = ampcast.GradScaler, **kwargs: Any) -> Any:
    scaler = scaler_class("cpu", init_scale=SCALE, **kwargs)
    scaler.scale(torch.ones(()))
    return scaler


def torchs_recipe(
    optimizer: torch.optim.Optimizer, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False
) -> torch.Tensor:
    ready_scaler(torch.amp.GradScaler).unscale_(optimizer)
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    return torch.nn.utils.clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite)


def both(
    gradients: list[torch.Tensor], *args: Any
) -> tuple[tuple[torch.Tensor, list[torch.Tensor]], tuple[torch.Tensor, list[torch.Tensor]]]:
    """Return (norm, gradients) of ampcast's call and of torch's recipe."""
    results = []
    for clip in (lambda *rest: ready_scaler().clip_grad_norm_(*rest), torchs_recipe):
        parameters = model_with_gradients(*gradients)
        norm = clip(torch.optim.SGD(parameters), *args)
        results.append((norm, [parameter.grad for parameter in parameters]))
    return results[0], results[1]


@settings(deadline=None, max_examples=200)
@given(
    sizes=st.lists(st.integers(1, 300), min_size=1, max_size=8),
    magnitude=st.integers(-20, 30),
    max_norm=st.sampled_from([0.0, 1e-3, 1.0, 100.0, INF]),
    norm_type=st.sampled_from([2.0, INF]),
    seed=st.integers(0, 2**30),
)
def test_norm_and_gradients_are_torchs(
    sizes: list[int], magnitude: int, max_norm: float, norm_type: float, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    gradients = [torch.randn(size, generator=generator) * 2.0**magnitude for size in sizes]
    (norm, ours), (torchs_norm, theirs) = both(gradients, max_norm, norm_type)
    assert norm.dtype is torch.float32 and norm.shape == ()
    # Torch adds in float32 and ampcast in float64, so the norms, and the coefficients, differ by roundings.
    torch.testing.assert_close(norm, torchs_norm, rtol=1e-5, atol=0)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-37)


@pytest.mark.parametrize("norm_type", [2.0, INF])
def test_empty_gradients_add_nothing_also_to_the_infinity_norm_which_torch_refuses(norm_type: float) -> None:
    parameters = model_with_gradients(torch.ones(0, 3), torch.full((1,), 2 * SCALE), torch.ones(0))
    assert ready_scaler().clip_grad_norm_(torch.optim.SGD(parameters), INF, norm_type) == 2.0


def test_gradients_below_the_norm_have_the_bits_of_unscale() -> None:
    (_, ours), (_, theirs) = both([torch.randn(100), torch.randn(3, 5)], 1e9)
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def test_norm_is_within_2_ulp_of_float64_where_torch_loses_digits() -> None:
    gradient = torch.full((1_000_003,), 0.1) * SCALE
    (norm, _), _ = both([gradient], INF)
    exact = (gradient.double() / SCALE).norm()
    assert abs(norm.double() - exact) <= 2 * torch.finfo(torch.float32).eps * exact


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.complex64])
@pytest.mark.parametrize("norm_type", [2.0, INF])
def test_gradients_of_other_dtypes_are_clipped(dtype: torch.dtype, norm_type: float) -> None:
    torch.manual_seed(0)
    gradients = [torch.randn(50, dtype=dtype) * SCALE, torch.randn(7, dtype=torch.float32) * SCALE]
    parameters = model_with_gradients(*gradients)
    norm = ready_scaler().clip_grad_norm_(torch.optim.SGD(parameters), 0.5, norm_type)
    wide = torch.cat([gradient.to(torch.complex128) / SCALE for gradient in gradients])
    expected = torch.linalg.vector_norm(wide, norm_type)
    torch.testing.assert_close(norm.double(), expected, rtol=1e-6, atol=0)
    clipped = torch.cat([parameter.grad.to(torch.complex128) for parameter in parameters])
    tolerance = 1e-2 if dtype is torch.bfloat16 else 1e-5
    torch.testing.assert_close(clipped, wide * 0.5 / expected, rtol=tolerance, atol=1e-6)


@pytest.mark.parametrize("norm_type", [1.0, 3.0, 0.5])
def test_other_norms_are_torchs(norm_type: float) -> None:
    (norm, ours), (torchs_norm, theirs) = both([torch.randn(100) * SCALE], 1.0, norm_type)
    assert torch.equal(norm, torchs_norm) and torch.equal(ours[0], theirs[0])


@pytest.mark.parametrize("value", [INF, -INF, NAN])
@pytest.mark.parametrize("norm_type", [2.0, INF])
def test_gradients_that_are_not_finite_give_torchs_result_and_a_skipped_step(value: float, norm_type: float) -> None:
    gradient = torch.tensor([1.0, value, -3.0])
    (norm, ours), (torchs_norm, theirs) = both([gradient], 1.0, norm_type)
    torch.testing.assert_close([norm, *ours], [torchs_norm, *theirs], equal_nan=True, rtol=0, atol=0)
    optimizer, scaler = torch.optim.SGD(model_with_gradients(gradient)), ready_scaler()
    scaler.clip_grad_norm_(optimizer, 1.0, norm_type)
    scaler.step(optimizer)
    assert torch.equal(optimizer.param_groups[0]["params"][0], torch.ones(3))
    scaler.update()
    assert scaler.get_scale() == SCALE / 2


def test_error_if_nonfinite_raises_torchs_error_and_leaves_a_step_that_skips() -> None:
    gradient = torch.tensor([SCALE, INF])
    errors = []
    for clip in (ready_scaler().clip_grad_norm_, torchs_recipe):
        optimizer = torch.optim.SGD(model_with_gradients(gradient))
        with pytest.raises(RuntimeError) as raised:
            clip(optimizer, 1.0, 2.0, True)
        errors.append(str(raised.value))
        assert torch.equal(optimizer.param_groups[0]["params"][0].grad, torch.tensor([1.0, INF]))
    assert errors[0] == errors[1]


def test_clipping_again_clips_the_gradients_as_they_are() -> None:
    optimizer, scaler = torch.optim.SGD(model_with_gradients(torch.tensor([3.0, 4.0]) * SCALE)), ready_scaler()
    scaler.unscale_(optimizer)
    assert scaler.clip_grad_norm_(optimizer, 2.5) == 5.0
    torch.testing.assert_close(scaler.clip_grad_norm_(optimizer, INF), torch.tensor(2.5))
    with pytest.raises(RuntimeError, match="unscale_\\(\\) has already been called"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="clip_grad_norm_\\(\\) is being called after step"):
        scaler.clip_grad_norm_(optimizer, 1.0)


def test_bad_arguments_are_refused_before_anything_changes() -> None:
    optimizer = torch.optim.SGD(model_with_gradients(torch.ones(3)))
    with pytest.raises(AssertionError, match="Attempted clip_grad_norm_ but _scale is None"):
        ampcast.GradScaler("cpu").clip_grad_norm_(optimizer, 1.0)
    scaler = ready_scaler()
    for max_norm in (-1.0, NAN):
        with pytest.raises(ValueError, match="`max_norm` must be a number from 0 on"):
            scaler.clip_grad_norm_(optimizer, max_norm)
    with pytest.raises(TypeError, match="`max_norm` must be a number, got str"):
        scaler.clip_grad_norm_(optimizer, "1")
    half = torch.optim.SGD(model_with_gradients(torch.ones(3), torch.ones(3, dtype=torch.float16)))
    with pytest.raises(ValueError, match="Attempting to unscale FP16 gradients"):
        scaler.clip_grad_norm_(half, 1.0)
    assert torch.equal(half.param_groups[0]["params"][0].grad, torch.ones(3))
    scaler.unscale_(optimizer)  # not counted as unscaled by the calls that raised


def test_disabled_scaler_only_clips() -> None:
    parameters = model_with_gradients(torch.tensor([3.0, 4.0]))
    assert ampcast.GradScaler("cpu", enabled=False).clip_grad_norm_(torch.optim.SGD(parameters), 1.0) == 5.0
    torch.testing.assert_close(parameters[0].grad, torch.tensor([0.6, 0.8]))


def test_optimizer_without_gradients_has_torchs_norm_of_nothing() -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))])
    assert torch.equal(ready_scaler().clip_grad_norm_(optimizer, 1.0), torchs_recipe(optimizer, 1.0))


def test_values_of_sparse_gradients_are_left_to_torch() -> None:
    """Which has no norm of sparse gradients: its error comes, after `unscale_` as in its own recipe."""
    errors = []
    for clip in (ready_scaler().clip_grad_norm_, torchs_recipe):
        parameter = torch.nn.Parameter(torch.ones(3))
        parameter.grad = torch.sparse_coo_tensor(torch.tensor([[0, 2]]), torch.ones(2), (3,))
        errors.append(outcome(clip, torch.optim.SGD([parameter])))
    assert errors[0] == errors[1]


def outcome(clip: Callable[..., torch.Tensor], optimizer: torch.optim.Optimizer) -> str:
    try:
        return f"norm {clip(optimizer, 1.0)}"
    except (RuntimeError, NotImplementedError) as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"


@pytest.mark.parametrize("fused", [False, True])
def test_training_with_clipping_follows_torchs(fused: bool) -> None:
    """Losses of two models, one trained by each library, with an overflow on the way."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    x, y = torch.randn(64, 8), torch.randn(64, 1)
    histories = []
    for scaler_class in (ampcast.GradScaler, torch.amp.GradScaler):
        trained = copy.deepcopy(model)
        optimizer = torch.optim.AdamW(trained.parameters(), lr=0.01, fused=fused)
        scaler = scaler_class("cpu", init_scale=2.0**120, growth_interval=20)
        losses = []
        for _ in range(60):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(trained(x), y)
            scaler.scale(loss).backward()
            if scaler_class is ampcast.GradScaler:
                scaler.clip_grad_norm_(optimizer, 0.5)
            else:
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(trained.parameters(), 0.5)
            scaler.step(optimizer)
            scaler.update()
            losses.append(loss.item())
        histories.append(torch.tensor([*losses, scaler.get_scale()]))
    torch.testing.assert_close(histories[0], histories[1], rtol=1e-4, atol=0)
