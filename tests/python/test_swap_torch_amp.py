"""The mode in which torch's names mean ampcast's classes."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import ampcast
from swap_torch_amp import NAMES_DYNAMO_READS, OTHER_NAMES, swapped_torch_amp

NAMES = NAMES_DYNAMO_READS + OTHER_NAMES


def values() -> list[Any]:
    return [getattr(module, name) for module, name, _ in NAMES]


def test_names_are_swapped_and_put_back() -> None:
    before = values()
    with swapped_torch_amp():
        assert values() == [value for _, _, value in NAMES]
    assert values() == before
    with swapped_torch_amp():
        torch.compile(lambda x: x + 1, backend="eager")(torch.ones(1))
        assert values() == [value for _, _, value in NAMES]
    assert values() == before


def test_no_public_name_of_torchs_is_forgotten() -> None:
    """Looks for both classes in every module of torch that is loaded and says it exports them."""
    originals = {before for before in values() if isinstance(before, type)}
    swapped = {(module.__name__, name) for module, name, _ in NAMES}
    for module_name, module in list(sys.modules.items()):
        if module_name.split(".")[0] == "torch" and module_name.split(".")[-1] != "common":
            for name in ("autocast", "GradScaler"):
                if vars(module).get(name) in originals and name in getattr(module, "__all__", ()):
                    assert (module_name, name) in swapped


@pytest.mark.filterwarnings("ignore:CUDA is not available")
@pytest.mark.filterwarnings("ignore:torch.cuda.amp.GradScaler is enabled")
def test_names_of_one_device_imply_it() -> None:
    with swapped_torch_amp():
        assert torch.cuda.amp.autocast().device == "cuda"
        assert torch.cpu.amp.autocast().fast_dtype is torch.bfloat16
        assert isinstance(torch.cuda.amp.GradScaler(init_scale=2.0), ampcast.GradScaler)
        assert torch.cpu.amp.GradScaler(2.0).get_scale() == 2.0


def test_torchs_own_code_enters_ampcasts_regions() -> None:
    """`custom_fwd` and `custom_bwd` enter regions of the class that their module names."""
    policies = []

    class Square(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu")
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            policies.append(ampcast.get_policy())
            return x * x

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            policies.append(ampcast.get_policy())
            return grad

    with swapped_torch_amp():
        with torch.autocast("cpu", torch.bfloat16):
            result = Square.apply(torch.ones(2, requires_grad=True))
        result.sum().backward()
    assert policies == ["default", "default"]


class Product(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with ampcast.autocast("cpu", torch.bfloat16):
            return torch.mm(x, x)


@pytest.mark.parametrize("strict", [False, True])
def test_exported_program_runs_while_the_names_are_swapped(strict: bool) -> None:
    """It looks `torch.autocast` up by name, for the device that carries the policy too."""
    x = torch.ones(2, 2)
    program = torch.export.export(Product(), (x,), strict=strict)
    with swapped_torch_amp():
        assert program.module()(x).dtype is torch.bfloat16
        assert (torch.is_autocast_enabled("cpu"), ampcast.get_policy()) == (False, "torch")


def test_program_is_exported_while_the_names_are_swapped() -> None:
    x = torch.ones(2, 2)
    with swapped_torch_amp():
        program = torch.export.export(Product(), (x,), strict=False)
    assert program.module()(x).dtype is torch.bfloat16


def test_option_swaps_before_test_files_are_imported(tmp_path: Path) -> None:
    file = tmp_path / "test_names.py"
    file.write_text(
        "import ampcast\n"
        "from torch import GradScaler, autocast\n"
        "def test_names():\n"
        "    assert autocast is ampcast.autocast and GradScaler is ampcast.GradScaler\n"
    )
    command = [sys.executable, "-m", "pytest", "-p", "swap_torch_amp", "--swap-torch-amp", str(file)]
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path}
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert run.returncode == 0, run.stdout + run.stderr
