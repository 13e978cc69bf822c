"""Prints, as JSON, what the autocast kernels of this process do to the arguments of every op that they list.

Runs in a process of its own, with or without ampcast, so that torch's kernels can be compared with ampcast's, which
take their place. Below the autocast keys each listed op is replaced by a probe that records the dtypes it is given and
stops; so the arguments need fit the schema only, not the op, and CUDA ops can be probed on fake tensors.

usage: cast_rule_probe.py {torch,ampcast-torch,ampcast-default}
"""

import contextlib
import functools
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

REGION_DTYPE = torch.bfloat16
DEVICES = {"cpu": "AutocastCPU", "cuda": "AutocastCUDA"}
# The overloads that norm hands over to.
EXTRA = (
    "aten::norm.ScalarOpt_dtype",
    "aten::norm.ScalarOpt_dim_dtype",
    "aten::norm.names_ScalarOpt_dim_dtype",
)
# torch's own special kernel, in CUDA builds only, which ampcast never overrides.
NOT_OURS = {"aten::_cudnn_rnn"}
# The dtypes of an op's first tensor, and of the others.
DTYPES = [
    (torch.float32, torch.float32),
    (torch.bfloat16, torch.bfloat16),
    (torch.float32, torch.bfloat16),
    (torch.bfloat16, torch.float32),
    (torch.float16, torch.bfloat16),
    (torch.float64, torch.bfloat16),
    (torch.bfloat16, torch.float64),
    (torch.int64, torch.float32),
    (torch.float32, torch.int64),
]


class Probed(Exception):
    """Carries what a probe saw."""


def listed(key: str) -> list[str]:
    names = torch._C._dispatch_get_all_op_names()
    return sorted(
        name for name in names if torch._C._dispatch_has_kernel_for_dispatch_key(name, key) and name not in NOT_OURS
    )


def dtypes_in(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return str(value.dtype)
    if isinstance(value, torch.dtype):
        return f"argument {value}"
    if isinstance(value, (list, tuple)):
        return [dtypes_in(item) for item in value]
    return None


def probe(name: str) -> Callable[..., Any]:
    def record(*args: Any, **kwargs: Any) -> Any:
        raise Probed([name, dtypes_in(args), {key: dtypes_in(value) for key, value in sorted(kwargs.items())}])

    return record


def example(kind: str, tensors: Iterator[torch.Tensor], fill_dtype: bool) -> Any:
    """Return a value for a schema type."""
    if kind == "Optional[ScalarType]":
        return torch.float64 if fill_dtype else None
    if kind in ("Tensor", "Optional[Tensor]"):
        return next(tensors)
    if kind in ("List[Tensor]", "List[Optional[Tensor]]"):
        return [next(tensors), next(tensors)]
    if kind.startswith("Optional["):
        return None
    if kind == "str":
        return "dimname::x"  # which older torch takes for a Dimname too
    plain = {"int": 0, "float": 1.0, "number": 1.0, "bool": False}
    return [] if kind.startswith("List[") else plain[kind]


@functools.cache
def tensor(dtype: torch.dtype, device: str) -> torch.Tensor:
    return torch.ones(2, 2, dtype=dtype, device=device)


def tensors_of(dtypes: tuple[torch.dtype, torch.dtype], device: str) -> Iterator[torch.Tensor]:
    yield tensor(dtypes[0], device)
    while True:
        yield tensor(dtypes[1], device)


def call(name: str, device: str, dtypes: tuple[torch.dtype, torch.dtype], fill_dtype: bool) -> Any:
    packet, _, overload = name.removeprefix("aten::").partition(".")
    op = getattr(getattr(torch.ops.aten, packet), overload or "default")
    tensors = tensors_of(dtypes, device)
    args, kwargs = [], {}
    for argument in op._schema.arguments:
        value = example(str(argument.real_type), tensors, fill_dtype)
        if argument.kwarg_only:
            kwargs[argument.name] = value
        else:
            args.append(value)
    try:
        op(*args, **kwargs)
    except Probed as seen:
        return seen.args[0]
    except RuntimeError as error:
        return f"RuntimeError: {'banned' if name == 'aten::binary_cross_entropy' else str(error).splitlines()[0]}"
    return "not probed"


@contextlib.contextmanager
def region(device: str, variant: str) -> Iterator[None]:
    """Set the state that a region sets; on CUDA without a GPU, torch's and ampcast's own disable themselves."""
    torch.set_autocast_enabled(device, True)
    torch.set_autocast_dtype(device, REGION_DTYPE)
    torch.set_autocast_enabled("ipu", variant == "ampcast-default")
    torch.set_autocast_dtype("ipu", torch.bfloat16)
    try:
        yield
    finally:
        torch.set_autocast_enabled(device, False)
        torch.set_autocast_enabled("ipu", False)


def probe_device(device: str, variant: str) -> dict[str, Any]:
    names = listed(DEVICES[device])
    library = torch.library.Library("aten", "IMPL")
    existing = set(torch._C._dispatch_get_all_op_names())
    for name in [*names, *(extra for extra in EXTRA if extra in existing)]:
        library.impl(name.removeprefix("aten::"), probe(name), f"Autograd{device.upper()}")
    with region(device, variant), FakeTensorMode(allow_non_fake_inputs=True):
        return {
            name: [call(name, device, dtypes, fill) for dtypes in DTYPES for fill in (False, True)] for name in names
        }


def main() -> None:
    variant = sys.argv[1]
    if variant != "torch":
        import ampcast  # noqa: F401
    print(json.dumps({device: probe_device(device, variant) for device in DEVICES}))


if __name__ == "__main__":
    main()
