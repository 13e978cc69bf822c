"""A check: a name, the operators it is about, cases, and what to do with each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

SHOWN_FAILURES = 3


@dataclass(frozen=True)
class Target:
    """Where the checks run, and how thoroughly."""

    device: torch.device
    quick: bool = False

    @property
    def is_cuda(self) -> bool:
        return self.device.type == "cuda"

    @property
    def devices(self) -> list[torch.device]:
        """The device under test, and the CPU, whose kernels must give the same."""
        return [self.device, torch.device("cpu")] if self.is_cuda else [self.device]


@dataclass(frozen=True)
class Check:
    """`run` takes a case, raises where the result is wrong, and may return what is worth a line."""

    name: str
    ops: str
    cases: Sequence[Any]
    run: Callable[[Any], str | None]
    needs_cuda: bool = False

    def plan(self) -> str:
        return f"{self.name:<44} {len(self.cases):>6} cases  {self.ops}"


@dataclass
class Outcome:
    """What became of a check."""

    check: Check
    seconds: float = 0.0
    cases_run: int = 0
    failures: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    left_out: str = ""

    @property
    def is_failure(self) -> bool:
        """A check that the time did not allow shows nothing, one that is not for this device is not missed."""
        return bool(self.failures) or (not self.left_out and self.cases_run < len(self.check.cases))

    @property
    def verdict(self) -> str:
        if self.failures:
            return f"FAILED in {len(self.failures)}"
        if self.left_out:
            return f"left out: {self.left_out}"
        return "FAILED: out of time" if self.is_failure else "ok"

    def lines(self) -> list[str]:
        head = f"{self.check.name:<44} {self.cases_run:>6} cases {self.seconds:7.1f} s  {self.verdict}"
        return [head, *(f"    {line}" for line in (*self.notes, *self.failures[:SHOWN_FAILURES]))]

    def to_dict(self) -> dict[str, Any]:
        return {
            "check": self.check.name,
            "cases": self.cases_run,
            "seconds": self.seconds,
            "verdict": self.verdict,
            "notes": self.notes,
            "failures": self.failures[:SHOWN_FAILURES],
        }


def run_check(check: Check, target: Target, deadline: float) -> Outcome:
    """Run all cases, also after a failure, until `deadline` on `time.monotonic`'s clock."""
    if check.needs_cuda and not target.is_cuda:
        return Outcome(check, left_out="needs CUDA")
    outcome, begin = Outcome(check), time.monotonic()
    for case in check.cases:
        if time.monotonic() > deadline:
            break
        outcome.cases_run += 1
        try:
            note = check.run(case)
            outcome.notes += [note] if note else []
        except Exception as error:  # whatever an operator raises is a finding
            outcome.failures.append(f"{case}: {type(error).__name__}: {error}".splitlines()[0])
    outcome.seconds = time.monotonic() - begin
    return outcome


def select(checks: Iterable[Check], only: str) -> list[Check]:
    return [check for check in checks if only in check.name]
