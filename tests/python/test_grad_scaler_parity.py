"""`ampcast.GradScaler` in lockstep with `torch.amp.GradScaler`, and the C++ scaler with the Python one."""

import copy
import math
import os
import pickle
import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.jit._pickle import restore_type_tag

import ampcast

TorchGradScaler = torch.amp.GradScaler
INF, NAN = math.inf, math.nan
SHAPES = [(7,), (3, 5), (1,), (64,), ()]


class Training:
    """A scaler and an optimizer that are fed given gradients."""

    def __init__(self, scaler: Any, optimizer_class: Any, fused: bool, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.parameters = [torch.nn.Parameter(torch.randn(shape, generator=generator)) for shape in SHAPES]
        self.scaler = scaler
        self.optimizer = optimizer_class(self.parameters, lr=0.01, fused=fused)

    def step(self, gradients: list[torch.Tensor], unscale_first: bool) -> bool:
        """Train on the gradients; return whether the step was taken."""
        before = [p.detach().clone() for p in self.parameters]
        self.scaler.scale(torch.ones(()))
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = gradient.clone()
        if unscale_first:
            self.scaler.unscale_(self.optimizer)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return not all(map(torch.equal, before, self.parameters))


def random_gradients(generator: torch.Generator, scale: float, overflows: bool) -> list[torch.Tensor]:
    """Gradients of a loss that was multiplied by `scale`, one element of which is not finite if it `overflows`."""
    gradients = [torch.randn(shape, generator=generator) * scale for shape in SHAPES]
    if overflows:
        gradient = gradients[int(torch.randint(len(SHAPES), (), generator=generator))].view(-1)
        bad = [INF, -INF, NAN][int(torch.randint(3, (), generator=generator))]
        gradient[int(torch.randint(gradient.numel(), (), generator=generator))] = bad
    return gradients


OPTIMIZERS = [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW]
TOTAL_STEPS = 10_000
RUNS = [(cls, fused, rate) for cls in OPTIMIZERS for fused in (False, True) for rate in (0.05, 0.2, 0.5, 0.8)]


@pytest.mark.parametrize(("optimizer_class", "fused", "overflow_rate"), RUNS)
def test_lockstep_with_torch_is_equal_bit_for_bit(optimizer_class: Any, fused: bool, overflow_rate: float) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    choose, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    options = {
        "init_scale": 2.0 ** choose.randint(-20, 40) * choose.choice([1.0, choose.uniform(1.0, 2.0)]),
        "growth_factor": choose.choice([2.0, 4.0, choose.uniform(1.01, 8.0)]),
        "backoff_factor": choose.choice([0.5, 0.25, choose.uniform(0.1, 0.99)]),
        "growth_interval": choose.choice([1, 2, 3, 10, 50]),
    }
    scalers = ampcast.GradScaler("cpu", **options), TorchGradScaler("cpu", **options)
    ours, torchs = (Training(scaler, optimizer_class, fused, seed) for scaler in scalers)
    for _ in range(-(-TOTAL_STEPS // len(RUNS))):
        if not 2.0**-100 <= torchs.scaler.get_scale() <= 2.0**100:
            for training in (ours, torchs):
                training.scaler.scale(torch.ones(()))
                training.scaler.update(options["init_scale"])
        overflows, unscale_first = choose.random() < overflow_rate, choose.random() < 0.3
        gradients = random_gradients(generator, torchs.scaler.get_scale(), overflows)
        taken = [training.step(gradients, unscale_first) for training in (ours, torchs)]
        assert taken == [not overflows] * 2
        assert ours.scaler.state_dict() == torchs.scaler.state_dict()
        for p, q in zip(ours.parameters, torchs.parameters, strict=True):
            assert torch.equal(p, q)
            assert p.grad is not None
            assert torch.equal(p.grad.nan_to_num(nan=1.5), q.grad.nan_to_num(nan=1.5))


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("optimizer_class", OPTIMIZERS)
def test_where_torch_misses_an_overflowing_product_ampcast_skips(optimizer_class: Any, fused: bool) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    choose, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    missed = 0
    for _ in range(200):
        scale = 2.0 ** choose.uniform(-126.0, 0.0)
        scalers = ampcast.GradScaler("cpu", scale), TorchGradScaler("cpu", scale)
        ours, torchs = (Training(scaler, optimizer_class, fused, seed) for scaler in scalers)
        gradients = random_gradients(generator, 2.0 ** choose.uniform(-20.0, 125.0), overflows=choose.random() < 0.1)
        inv_scale = torch.tensor(scale).double().reciprocal().float()
        finite_before = all(bool(g.isfinite().all()) for g in gradients)
        finite_after = all(bool((g * inv_scale).isfinite().all()) for g in gradients)
        before = [p.detach().clone() for p in ours.parameters]
        ours.step(gradients, unscale_first=False)
        torchs.step(gradients, unscale_first=False)
        assert (ours.scaler.get_scale() < torch.tensor(scale).item()) == (not finite_after)
        if not finite_after:
            assert all(map(torch.equal, before, ours.parameters))
        if finite_before and not finite_after:
            missed += 1
            assert torchs.scaler.get_scale() == torch.tensor(scale).item()
            if optimizer_class is torch.optim.SGD:
                assert not all(bool(p.isfinite().all()) for p in torchs.parameters)
            else:  # Adam divides Inf by Inf
                assert any(bool(p.isnan().any()) for p in torchs.parameters)
    assert missed > 20


def test_several_optimizers_share_one_decision() -> None:
    for overflowing in range(8):
        states, all_weights = [], []
        for scaler_class in (ampcast.GradScaler, TorchGradScaler):
            scaler = scaler_class("cpu", 8.0, growth_interval=1)
            trainings = [Training(scaler, torch.optim.Adam, fused, 1) for fused in (False, True, False)]
            scaler.scale(torch.ones(()))
            for i, training in enumerate(trainings):
                for p in training.parameters:
                    p.grad = torch.full_like(p, INF if overflowing >> i & 1 else 1.0)
                scaler.step(training.optimizer)
            scaler.update()
            states.append(scaler.state_dict())
            all_weights.append([p for training in trainings for p in training.parameters])
        assert states[0] == states[1]
        assert all(map(torch.equal, *all_weights))


# Any order of calls


class Program:
    """A scaler and two optimizers, one plain and one fused, on which random calls are made."""

    def __init__(self, scaler: Any) -> None:
        self.scaler = scaler
        self.parameters = [torch.nn.Parameter(torch.ones(3)) for _ in range(4)]
        self.optimizers = [
            torch.optim.SGD(self.parameters[:2], lr=0.5, momentum=0.5),
            torch.optim.SGD(self.parameters[2:], lr=0.5, momentum=0.5, fused=True),
        ]

    def scale(self, nested: bool) -> Any:
        loss = torch.full((), 3.0)
        return self.scaler.scale([loss, (loss,)] if nested else loss)

    def set_gradients(self, index: int, value: float | None) -> None:
        first, second = self.parameters[2 * index : 2 * index + 2]
        first.grad = None if value is None else torch.full((3,), value)
        second.grad = None if value is None else torch.full((3,), 2.0)

    def unscale_(self, index: int) -> Any:
        return self.scaler.unscale_(self.optimizers[index])

    def step(self, index: int) -> Any:
        return self.scaler.step(self.optimizers[index])

    def step_with_closure(self, index: int) -> Any:
        return self.scaler.step(self.optimizers[index], closure=lambda: None)

    def update(self, new_scale: Any) -> Any:
        return self.scaler.update(new_scale)

    def set_factors(self, growth_factor: float, backoff_factor: float, growth_interval: int) -> None:
        self.scaler.set_growth_factor(growth_factor)
        self.scaler.set_backoff_factor(backoff_factor)
        self.scaler.set_growth_interval(growth_interval)

    def load_state_dict(self, state: dict[str, Any]) -> Any:
        return self.scaler.load_state_dict(state)

    def copy(self, through_pickle: bool) -> None:
        self.scaler = pickle.loads(pickle.dumps(self.scaler)) if through_pickle else copy.deepcopy(self.scaler)

    def state(self) -> Any:
        gradients = [None if p.grad is None else p.grad.tolist() for p in self.parameters]
        scaler = self.scaler
        tensors = scaler._enabled and (scaler._scale is None, scaler._growth_tracker is None)
        return [scaler.state_dict(), scaler.get_scale(), tensors, [p.tolist() for p in self.parameters], gradients]


def outcome(call: Callable[..., Any], *arguments: Any) -> Any:
    """What a call returns or raises, in a form that can be compared."""
    try:
        return repr(call(*arguments))
    except Exception as error:
        return type(error), str(error)


index = st.sampled_from([0, 1])
factor = st.sampled_from([0.25, 0.5, 1.0, 1.5, 2.0])
states = st.fixed_dictionaries(
    {
        "scale": st.sampled_from([0.25, 1.0, 1024.0]),
        "growth_factor": factor,
        "backoff_factor": factor,
        "growth_interval": st.integers(1, 4),
        "_growth_tracker": st.integers(0, 3),
    }
)
new_scales = [
    None,
    None,
    0.5,
    64.0,
    3,
    torch.tensor(8.0),
    torch.tensor([8.0]),
    torch.ones(2),
    torch.ones(1, device="meta"),
]
calls = st.one_of(
    st.tuples(st.just("scale"), st.booleans()),
    st.tuples(st.just("set_gradients"), index, st.sampled_from([None, 1.0, 1.0, -3.0, INF, NAN])),
    st.tuples(st.just("unscale_"), index),
    st.tuples(st.just("step"), index),
    st.tuples(st.just("step_with_closure"), index),
    st.tuples(st.just("update"), st.sampled_from(new_scales)),
    st.tuples(st.just("set_factors"), factor, factor, st.integers(1, 4)),
    st.tuples(st.just("load_state_dict"), st.one_of(states, st.just({}))),
    st.tuples(st.just("copy"), st.booleans()),
)


@settings(max_examples=400, deadline=None, database=None, print_blob=True)
@given(enabled=st.sampled_from([True, True, True, False]), program=st.lists(calls, max_size=40))
def test_any_order_of_calls_gives_torchs_results_and_errors(enabled: bool, program: list[Any]) -> None:
    options = {"init_scale": 16.0, "growth_interval": 2, "enabled": enabled}
    ours, torchs = Program(ampcast.GradScaler("cpu", **options)), Program(TorchGradScaler("cpu", **options))
    for name, *arguments in program:
        results = [outcome(getattr(p, name), *arguments) for p in (ours, torchs)]
        assert results[0] == results[1], name
        states = [repr(p.state()) for p in (ours, torchs)]
        assert states[0] == states[1], name


# C++


@pytest.fixture
def scaler_program(tmp_path: Path) -> Callable[[str, Any], Any]:
    """Run the C++ program `scaler_program` on an object, and return what it answers."""
    path = os.environ.get("AMPCAST_SCALER_PROGRAM")
    if path is None:
        pytest.skip("AMPCAST_SCALER_PROGRAM does not name the C++ program of the tests")

    def run(command: str, value: Any) -> Any:
        torch.save(value, tmp_path / "in.pt")
        subprocess.run([path, command, tmp_path / "in.pt", tmp_path / "out.pt"], check=True, timeout=120)
        with torch.serialization.safe_globals([restore_type_tag]):
            return torch.load(tmp_path / "out.pt")

    return run


@pytest.mark.parametrize("scaler_class", [ampcast.GradScaler, TorchGradScaler])
def test_state_returns_from_cpp_unchanged(scaler_program: Any, scaler_class: Any) -> None:
    source = scaler_class("cpu", 48.0, 3.0, 0.3, 7)
    source.scale(torch.ones(()))
    parameter = torch.nn.Parameter(torch.ones(2))
    parameter.grad = torch.ones(2)
    source.step(torch.optim.SGD([parameter], lr=0.1))
    source.update()
    state = scaler_program("reload", source.state_dict())
    assert state == source.state_dict()
    assert [type(value) for value in state.values()] == [float, float, float, int, int]
    target = scaler_class("cpu")
    target.load_state_dict(state)
    assert target.state_dict() == source.state_dict()


def test_cpp_scaler_gives_the_python_ones_trajectory(scaler_program: Any) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    generator = torch.Generator().manual_seed(seed)
    scaler = ampcast.GradScaler("cpu", 48.0, 1.9, 0.3, 3)
    gradients = torch.randn(500, 16, generator=generator) * 1e20
    gradients[torch.rand(500, generator=generator) < 0.3, 5] = INF
    cpp = scaler_program("train", {"state": scaler.state_dict(), "gradients": gradients})

    parameter = torch.nn.Parameter(torch.zeros(16))
    optimizer = torch.optim.SGD([parameter], lr=0.1, momentum=0.9)
    for step, gradient in enumerate(gradients):
        scaler.scale(torch.ones(()))
        parameter.grad = gradient.clone()
        before = parameter.detach().clone()
        scaler.step(optimizer)
        assert bool(cpp["taken"][step]) == (not torch.equal(before, parameter))
        scaler.update()
        assert cpp["scales"][step].item() == scaler.get_scale()
        assert torch.equal(cpp["weights"][step], parameter)
