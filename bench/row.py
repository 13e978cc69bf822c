"""A row of the table: what was measured, against what, and whether the goal is met."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.harness import Times, interquartile_range, is_noisy

MIN_ROUNDS = 9
SLACK = 1.1
"""A miss by up to this factor counts as met where ours is within this factor of the floor."""

_COLUMNS = (
    ("case", 34),
    ("dev", 4),
    ("dtype", 5),
    ("shape", 12),
    ("thr", 3),
    ("ours med (iqr)", 18),
    ("peer", 20),
    ("peer med", 9),
    ("ratio [p10,p90]", 19),
    ("goal", 7),
    ("floor", 9),
    ("x floor", 7),
    ("PASS", 5),
)


@dataclass(frozen=True)
class Goal:
    """A bound on the ratio: peer's time over ours at least, or ours over peer's at most."""

    bound: float
    is_overhead: bool = False

    def ratios(self, ours: Times, peer: Times) -> Times:
        return ours / peer if self.is_overhead else peer / ours

    def is_met(self, ratio: float, slack: float = 1.0) -> bool:
        return ratio <= self.bound * slack if self.is_overhead else ratio * slack >= self.bound

    def __str__(self) -> str:
        return f"{'<=' if self.is_overhead else '>='}{self.bound:.2f}"


@dataclass(frozen=True)
class Row:
    """One case's times, round by round."""

    case: str
    dtype: str
    shape: str
    threads: int
    peer: str
    goal: Goal
    times: dict[str, Times]
    """Of "ours", of "peer", and of any number of floor probes."""
    device: str = "cpu"

    def ratios(self) -> Times:
        return self.goal.ratios(self.times["ours"], self.times["peer"])

    def floor(self) -> float | None:
        """Seconds of the fastest probe."""
        probes = (times for name, times in self.times.items() if name not in ("ours", "peer"))
        return min((float(np.median(times)) for times in probes), default=None)

    def verdict(self) -> str:
        """`yes`, `bound` (met as far as memory allows: SLACK), `no`; without a verdict `-` or `noisy`."""
        if len(self.times["ours"]) < MIN_ROUNDS:
            return "-"
        if is_noisy(self.times["peer"]):
            return "noisy"
        ratio = float(np.median(self.ratios()))
        if self.goal.is_met(ratio):
            return "yes"
        floor = self.floor()
        at_floor = floor is not None and not self.goal.is_overhead and np.median(self.times["ours"]) <= SLACK * floor
        is_bound = at_floor and self.goal.is_met(ratio, SLACK)
        return "bound" if is_bound else "no"

    def line(self) -> str:
        ours, peer, floor = np.median(self.times["ours"]), np.median(self.times["peer"]), self.floor()
        low, ratio, high = np.percentile(self.ratios(), [10, 50, 90])
        return _join(
            self.case,
            self.device,
            self.dtype,
            self.shape,
            str(self.threads),
            f"{_seconds(ours)} ({_seconds(interquartile_range(self.times['ours']))})",
            self.peer,
            _seconds(peer),
            f"{ratio:.3f} [{low:.2f},{high:.2f}]",
            str(self.goal),
            "-" if floor is None else _seconds(floor),
            "-" if floor is None else f"{ours / floor:.2f}",
            self.verdict(),
        )

    def difference(self) -> float:
        """Seconds a call that ours takes longer than the peer; the median over the rounds."""
        return float(np.median(self.times["ours"] - self.times["peer"]))

    def to_dict(self) -> dict[str, Any]:
        floor = self.floor()
        return {
            "case": self.case,
            "device": self.device,
            "dtype": self.dtype,
            "shape": self.shape,
            "threads": self.threads,
            "peer": self.peer,
            "ratio": float(np.median(self.ratios())),
            "goal": str(self.goal),
            "floor": floor,
            "difference": self.difference(),
            "verdict": self.verdict(),
            "seconds": {name: times.tolist() for name, times in self.times.items()},
        }


def _seconds(seconds: float) -> str:
    for unit, size in (("ns", 1e-9), ("us", 1e-6)):
        if abs(seconds) < 1e3 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-3:.3g} ms"


def _join(*cells: str) -> str:
    return " | ".join(f"{cell:<{width}}" for cell, (_, width) in zip(cells, _COLUMNS, strict=True)).rstrip()


HEADER = _join(*(name for name, _ in _COLUMNS))
