"""The cast list against the running torch: which ops it names, and what the kernels do to each op's arguments."""

import functools
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import ampcast

PROBE = Path(__file__).with_name("cast_rule_probe.py")


@functools.cache
def probed(variant: str) -> dict[str, Any]:
    """Return what autocast does to every listed op in a process with torch alone, or with ampcast."""
    run = subprocess.run([sys.executable, str(PROBE), variant], capture_output=True, text=True, check=True)
    return json.loads(run.stdout)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_list_names_the_overloads_that_torch_has_autocast_kernels_for(device: str) -> None:
    assert sorted(ampcast.cast_list(device)) == sorted(probed("torch")[device])


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_every_op_reaches_a_probe(device: str) -> None:
    """Guards the tests below: a probe that never ran would compare equal."""
    for name, results in probed("torch")[device].items():
        reached = [result for result in results if not isinstance(result, str)]
        assert reached or name == "aten::binary_cross_entropy", name
        assert "not probed" not in results, name


@pytest.mark.parametrize("variant", ["ampcast-torch", "ampcast-default"])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_kernels_cast_as_torchs_do(device: str, variant: str) -> None:
    expected, actual = probed("torch")[device], probed(variant)[device]
    different = {name: (expected[name], actual.get(name)) for name in expected if expected[name] != actual.get(name)}
    assert not different


def seen_by(result: Any) -> list[str]:
    """Return the dtypes of the tensors that an op was given, flattened."""
    return re.findall(r'"(torch\.\w+)"', json.dumps(result))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_each_rule_does_what_its_name_says(device: str) -> None:
    """For float32 arguments (first case of the probe) and bfloat16 ones (third) in a bfloat16 region."""
    for name, rule in ampcast.cast_list(device).items():
        from_fp32, from_bf16 = (
            probed("ampcast-default")[device][name][0],
            probed("ampcast-default")[device][name][2],
        )
        if rule == "lower":
            assert set(seen_by(from_fp32)) == {"torch.bfloat16"}, name
        elif rule == "fp32":
            assert set(seen_by(from_bf16)) == {"torch.float32"}, name
        elif rule == "promote":
            assert set(seen_by(from_fp32)) == {"torch.float32"}, name
            assert set(seen_by(from_bf16)) == {"torch.bfloat16"}, name
        elif rule == "fp32_dtype":
            assert "argument torch.float32" in json.dumps(from_bf16), name
            assert set(seen_by(from_bf16)) == {"torch.bfloat16"}, name
        else:
            assert (rule, from_fp32) == ("banned", "RuntimeError: banned"), name


def test_rules_are_listed_per_device() -> None:
    assert ampcast.cast_list("cpu")["aten::conv2d.padding"] == "lower"
    assert ampcast.cast_list("cpu")["aten::grid_sampler"] == "fp32"
    assert ampcast.cast_list("cuda")["aten::grid_sampler"] == "promote"
    assert ampcast.cast_list("cuda")["aten::softmax.int"] == "fp32_dtype"
    assert ampcast.cast_list("cuda")["aten::binary_cross_entropy"] == "banned"
    assert "aten::add.Tensor" not in ampcast.cast_list("cuda")


def test_device_without_a_list_is_named() -> None:
    with pytest.raises(ValueError, match="must be cpu or cuda.*got meta"):
        ampcast.cast_list("meta")
    with pytest.raises(RuntimeError, match="abacus"):
        ampcast.cast_list("abacus")
