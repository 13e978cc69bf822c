"""How a row is measured: ours, peer and floor in turn, round after round."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch.utils.benchmark import Timer

NOISY = 0.15
"""The interquartile range, as a part of the median, above which a peer's times give no verdict."""

Times = NDArray[np.float64]
"""Seconds a call, one a round."""

Block = Callable[[], float]
"""Runs a block of calls and returns seconds a call."""


@dataclass(frozen=True)
class Effort:
    """How long to measure."""

    rounds: int = 11
    block_seconds: float = 0.02
    processes: int = 3
    """Pairs of processes that share the rounds, where ours and peer need a process each."""
    retries: int = 3
    shrink: int = 1
    """Divides the number and the size of tensors."""


def timed(statement: str, variables: Mapping[str, Any], threads: int, effort: Effort) -> Block:
    """A block that runs `statement` for about `effort.block_seconds`, warm."""
    timer = Timer(statement, globals=dict(variables), num_threads=threads)
    number = 1
    for _ in range(2):  # the first guess holds the cost of the first call
        number = calls_in(effort.block_seconds, timer.timeit(number).median)
    return lambda: timer.timeit(number).median


def calls_in(seconds: float, seconds_per_call: float) -> int:
    return max(1, round(seconds / seconds_per_call))


def interleave(blocks: Mapping[str, Block], effort: Effort) -> dict[str, Times]:
    """Time the blocks in turn, and again while the peer's times scatter too much to be compared with."""
    for _ in range(1 + effort.retries):
        rounds = [{name: block() for name, block in blocks.items()} for _ in range(effort.rounds)]
        times = {name: np.array([seconds[name] for seconds in rounds]) for name in blocks}
        if not is_noisy(times["peer"]):
            break
    return times


def is_noisy(times: Times) -> bool:
    return interquartile_range(times) > NOISY * float(np.median(times))


def interquartile_range(times: Times) -> float:
    low, high = np.percentile(times, [25, 75])
    return float(high - low)
