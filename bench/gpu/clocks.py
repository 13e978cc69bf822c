"""Blocks of calls, timed by the device's events or by the host's clock."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch

from bench.gpu.graph import capture, warm_up
from bench.harness import Block, Effort, calls_in

Call = Callable[[], object]
CALLS_IN_GRAPH = 20
MAX_CALLS = 1000
MAX_QUEUED_CALLS = 32
"""So few that the device's queue does not fill, which would make the host wait."""


class Clock(Protocol):
    """Measures calls."""

    @property
    def max_calls(self) -> int:
        """How many calls a block has at most."""

    def seconds(self, call: Call, calls: int) -> float:
        """Return the seconds that each of `calls` calls takes."""


@dataclass(frozen=True)
class DeviceClock:
    """Between two events on the current stream: the device's time, where it is not the host that is late."""

    max_calls: ClassVar[int] = MAX_CALLS

    def seconds(self, call: Call, calls: int) -> float:
        event = functools.partial(torch.cuda.Event, enable_timing=True)
        begin, end = event(), event()
        begin.record()
        for _ in range(calls):
            call()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1e3 / calls


@dataclass(frozen=True)
class HostClock:
    """The time until the calls are queued or, if it `waits`, until the device has done them."""

    synchronize: Callable[[], object]
    waits: bool = False

    @property
    def max_calls(self) -> int:
        return MAX_CALLS if self.waits else MAX_QUEUED_CALLS

    def seconds(self, call: Call, calls: int) -> float:
        self.synchronize()
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        if self.waits:
            self.synchronize()
        seconds = (time.perf_counter() - begin) / calls
        self.synchronize()
        return seconds


def block(call: Call, clock: Clock, effort: Effort) -> Block:
    """A warm block of calls that takes about `effort.block_seconds`."""
    calls = 1
    for _ in range(3):  # the first guesses hold the cost of the first calls
        calls = min(clock.max_calls, calls_in(effort.block_seconds, max(clock.seconds(call, calls), 1e-9)))
    return lambda: clock.seconds(call, calls)


def graph_block(call: Callable[[], None], clock: Clock, effort: Effort, device: torch.device) -> Block:
    """A block of replays of a graph of many calls: the device's time without the host's."""
    warm_up(call, device)
    replays = block(capture(call, device, CALLS_IN_GRAPH), clock, effort)
    return lambda: replays() / CALLS_IN_GRAPH


def clocks(device: torch.device) -> dict[str, Clock]:
    """By what a row measures. Without CUDA all is the host's time, which serves to test the rows."""
    if device.type != "cuda":
        return dict.fromkeys(("device", "graph", "host", "wall"), HostClock(lambda: None))
    return {
        "device": DeviceClock(),
        "graph": DeviceClock(),
        "host": HostClock(torch.cuda.synchronize),
        "wall": HostClock(torch.cuda.synchronize, waits=True),
    }
