"""Captures what is called into a CUDA graph; where there is none, a replay is another call."""

from __future__ import annotations

from collections.abc import Callable

import torch


def capture(call: Callable[[], None], device: torch.device, calls: int = 1) -> Callable[[], None]:
    """Return what replays `calls` calls, which must have been made once before; capturing executes none."""
    if device.type != "cuda":
        return lambda: repeat(call, calls)
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        repeat(call, calls)
    return graph.replay


def warm_up(call: Callable[[], None], device: torch.device, calls: int = 3) -> None:
    """Call on a side stream, as must be done before a capture."""
    if device.type != "cuda":
        repeat(call, calls)
        return
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        repeat(call, calls)
    torch.cuda.current_stream().wait_stream(stream)


def repeat(call: Callable[[], None], calls: int) -> None:
    for _ in range(calls):
        call()
