"""Regions inside and around torch.compile: torch.autocast's values, its state, and graphs that are kept apart."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

import ampcast

BF16 = torch.bfloat16
Region = Callable[..., Any]
Function = Callable[[torch.Tensor, torch.Tensor], Any]

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script_method. is deprecated:DeprecationWarning")


def autocast_state() -> tuple[Any, ...]:
    devices = [(torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)) for d in ("cpu", "cuda", "ipu")]
    nesting = torch.autocast_increment_nesting() - 1
    torch.autocast_decrement_nesting()
    return (*devices, torch.is_autocast_cache_enabled(), nesting, ampcast.get_policy())


@pytest.fixture(autouse=True)
def clean_dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    before = autocast_state()
    yield
    assert autocast_state() == before


@torch.compiler.disable
def seen_outside_the_graph() -> tuple[bool, bool, str]:
    return torch.is_autocast_enabled("cpu"), torch.is_autocast_enabled("ipu"), ampcast.get_policy()


def arguments() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(4, 4, generator=generator), torch.randn(4, 4, generator=generator).requires_grad_()


def same(actual: Any, expected: Any) -> bool:
    if isinstance(actual, torch.Tensor):
        return actual.dtype == expected.dtype and torch.equal(actual, expected)
    if isinstance(actual, (list, tuple)):
        return len(actual) == len(expected) and all(map(same, actual, expected))
    return bool(actual == expected)


# Each takes the region's class, torch's or ampcast's, and returns a function to compile.


def context(region: Region) -> Function:
    def function(x: torch.Tensor, w: torch.Tensor) -> Any:
        with region("cpu", BF16):
            inside = torch.mm(x, w)
        return inside, torch.mm(x, w)

    return function


def keywords(region: Region) -> Function:
    def function(x: torch.Tensor, w: torch.Tensor) -> Any:
        with region(device_type="cpu", dtype=torch.float16, enabled=True, cache_enabled=False):
            return torch.mm(x, w)

    return function


def default_dtype(region: Region) -> Function:
    def function(x: torch.Tensor, w: torch.Tensor) -> Any:
        with region("cpu"):
            return torch.mm(x, w), torch.softmax(torch.mm(x, w), 0), torch.cat([x, x.bfloat16()])

    return function


# Of tensors that need no gradients: torch keeps casts of others by tensor only, and mixes up their dtypes.


def nested(region: Region) -> Function:
    def function(x: torch.Tensor, w: torch.Tensor) -> Any:
        with region("cpu", BF16):
            first = torch.mm(x, x)
            with region("cpu", torch.float16):
                second = torch.mm(x, x)
            with region("cpu", enabled=False):
                third = torch.mm(x, x)
            return first, second, third, torch.mm(x, x)

    return function


def interleaved(region: Region) -> Function:
    def function(x: torch.Tensor, w: torch.Tensor) -> Any:
        with region("cpu", BF16):
            with torch.autocast("cpu", torch.float16):
                with region("cpu", enabled=False):
                    first = torch.mm(x, x)
                second = torch.mm(x, x)
            return first, second, torch.mm(x, x)

    return function


def decorated(region: Region) -> Function:
    @region("cpu", BF16)
    def inner(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.mm(x, w)

    return lambda x, w: (inner(x, w), torch.mm(x, w))


def decorated_forward(region: Region) -> Function:
    class Model(torch.nn.Module):
        @region("cpu", BF16)
        def forward(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            return torch.mm(x, w)

    model = Model()
    return lambda x, w: (model(x, w), torch.mm(x, w))


def caught(region: Region) -> Function:
    def function(x: torch.Tensor, w: torch.Tensor) -> Any:
        inside = x
        try:
            with region("cpu", BF16):
                inside = torch.mm(x, w)
                raise ValueError("on purpose")
        except ValueError:
            pass
        return inside, torch.mm(x, w)

    return function


TRACED = [context, keywords, default_dtype, nested, interleaved, decorated, decorated_forward, caught]


@pytest.mark.parametrize("make", TRACED)
def test_regions_inside_one_graph_give_torchs_values(make: Callable[[Region], Function]) -> None:
    x, w = arguments()
    expected = make(torch.autocast)(x, w)
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(make(ampcast.autocast), backend=counter, fullgraph=True)
    for _ in range(3):
        assert same(compiled(x, w), expected)
    assert counter.frame_count == 1


@pytest.mark.parametrize("make", [default_dtype, decorated_forward])
def test_inductor_gives_torchs_values_and_gradients(make: Callable[[Region], Function]) -> None:
    results = []
    for region in (torch.autocast, ampcast.autocast):
        x, w = arguments()
        outputs = torch.compile(make(region), fullgraph=True)(x, w)
        sum(output.float().pow(2).sum() for output in outputs).backward()
        results.append((outputs, w.grad))
    assert same(results[1], results[0])


def float32(x: torch.Tensor, w: torch.Tensor) -> Any:
    with ampcast.autocast("cpu", BF16):
        with ampcast.autocast("cpu", torch.float32):
            first = torch.mm(x, w)
        return first, torch.mm(x, w)


def disabled(x: torch.Tensor, w: torch.Tensor) -> Any:
    with ampcast.autocast("cpu", BF16):
        with ampcast.disabled():
            first = torch.mm(x, w), ampcast.is_enabled(), ampcast.get_policy()
        return *first, torch.mm(x, w), ampcast.is_enabled(), ampcast.get_policy()


@ampcast.disabled()
def disabled_by_decorator(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.mm(x, w)


def calls_disabled(x: torch.Tensor, w: torch.Tensor) -> Any:
    with ampcast.autocast("cpu", BF16):
        return disabled_by_decorator(x, w), torch.mm(x, w)


def policies(x: torch.Tensor, w: torch.Tensor) -> Any:
    with ampcast.autocast("cpu", BF16, policy="torch"):
        first = torch.mm(x, w), ampcast.get_policy()
        with ampcast.autocast("cpu", BF16, policy="default"):
            second = torch.mm(x, w), ampcast.get_policy()
            with ampcast.autocast("cpu", enabled=False):
                third = torch.mm(x, w), ampcast.get_policy()
        return *first, *second, *third, torch.mm(x, w), ampcast.get_policy()


@pytest.mark.parametrize("function", [float32, disabled, calls_disabled, policies])
def test_what_torch_has_not_acts_as_in_eager_code(function: Function) -> None:
    x, w = arguments()
    eager = function(x, w)
    assert {t.dtype for t in eager if isinstance(t, torch.Tensor)} == {torch.float32, BF16}
    assert same(torch.compile(function, backend="aot_eager", fullgraph=True)(x, w), eager)


@pytest.mark.filterwarnings("ignore:In CPU autocast, but the target dtype is not supported")
@pytest.mark.filterwarnings("ignore:CUDA is not available or torch_xla is imported")
def test_regions_that_torch_disables_leave_the_policy_off() -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> Any:
        with ampcast.autocast("cpu", torch.float64):
            first = torch.mm(x, w), ampcast.get_policy()
        with ampcast.autocast("cpu", BF16, enabled=False):
            return *first, torch.mm(x, w), ampcast.get_policy()

    x, w = arguments()
    eager = function(x, w)
    assert eager[1::2] == ("torch", "torch")
    assert same(torch.compile(function, backend="aot_eager", fullgraph=True)(x, w), eager)


@pytest.mark.parametrize("enabled", [True, False])
def test_unknown_policy_is_refused_when_compiled_too(enabled: bool) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        with ampcast.autocast("cpu", BF16, enabled, policy="torhc"):
            return x + 1

    with pytest.raises(ValueError, match='None, "default" or "torch", got \'torhc\''):
        torch.compile(function, backend="aot_eager")(torch.ones(1))


@pytest.mark.parametrize("policy", ["default", "torch"])
@pytest.mark.parametrize("decorate", [False, True])
def test_state_holds_across_a_graph_break(decorate: bool, policy: str) -> None:
    def body(x: torch.Tensor, w: torch.Tensor) -> Any:
        first = torch.mm(x, w)
        seen = seen_outside_the_graph()
        return first, seen, torch.mm(first, w)

    def with_body(x: torch.Tensor, w: torch.Tensor) -> Any:
        with ampcast.autocast("cpu", BF16, policy=policy):
            return body(x, w)

    region = ampcast.autocast("cpu", BF16, policy=policy)
    function = region(body) if decorate else with_body
    compiled = torch.compile(
        lambda x, w: (function(x, w), torch.mm(x, w), seen_outside_the_graph()), backend="aot_eager"
    )
    x, w = arguments()
    (first, seen, second), after, seen_after = compiled(x, w)
    with torch.autocast("cpu", BF16):
        assert same((first, second), (torch.mm(x, w), torch.mm(torch.mm(x, w), w)))
    assert after.dtype == torch.float32
    assert seen == (True, policy == "default", policy)
    assert seen_after == (False, False, "torch")


def test_instance_made_outside_the_compiled_function_breaks_the_graph_and_gives_torchs_values() -> None:
    region = ampcast.autocast("cpu", BF16)

    def function(x: torch.Tensor, w: torch.Tensor) -> Any:
        with region:
            inside = torch.mm(x, w), seen_outside_the_graph()
        return *inside, torch.mm(x, w)

    x, w = arguments()
    results = torch.compile(function, backend="aot_eager")(x, w)
    assert results[1] == (True, True, "default")
    assert same(results[::2], context(torch.autocast)(x, w))


@pytest.mark.parametrize("broken", [False, True])
def test_error_inside_a_region_leaves_no_state(broken: bool) -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> Any:
        with ampcast.autocast("cpu", BF16):
            product = torch.mm(x, w)
            if broken:
                seen_outside_the_graph()
            if product.shape[0] == 4:
                raise ValueError("on purpose")
            return product

    before = autocast_state()
    with pytest.raises(ValueError, match="on purpose"):
        torch.compile(function, backend="aot_eager")(*arguments())
    assert autocast_state() == before


def mm(x: torch.Tensor, w: torch.Tensor) -> Any:
    return torch.mm(x, w), ampcast.get_policy()


AMBIENT: dict[str, Callable[[], contextlib.AbstractContextManager[Any]]] = {
    "none": contextlib.nullcontext,
    "torch": lambda: torch.autocast("cpu", BF16),
    "default": lambda: ampcast.autocast("cpu", BF16),
    "float16": lambda: ampcast.autocast("cpu", torch.float16),
    "policy torch": lambda: ampcast.autocast("cpu", BF16, policy="torch"),
    "off": lambda: ampcast.autocast("cpu", BF16, enabled=False),
    "float32": lambda: ampcast.autocast("cpu", torch.float32),
}


def test_each_state_around_a_compiled_function_has_its_own_graph_once() -> None:
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(mm, backend=counter, fullgraph=True)
    x, w = arguments()
    for name in [*AMBIENT, *reversed(AMBIENT), *AMBIENT]:
        with AMBIENT[name]():
            assert same(compiled(x, w), mm(x, w)), name
    # "policy torch" is torch's own state; "off" and "float32" are nothing at all.
    assert counter.frame_count == 4


def test_region_around_a_compiled_function_holds_across_its_graph_breaks() -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> Any:
        first = torch.mm(x, w)
        torch._dynamo.graph_break()
        return first, torch.mm(first, w), seen_outside_the_graph()

    x, w = arguments()
    compiled = torch.compile(function, backend="aot_eager")
    for region in (torch.autocast, ampcast.autocast, torch.autocast):
        with region("cpu", BF16):
            assert same(compiled(x, w), function(x, w))


@pytest.mark.parametrize("backward_in_region", [False, True])
@pytest.mark.parametrize("around", [False, True])
def test_compiled_training_gives_torchs_weights(around: bool, backward_in_region: bool) -> None:
    def trained(region: Region) -> list[torch.Tensor]:
        torch._dynamo.reset()
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def forward(x: torch.Tensor) -> torch.Tensor:
            with region("cpu", BF16) if not around else contextlib.nullcontext():
                return model(x).float().pow(2).mean()

        compiled = torch.compile(forward, backend="aot_eager", fullgraph=True)
        for _ in range(3):
            optimizer.zero_grad()
            with region("cpu", BF16) if around or backward_in_region else contextlib.nullcontext():
                loss = compiled(torch.ones(3, 4))
                if backward_in_region:
                    loss.backward()
            if not backward_in_region:
                loss.backward()
            optimizer.step()
        return [parameter.detach() for parameter in model.parameters()]

    assert same(trained(ampcast.autocast), trained(torch.autocast))


@pytest.mark.skipif(torch.__version__ < "2.12", reason="torch 2.11's graphs look torch.amp.autocast up by name")
def test_code_written_for_torch_compiles_under_swapped_names(amp: str) -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> Any:
        with torch.autocast("cpu", BF16):
            inside = torch.mm(x, w), ampcast.get_policy()
        with torch.amp.autocast("cpu", torch.float16):
            return *inside, torch.mm(x, w)

    x, w = arguments()
    eager = function(x, w)
    assert eager[1] == ("default" if amp == "ampcast" else "torch")
    assert same(torch.compile(function, backend="aot_eager", fullgraph=True)(x, w), eager)
    with torch.autocast("cpu", BF16):
        assert same(torch.compile(mm, backend="aot_eager", fullgraph=True)(x, w), mm(x, w))
