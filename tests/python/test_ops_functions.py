"""`ampcast.ops`: the same operators as `torch.ops.ampcast`, without boxing."""

import inspect
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from ampcast import ops

NAMES = ["check_finite_", "unscale_", "unscale_norm_", "clip_", "copy_cast_", "update_scale_"]


def arguments(name: str) -> tuple[Any, ...]:
    grads = [torch.arange(5.0), torch.full((3,), 7.0, dtype=torch.bfloat16)]
    found_inf, factor, norm = torch.zeros(1), torch.full((1,), 0.3), torch.full((1,), 9.0)
    return {
        "check_finite_": (grads, found_inf, torch.full((1,), 1e38)),
        "unscale_": (grads, found_inf, factor),
        "unscale_norm_": (grads, found_inf, factor, norm, float("inf")),
        "clip_": (grads, norm, 2.0),
        "copy_cast_": (grads, [torch.randn(5), torch.randn(3)]),
        "update_scale_": (norm, torch.zeros(1, dtype=torch.int32), found_inf, 2.0, 0.5, 1),
    }[name]


@pytest.mark.parametrize("name", NAMES)
def test_function_does_what_the_operator_does(name: str) -> None:
    torch.manual_seed(0)
    ours = arguments(name)
    torch.manual_seed(0)
    theirs = arguments(name)
    getattr(ops, name)(*ours)
    getattr(torch.ops.ampcast, name)(*theirs)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
    torch.manual_seed(0)
    with pytest.raises(AssertionError):
        torch.testing.assert_close(ours, arguments(name), rtol=0, atol=0)


@pytest.mark.parametrize("name", NAMES)
def test_function_takes_the_arguments_and_defaults_of_the_schema(name: str) -> None:
    schema = getattr(torch.ops.ampcast, name).default._schema
    parameters = inspect.signature(getattr(ops, name)).parameters
    assert list(parameters) == [argument.name for argument in schema.arguments]
    for argument in schema.arguments:
        default = parameters[argument.name].default
        assert default == (argument.default_value if argument.has_default_value() else inspect.Parameter.empty)


def test_functions_compile_and_run_on_fake_tensors() -> None:
    grads, compiled = arguments("unscale_")[0], arguments("unscale_")[0]
    rest = arguments("unscale_")[1:]
    torch.compile(ops.unscale_, backend="aot_eager", fullgraph=True)(compiled, *rest)
    ops.unscale_(grads, *rest)
    torch.testing.assert_close(compiled, grads, rtol=0, atol=0)
    with FakeTensorMode():
        assert ops.unscale_([torch.ones(3, device="cuda")], *(torch.ones(1, device="cuda") for _ in range(2))) is None


def test_arguments_that_are_no_lists_of_tensors_raise() -> None:
    one = torch.ones(1)
    with pytest.raises(TypeError, match="`grads` must be a list or tuple of tensors, got Tensor"):
        ops.unscale_(one, one, one)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"`src\[1\]` must be a tensor, got NoneType"):
        ops.copy_cast_((one, one), (one, None))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="`grads\\[0\\]` must be float32"):
        ops.unscale_([torch.ones(1, dtype=torch.int32)], one, one)
