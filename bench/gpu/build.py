"""Builds ampcast in place for the GPU of this machine."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[2]
COMMAND = (sys.executable, "setup.py", "--quiet", "build_ext", "--inplace")
H200 = "90"
SHOWN_CHARACTERS = 8000


def architecture() -> str:
    """The compute capability of the GPU, as CMake writes it; without one that of an H200, to plan with."""
    if not torch.cuda.is_available():
        return H200
    return "{}{}".format(*torch.cuda.get_device_capability())


def settings(device: torch.device) -> dict[str, str]:
    """The environment variables that the build reads."""
    cuda = device.type == "cuda"
    arguments = f"-DAMPCAST_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES={architecture()}-real" if cuda else "-DAMPCAST_CUDA=OFF"
    return {"AMPCAST_CMAKE_ARGS": arguments, "AMPCAST_BUILD_DIR": str(ROOT / "build" / f"check-{device.type}")}


def plan(device: torch.device) -> str:
    variables = " ".join(f"{name}={shlex.quote(value)}" for name, value in settings(device).items())
    return f"{variables} {shlex.join(COMMAND)}"


def build(device: torch.device, seconds: float) -> str:
    """Build, at most `seconds` long, and put the result first on the path; return what went wrong, nothing if it was built."""
    environment = {**os.environ, **settings(device)}
    outputs: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(COMMAND, cwd=ROOT, env=environment, start_new_session=True, **outputs) as process:
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # the compilers, too
            return f"the build takes more than {seconds:.0f} s"
    if process.returncode != 0:
        return f"the build failed:\n{output[-SHOWN_CHARACTERS:]}"
    sys.path.insert(0, str(ROOT / "python"))
    return ""
