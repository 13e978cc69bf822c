"""Row C16: what a region costs an op that it does not cast, and what entering and leaving one costs."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from bench.autocast_worker import Request, Worker
from bench.harness import Block, Effort, calls_in, interleave
from bench.row import Goal, Row

ENTER_AND_LEAVE = "with autocast('cpu', dtype=torch.bfloat16):\n    pass"


@dataclass(frozen=True)
class AutocastCase:
    """A statement to time under a region, and the statement without one that is its floor."""

    what: str
    statement: str
    goal: float
    floor: str | None = None

    @property
    def name(self) -> str:
        return f"C16 {self.what}"


CASES = (
    AutocastCase("nothing to cast", "torch.mm(low, low)", 1.03, floor="torch.mm(low, low)"),
    AutocastCase("cached parameter", "linear(low, weight)", 1.05, floor="linear(low, low_weight)"),
    AutocastCase("op not listed", "torch.add(low, low)", 1.03, floor="torch.add(low, low)"),
    AutocastCase("enter and leave", ENTER_AND_LEAVE, 1.0),
    AutocastCase("enter and leave, same instance", "with instance:\n    pass", 1.0),
)


def measure(only: str, core: int, effort: Effort) -> Iterator[Row]:
    """Measure the cases whose name holds `only`."""
    cases = [case for case in CASES if only in case.name]
    if not cases:
        return
    with contextlib.ExitStack() as processes:
        ours, peer = (
            [processes.enter_context(Worker(library, core)) for _ in range(effort.processes)]
            for library in ("ampcast", "torch")
        )
        for case in cases:
            yield measure_case(case, ours, peer, effort)


def measure_case(case: AutocastCase, ours: list[Worker], peer: list[Worker], effort: Effort) -> Row:
    in_region = case.floor is not None
    blocks = {
        "ours": timed_by(ours, case.statement, in_region, effort),
        "peer": timed_by(peer, case.statement, in_region, effort),
    }
    if case.floor is not None:
        blocks["no region"] = timed_by(ours, case.floor, False, effort)
    return Row(
        case=case.name,
        dtype="bf16",
        shape="8 x 8" if in_region else "-",
        threads=1,
        peer="torch.autocast",
        goal=Goal(case.goal, is_overhead=True),
        times=interleave(blocks, effort),
    )


def timed_by(workers: list[Worker], statement: str, in_region: bool, effort: Effort) -> Block:
    """A block that runs `statement` in the next of `workers`.

    Several, because where code and data lie in a process biases its times.
    """
    calls = 1
    for worker in (workers[0], *workers):
        calls = calls_in(effort.block_seconds, worker.time(Request(statement, in_region, calls)))
    turns = itertools.cycle(workers)
    return lambda: next(turns).time(Request(statement, in_region, calls))
