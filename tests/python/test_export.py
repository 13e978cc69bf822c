"""Regions in torch.export, strict and not: exported programs have torch.autocast's values."""

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
import torch

import ampcast

pytestmark = pytest.mark.filterwarnings("ignore:.isinstance.treespec, LeafSpec:FutureWarning")

BF16 = torch.bfloat16
Region = Callable[..., contextlib.AbstractContextManager[Any]]


class Model(torch.nn.Module):
    """Runs its layers in, under and after regions that `regions` makes; takes torch's class or ampcast's."""

    def __init__(self, *regions: Callable[[], contextlib.AbstractContextManager[Any]]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 2)
        self.regions = regions
        self.requires_grad_(False)  # torch keeps casts of weights that need gradients, and mixes up their dtypes

    def forward(self, x: torch.Tensor) -> Any:
        outer, inner = self.regions
        with outer():
            first = self.first(x)
            with inner():
                second = self.second(x)
            third = self.second(x)
        return first, second, third, self.first(x)


def models(region: Region) -> dict[str, Model]:
    """Return models that torch can express."""
    return {
        "one region": Model(lambda: region("cpu", BF16), contextlib.nullcontext),
        "off inside": Model(lambda: region("cpu", BF16), lambda: region("cpu", enabled=False)),
        "other dtype inside": Model(lambda: region("cpu", BF16), lambda: region("cpu", torch.float16)),
        "torch's inside": Model(lambda: region("cpu", BF16), lambda: torch.autocast("cpu", torch.float16)),
    }


def ampcasts_own() -> dict[str, Model]:
    """Return models that torch has no words for."""
    autocast = ampcast.autocast
    return {
        "policy torch": Model(lambda: autocast("cpu", BF16, policy="torch"), contextlib.nullcontext),
        "float32 inside": Model(lambda: autocast("cpu", BF16), lambda: autocast("cpu", torch.float32)),
        "disabled inside": Model(lambda: autocast("cpu", BF16), ampcast.disabled),
    }


class DecoratedModel(Model):
    @ampcast.autocast("cpu", BF16)
    def forward(self, x: torch.Tensor) -> Any:
        return self.first(x), self.second(x)


class TorchsDecoratedModel(Model):
    @torch.autocast("cpu", BF16)
    def forward(self, x: torch.Tensor) -> Any:
        return self.first(x), self.second(x)


X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))


def same(actual: Any, expected: Any) -> bool:
    return len(actual) == len(expected) and all(
        a.dtype == e.dtype and torch.equal(a, e) for a, e in zip(actual, expected, strict=True)
    )


def state() -> tuple[Any, ...]:
    return torch.is_autocast_enabled("cpu"), torch.is_autocast_enabled("ipu"), ampcast.get_policy()


def assert_exports_to(model: torch.nn.Module, expected: Any, strict: bool) -> None:
    assert same(model(X), expected)
    program = torch.export.export(model, (X,), strict=strict)
    assert state() == (False, False, "torch")
    for exported in (program, program.run_decompositions()):
        assert same(exported.module()(X), expected)
        assert state() == (False, False, "torch")


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("name", models(torch.autocast))
def test_exported_program_gives_torchs_values(name: str, strict: bool) -> None:
    assert_exports_to(models(ampcast.autocast)[name], models(torch.autocast)[name](X), strict)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("name", ampcasts_own())
def test_exported_program_gives_the_values_of_eager_code(name: str, strict: bool) -> None:
    model = ampcasts_own()[name]
    expected = model(X)
    assert [t.dtype for t in expected] == [BF16, BF16 if name == "policy torch" else torch.float32, BF16, torch.float32]
    assert_exports_to(model, expected, strict)


@pytest.mark.parametrize("strict", [False, True])
def test_decorated_forward_gives_torchs_values(strict: bool) -> None:
    assert_exports_to(DecoratedModel(), TorchsDecoratedModel()(X), strict)


def test_instance_made_outside_gives_torchs_values() -> None:
    """Strict export refuses it, as Dynamo enters no instance of a class that it does not know."""
    region = ampcast.autocast("cpu", BF16)
    model = Model(lambda: region, contextlib.nullcontext)
    assert_exports_to(model, models(torch.autocast)["one region"](X), strict=False)


@pytest.mark.parametrize("strict", [False, True])
def test_region_around_export_is_not_part_of_the_program(strict: bool) -> None:
    """As with torch's: casts of the region around are recorded, and the region is left as it was."""
    programs = []
    for region in (torch.autocast, ampcast.autocast):
        with region("cpu", BF16):
            before = state()
            programs.append(torch.export.export(torch.nn.Linear(4, 4), (X,), strict=strict))
            assert state() == before
    dtypes = [program.module()(X).dtype for program in programs]
    assert dtypes[0] == dtypes[1]


@pytest.mark.parametrize("strict", [False, True])
def test_error_while_exporting_leaves_no_state(strict: bool) -> None:
    class Raises(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with ampcast.autocast("cpu", BF16), ampcast.disabled():
                raise ValueError("on purpose")

    with pytest.raises(Exception, match="on purpose|Observed exception"):
        torch.export.export(Raises(), (X,), strict=strict)
    assert state() == (False, False, "torch")
    with ampcast.autocast("cpu", BF16):  # and regions work as before
        assert torch.mm(X, X.t()).dtype == BF16
