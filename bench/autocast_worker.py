"""A process that times statements under one library's autocast.

ampcast's kernels stand in for torch's in every region of a process that imports it, so torch is timed in a
process that does not.
This module must not import ampcast.
"""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import TracebackType

import torch
from torch.utils.benchmark import Timer


@dataclass(frozen=True)
class Request:
    statement: str
    in_region: bool
    """Whether one region is held open around all calls."""
    calls: int


def serve(connection: Connection, library: str, core: int) -> None:
    """Answer each request with seconds of this thread's CPU time a call, until None comes."""
    os.sched_setaffinity(0, {core})
    autocast = importlib.import_module(library).autocast
    variables = {
        "torch": torch,
        "linear": torch.nn.functional.linear,
        "autocast": autocast,
        "instance": autocast("cpu", dtype=torch.bfloat16),
        "low": torch.randn(8, 8).bfloat16(),
        "low_weight": torch.randn(8, 8).bfloat16().requires_grad_(),
        "weight": torch.randn(8, 8, requires_grad=True),
    }
    for request in iter(connection.recv, None):
        region = autocast("cpu", dtype=torch.bfloat16) if request.in_region else contextlib.nullcontext()
        with region:
            timer = Timer(request.statement, globals=variables, timer=time.thread_time)
            connection.send(timer.timeit(request.calls).median)


class Worker:
    """The parent's end of a process that runs `serve`, as a context."""

    def __init__(self, library: str, core: int) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._connection, other_end = spawn.Pipe()
        self._process = spawn.Process(target=serve, args=(other_end, library, core), daemon=True)

    def __enter__(self) -> Worker:
        self._process.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.send(None)
        self._process.join()

    def time(self, request: Request) -> float:
        self._connection.send(request)
        while not self._connection.poll(timeout=1.0):
            if not self._process.is_alive():
                raise RuntimeError(f"the process that timed {request.statement!r} ended")
        return float(self._connection.recv())
