"""What the profiler saw of a call: kernels, waits, copies to the host."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

RANGE = "gpu_check: counted"
MARGIN_SECONDS = 0.001
"""Between what is counted and the wait for its end: the clocks of the range and of CUDA's calls are not quite one."""


@dataclass(frozen=True)
class Counts:
    """Counts of one call."""

    kernels: int
    fills: int
    copies_to_host: int
    waits: int

    def __str__(self) -> str:
        return f"{self.kernels} kernels, {self.fills} memory sets, {self.copies_to_host} copies to the host, {self.waits} waits"


def count(call: Callable[[], None]) -> Counts:
    """Count a call that has been made before."""
    torch.cuda.synchronize()
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profiler:
        with torch.profiler.record_function(RANGE):
            call()
        time.sleep(MARGIN_SECONDS)
        torch.cuda.synchronize()
    return counts_of(exported(profiler))


def exported(profiler: torch.profiler.profile) -> Any:
    """The trace as its JSON file has it, whose format is older and steadier than that of the events in Python."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        return json.loads(path.read_text())


def counts_of(trace: Mapping[str, Any]) -> Counts:
    """Count in a trace of the profiler what the range started: device events run later, but bear its correlation ids."""
    events = [event for event in trace["traceEvents"] if "cat" in event]
    counted = next(e for e in events if e["cat"] == "user_annotation" and e["name"] == RANGE)
    end = counted["ts"] + counted["dur"]
    calls = [e for e in events if e["cat"] in ("cuda_runtime", "cuda_driver") and counted["ts"] <= e["ts"] < end]
    if not calls:
        raise RuntimeError("the profiler recorded no call of CUDA's runtime; is CUPTI there?")
    started = {correlation(event) for event in calls}
    device = [e for e in events if e["cat"] in ("kernel", "gpu_memset", "gpu_memcpy") and correlation(e) in started]
    return Counts(
        kernels=sum(event["cat"] == "kernel" for event in device),
        fills=sum(event["cat"] == "gpu_memset" for event in device),
        copies_to_host=sum(event["cat"] == "gpu_memcpy" and "DtoH" in event["name"] for event in device),
        waits=sum("Synchronize" in event["name"] for event in calls),
    )


def correlation(event: Mapping[str, Any]) -> Any:
    return event.get("args", {}).get("correlation")
