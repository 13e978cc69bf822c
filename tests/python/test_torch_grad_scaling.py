"""What torch's own gradient scaling tests check, on the cases that torch builds for them, on CPU.

Written for `torch.amp.GradScaler` and `torch.autocast`; the fixture `amp` runs each test on torch's classes, as a
control, and on ampcast's. A test is named after torch's.
"""

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.testing._internal.common_cuda import _create_scaling_case, _create_scaling_models_optimizers

import ampcast

INF, NAN = math.inf, math.nan
FUSED = [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.Adagrad]

pytestmark = pytest.mark.usefixtures("amp")

# Trains on the data; with the scaler, or without it as the control, which leaves the batch out that the scaler skips.
Run = Callable[[list[Any], Any, Any, torch.amp.GradScaler, Any, int, bool], None]


def assert_same_model_and_state(actual: Any, expected: Any, atol: float) -> None:
    """Compare two (model, optimizer)."""
    for a, e in zip(actual[0].parameters(), expected[0].parameters(), strict=True):
        torch.testing.assert_close(a.grad, e.grad, atol=atol, rtol=1e-5)
        torch.testing.assert_close(a, e, atol=atol, rtol=1e-5)
        states = actual[1].state[a], expected[1].state[e]
        assert states[0].keys() == states[1].keys()
        for key in states[0]:
            torch.testing.assert_close(states[0][key], states[1][key], atol=atol, rtol=1e-5)


def run_scaling_case(run: Run, unskipped: int, skipped: int, atol: float = 1e-7, **case: Any) -> None:
    """Train torch's case with a scaler, enabled and not, and without one; compare models and the scale."""
    for enabled in (True, False):
        torch.manual_seed(0)
        control, scaling, control_optimizer, optimizer, data, loss_fn, skip = _create_scaling_case("cpu", **case)
        scaler = torch.amp.GradScaler("cpu", init_scale=128.0, growth_factor=2.0, growth_interval=1, enabled=enabled)
        run(data, control, control_optimizer, scaler, loss_fn, skip, False)
        run(data, scaling, optimizer, scaler, loss_fn, skip, True)
        assert scaler.get_scale() == (128.0 * 2.0**unskipped * 0.5**skipped if enabled else 1.0)
        assert_same_model_and_state((scaling, optimizer), (control, control_optimizer), atol)


def overflow(model: torch.nn.Sequential) -> None:
    grad = model[1].weight.grad
    assert grad is not None
    grad.data.fill_(INF)


def test_swap_is_in_force(amp: str) -> None:
    assert isinstance(torch.amp.GradScaler("cpu"), ampcast.GradScaler) == (amp == "ampcast")
    assert torch.amp.GradScaler is torch.GradScaler


def test_grad_scaling_unscale() -> None:
    plain = torch.full((20, 20), 4.0)
    inf, nan = plain.clone(), plain.clone()
    inf[2, 2], nan[2, 2] = INF, NAN
    variants: list[Callable[[torch.Tensor], torch.Tensor]] = [
        torch.Tensor.clone,
        lambda g: g.clone().t(),
        lambda g: g.clone()[:, :5],
        lambda g: g.clone()[:, 5:].t(),
        lambda g: g.to(torch.float64),
        lambda g: g.to(torch.float16),
    ]
    for first, second in itertools.product(variants, repeat=2):
        for bad, found in ((plain, 0.0), (inf, 1.0), (nan, 1.0)):
            grads = [first(plain), second(bad), first(plain)]
            found = 1.0 if not all(g.isfinite().all() for g in grads) else 0.0
            assert_unscaled(grads, found)


def assert_unscaled(grads: list[torch.Tensor], found: float) -> None:
    """Unscale by 1/4 through a scaler and an optimizer and compare."""
    params = [torch.nn.Parameter(torch.zeros_like(g)) for g in grads]
    for param, grad in zip(params, grads, strict=True):
        param.grad = grad.clone(memory_format=torch.preserve_format)
    result = torch.amp.GradScaler("cpu")._unscale_grads_(
        torch.optim.SGD(params, lr=1.0), torch.tensor(0.25), torch.tensor(0.0), True
    )
    assert [t.item() for t in result.values()] == [found]
    if not found:
        for param, grad in zip(params, grads, strict=True):
            assert torch.equal(param.grad, grad / 4)


@pytest.mark.filterwarnings("ignore:Sparse invariant checks are implicitly disabled")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("bad", [None, INF, NAN])
def test_grad_scaling_unscale_sparse(dtype: torch.dtype, bad: float | None) -> None:
    indices = [[0, 1, 1], [2, 0, 2]]
    values = torch.tensor([16.0, 32.0, bad or 64.0])
    assert_sparse_unscaled(torch.sparse_coo_tensor(indices, values, (2, 3), dtype=dtype), 0.0 if bad is None else 1.0)


def test_grad_scaling_unscale_sparse_sees_overflow_of_summed_values() -> None:
    """Two finite float16 values at one index add up to Inf."""
    values = torch.tensor([64000.0, 32.0, 64000.0])
    grad = torch.sparse_coo_tensor([[0, 1, 0], [2, 0, 2]], values, (2, 3), dtype=torch.float16)
    assert_sparse_unscaled(grad, 1.0)


def assert_sparse_unscaled(grad: torch.Tensor, found: float) -> None:
    param = grad.clone().requires_grad_()
    param.grad = grad.clone()
    result = torch.amp.GradScaler("cpu")._unscale_grads_(
        torch.optim.SGD([param], lr=1.0), torch.tensor(0.25), torch.tensor(0.0), True
    )
    assert [t.item() for t in result.values()] == [found]
    if not found:
        assert torch.equal(param.grad.to_dense(), (grad / 4).to_dense())


def test_grad_scaling_update_scale() -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_factor=2.0, backoff_factor=0.25, growth_interval=2)
    param = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([param], lr=0.0)
    trajectory = []
    for bad in (False, False, True, False, True, False, False):
        optimizer.zero_grad()
        scaler.scale(param.sum()).backward()
        if bad:
            param.grad.fill_(INF)  # type: ignore[union-attr]
        scaler.step(optimizer)
        scaler.update()
        trajectory.append((scaler.get_scale(), scaler._growth_tracker.item()))  # type: ignore[union-attr]
    assert trajectory == [(4.0, 1), (8.0, 0), (2.0, 0), (2.0, 1), (0.5, 0), (0.5, 1), (1.0, 0)]


def test_grad_scale_will_not_overflow() -> None:
    model = torch.nn.Linear(5, 1)
    optimizer = torch.optim.Adam(model.parameters())
    scaler = torch.amp.GradScaler("cpu", growth_interval=1, growth_factor=2**4, init_scale=1e38)
    loss = (model(torch.randn(1, 5)) - 1e-30 * torch.randn(1, 1)).pow(2).mean()
    scaler.scale(loss * 1e-36).backward()
    scaler.step(optimizer)
    scaler.update()
    assert math.isfinite(scaler.get_scale())


@pytest.mark.parametrize("lazy", [True, False])
def test_grad_scaling_state_dict(lazy: bool) -> None:
    saved = torch.amp.GradScaler("cpu", init_scale=3.0, growth_factor=4.0, backoff_factor=0.5, growth_interval=2)
    loaded = torch.amp.GradScaler("cpu", init_scale=6.0, growth_factor=7.0, backoff_factor=0.8, growth_interval=1)
    loaded._init_growth_tracker = 7
    if not lazy:
        loaded.scale(torch.full((1,), 4.0))
        assert isinstance(loaded._scale, torch.Tensor)
    loaded.load_state_dict(saved.state_dict())
    assert loaded.get_scale() == 3.0
    assert loaded.get_growth_factor() == 4.0
    assert loaded.get_backoff_factor() == 0.5
    assert loaded.get_growth_interval() == 2
    assert loaded._init_growth_tracker == 0
    assert loaded.state_dict() == saved.state_dict()


def backward_and_step(
    loss: torch.Tensor, model: Any, optimizer: Any, scaler: torch.amp.GradScaler | None, spoil: bool
) -> None:
    """Step through `scaler`, on overflowing gradients if they are to be spoiled; without one, leave that step out."""
    if scaler is None:
        loss.backward()
        if not spoil:
            optimizer.step()
        return
    scaler.scale(loss).backward()
    if spoil:
        overflow(model)
    scaler.step(optimizer)
    scaler.update()


def run_autocast(
    data: list[Any], model: Any, optimizer: Any, scaler: torch.amp.GradScaler, loss_fn: Any, skip: int, scale: bool
) -> None:
    for i, (x, y) in enumerate(data):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16, enabled=scale):
            output = model(x)
            assert output.dtype == (torch.float16 if scale else torch.float32)
            loss = loss_fn(output.float(), y)
        backward_and_step(loss, model, optimizer, scaler if scale else None, spoil=scaler.is_enabled() and i == skip)


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW])
@pytest.mark.parametrize("kind", ["plain", "foreach", "fused"])
def test_grad_scaling_autocast(optimizer: type, kind: str) -> None:
    """Also torch's `_foreach` and `_fused`."""
    kwargs: dict[str, Any] = {"lr": 0.01, "foreach": kind == "foreach", "fused": kind == "fused"}
    if optimizer is not torch.optim.SGD:
        kwargs["eps"] = 0.01  # else the rounding of a tiny gradient can turn a step around
    run_scaling_case(run_autocast, unskipped=3, skipped=1, atol=1e-3, optimizer_ctor=optimizer, optimizer_kwargs=kwargs)


@pytest.mark.parametrize("separate_unscale", [True, False])
@pytest.mark.parametrize("kwargs", [{}, {"weight_decay": 0.1, "maximize": True}], ids=str)
@pytest.mark.parametrize("optimizer_class", FUSED)
def test_grad_scaling_autocast_fused_optimizers(
    optimizer_class: type, kwargs: dict[str, Any], separate_unscale: bool
) -> None:
    """A fused optimizer, which unscales by itself, against a plain one that the scaler steps or skips."""
    kwargs = {"lr": 0.05, **kwargs}
    plain_model, fused_model, plain, _ = _create_scaling_models_optimizers(
        "cpu", optimizer_class, {**kwargs, "foreach": False}
    )
    fused = optimizer_class(fused_model.parameters(), fused=True, **kwargs)
    plain_scaler, fused_scaler = torch.amp.GradScaler("cpu", init_scale=128.0), torch.amp.GradScaler("cpu", 128.0)
    for batch, (model, optimizer, scaler) in itertools.product(
        range(4), ((plain_model, plain, plain_scaler), (fused_model, fused, fused_scaler))
    ):
        torch.manual_seed(batch)
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            loss = model(torch.randn(8, 8)).float().sum()
        scaler.scale(loss).backward()
        if separate_unscale:
            scaler.unscale_(optimizer)
        if batch == 2:
            overflow(model)
            if separate_unscale:  # the check is over; tell the optimizers
                state = scaler._per_optimizer_states[id(optimizer)]
                state["found_inf_per_device"][torch.device("cpu")].fill_(1.0)
        scaler.step(optimizer)
        scaler.update()
        assert not hasattr(optimizer, "found_inf") and not hasattr(optimizer, "grad_scale")
    assert plain_scaler.state_dict() == fused_scaler.state_dict()
    for p, f in zip(plain_model.parameters(), fused_model.parameters(), strict=True):
        assert f.isfinite().all()
        torch.testing.assert_close(f, p)


def clipping(separate_unscale: bool) -> Run:
    max_norm = 0.2  # below the norm of every batch

    def run(data: Any, model: Any, optimizer: Any, scaler: Any, loss_fn: Any, skip: int, scale: bool) -> None:
        for i, (x, y) in enumerate(data):
            optimizer.zero_grad()
            loss = loss_fn(model(x), y)
            if scale:
                scaler.scale(loss).backward()
                if i == skip and scaler.is_enabled():
                    overflow(model)
                if separate_unscale:
                    scaler.unscale_(optimizer)
                limit = max_norm if separate_unscale else max_norm * scaler.get_scale()
                torch.nn.utils.clip_grad_norm_(model.parameters(), limit, error_if_nonfinite=False)
                scaler.step(optimizer)
                scaler.update()
            else:
                loss.backward()
                assert torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm) > max_norm
                if not scaler.is_enabled() or i != skip:
                    optimizer.step()

    return run


def test_grad_scaling_clipping() -> None:
    run_scaling_case(clipping(separate_unscale=False), unskipped=3, skipped=1, atol=1e-5)


def test_grad_scaling_clipping_separate_unscale() -> None:
    run_scaling_case(clipping(separate_unscale=True), unskipped=3, skipped=1)


def test_grad_scaling_penalty() -> None:
    def run(data: Any, model: Any, optimizer: Any, scaler: Any, loss_fn: Any, skip: int, scale: bool) -> None:
        for i, (x, y) in enumerate(data):
            optimizer.zero_grad()
            loss = loss_fn(model(x), y)
            outputs = scaler.scale(loss) if scale else loss
            grads = torch.autograd.grad(outputs, model.parameters(), create_graph=True)
            if scale:
                inverse = 1.0 / scaler.get_scale()
                grads = tuple(g * inverse for g in grads)
            loss = loss + sum(g.pow(2).sum() for g in grads).sqrt()  # type: ignore[union-attr]
            backward_and_step(
                loss, model, optimizer, scaler if scale else None, spoil=scaler.is_enabled() and i == skip
            )

    run_scaling_case(run, unskipped=3, skipped=1)


def test_grad_scaling_accumulation() -> None:
    accumulated = 2

    def run(data: Any, model: Any, optimizer: Any, scaler: Any, loss_fn: Any, skip: int, scale: bool) -> None:
        for i, (x, y) in enumerate(data):
            loss = loss_fn(model(x), y) / accumulated
            (scaler.scale(loss) if scale else loss).backward()
            if (i + 1) % accumulated:
                continue
            if scale:
                scaler.step(optimizer)
                scaler.update()
            else:
                optimizer.step()
            if i + 1 < len(data):  # leaves the last gradients to be compared
                optimizer.zero_grad()

    run_scaling_case(run, unskipped=2, skipped=0, atol=1e-6)


@pytest.mark.parametrize("enabled", [True, False])
def test_grad_scaling_multiple(enabled: bool) -> None:
    """Two models, two optimizers and two losses that need both models, one scaler."""
    torch.manual_seed(0)
    control0, scaling0, control_optimizer0, optimizer0, data, loss_fn, skip = _create_scaling_case("cpu")
    control1, scaling1, control_optimizer1, optimizer1 = _create_scaling_models_optimizers("cpu")
    scaler = torch.amp.GradScaler("cpu", init_scale=128.0, growth_factor=2.0, growth_interval=1, enabled=enabled)

    def losses(models: Any, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        out0, out1 = models[0](x), models[1](x)
        return loss_fn(0.3 * out0 + 0.7 * out1, y), loss_fn(0.6 * out0 - 0.4 * out1, y)

    for i, (x, y) in enumerate(data):
        for optimizer in (control_optimizer0, control_optimizer1, optimizer0, optimizer1):
            optimizer.zero_grad()
        sum(losses((control0, control1), x, y)).backward()  # type: ignore[union-attr]
        control_optimizer0.step()
        if not enabled or i != skip:
            control_optimizer1.step()

        loss0, loss1 = losses((scaling0, scaling1), x, y)
        scaler.scale(loss0).backward(retain_graph=True)
        scaler.scale(loss1).backward()
        if enabled and i == skip:
            overflow(scaling1)
        scaler.unscale_(optimizer0)
        scaler.step(optimizer0)
        scaler.step(optimizer1)
        scaler.update()

    assert scaler.get_scale() == (128.0 * 2.0**3 * 0.5 if enabled else 1.0)
    assert_same_model_and_state((scaling0, optimizer0), (control0, control_optimizer0), 1e-6)
    assert_same_model_and_state((scaling1, optimizer1), (control1, control_optimizer1), 1e-6)


@pytest.mark.parametrize("kind", ["plain", "foreach", "fused"])
@pytest.mark.parametrize("optimizer_class", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW])
def test_params_invalidated_with_grads_invalidated_between_unscale_and_step(optimizer_class: type, kind: str) -> None:
    """What is put into gradients after the check is the program's own: the step is taken with it."""
    model = torch.nn.Linear(2, 2)
    optimizer = optimizer_class(model.parameters(), lr=0.1, foreach=kind == "foreach", fused=kind == "fused")
    scaler = torch.amp.GradScaler("cpu", init_scale=128.0)
    scaler.scale(model(torch.ones(1, 2)).sum()).backward()
    scaler.unscale_(optimizer)
    for param in model.parameters():
        param.grad.fill_(NAN)  # type: ignore[union-attr]
    scaler.step(optimizer)
    scaler.update()
    assert all(param.isnan().all() for param in model.parameters())
    assert scaler.get_scale() == 128.0


class TakesGradScaler(torch.optim.SGD):
    """Has the older of the two contracts of optimizers that handle the scale."""

    _step_supports_amp_scaling = True
    given: Any = None

    def step(self, closure: Any = None, *, grad_scaler: torch.amp.GradScaler | None = None) -> None:  # type: ignore[override]
        self.given = grad_scaler


class TakesAttributes(torch.optim.SGD):
    """Has the newer one."""

    _step_supports_amp_scaling = True
    given: Any = None

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        self.given = (self.grad_scale, self.found_inf)  # type: ignore[attr-defined]


def test_grad_scaler_pass_itself() -> None:
    param = torch.nn.Parameter(torch.ones(2))
    older, newer = TakesGradScaler([param], lr=1.0), TakesAttributes([param], lr=1.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    scaler.scale(param.sum()).backward()
    with pytest.warns(FutureWarning, match="GradScaler is going to stop passing itself as a keyword argument"):
        scaler.step(older)
    scaler.step(newer)
    assert older.given is scaler
    assert [t.item() for t in newer.given] == [2.0, 0.0]
    assert not hasattr(newer, "grad_scale") and not hasattr(newer, "found_inf")


def test_grad_scaler_with_preset_grad_scale() -> None:
    """A `grad_scale` that the program put on a fused optimizer is multiplied in."""
    param = torch.nn.Parameter(torch.zeros(4))
    optimizer = torch.optim.SGD([param], lr=1.0, fused=True)
    optimizer.grad_scale = torch.tensor(3.0)  # type: ignore[attr-defined]
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    scaler.scale(param.sum()).backward()
    param.grad.fill_(12.0)  # type: ignore[union-attr]
    scaler.step(optimizer)
    assert torch.equal(param.detach(), torch.full((4,), -1.0))
