"""Builds ampcast on a machine with a GPU, checks every operator there, and measures rows G1 to G6, G8, G9 and G12.

    python bench/gpu_check.py              # ten minutes at most, the build included; needs torch and numpy
    python bench/gpu_check.py --dry-run    # what would be done
    python bench/gpu_check.py --device cpu --no-build   # the same checks on CPU tensors, no rows

Exit status 1 if a check failed or did not fit into its time, or a row could not be measured; goals that are missed are shown.
"""

from __future__ import annotations

import argparse
import faulthandler
import importlib
import json
import platform
import random
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:  # as a script, which finds its own folder only
    sys.path.insert(0, str(ROOT))

import torch  # noqa: E402

from bench.gpu import build, rows  # noqa: E402
from bench.gpu.cast_checks import cast_checks  # noqa: E402
from bench.gpu.check import Check, Outcome, Target, run_check, select  # noqa: E402
from bench.gpu.op_checks import operator_checks  # noqa: E402
from bench.gpu.scaler_checks import scaler_checks  # noqa: E402
from bench.harness import Effort  # noqa: E402
from bench.row import HEADER, Row  # noqa: E402

LIMIT = 590
BUDGETS = {"build": 300, "operators": 100, "steps": 60, "rows": 120}
"""Seconds a stage may take; a stage ends with the case or row that it is at."""
FULL = Effort(rounds=11, block_seconds=0.02, retries=1)
QUICK = Effort(rounds=2, block_seconds=0.001, retries=0, shrink=64)


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("bench/gpu_check.py", description="Checks ampcast's operators on a GPU.")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--dry-run", action="store_true", help="print what would be built, checked and measured")
    parser.add_argument("--no-build", action="store_true", help="check the ampcast that is importable")
    parser.add_argument("--filter", default="", help="only checks and rows whose name holds this, such as G1 or clip_")
    parser.add_argument("--quick", action="store_true", help="fewer cases; tiny rows without verdicts")
    parser.add_argument("--seed", type=int, help="of the random numbers; random by default, and printed")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write outcomes, rows and times here, too")
    return parser.parse_args(arguments)


class GpuCheck:
    """One run: what was asked for, and what came of it."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.target = Target(torch.device(arguments.device), arguments.quick)
        self.outcomes: list[Outcome] = []
        self.rows: list[Row] = []
        self.errors: list[str] = []
        self.seconds: dict[str, float] = {}
        self.seed = random.SystemRandom().randrange(2**32) if arguments.seed is None else arguments.seed
        torch.manual_seed(self.seed)

    def stages(self) -> dict[str, list[Check]]:
        operators = [*operator_checks(self.target), *cast_checks(self.target)]
        stages = {"operators": operators, "steps": scaler_checks(self.target)}
        return {stage: select(checks, self.arguments.filter) for stage, checks in stages.items()}

    def cases(self) -> list[rows.GpuCase]:
        return rows.select(self.arguments.filter)

    def print_plan(self) -> None:
        print("build" + (" (not with --no-build)" if self.arguments.no_build else ""))
        print(f"    {build.plan(self.target.device)}")
        for stage, checks in self.stages().items():
            print(f"{stage}, {sum(len(check.cases) for check in checks)} cases in {BUDGETS[stage]} s at most")
            for check in checks:
                print(f"    {check.plan()}{self.unless_cuda(check.needs_cuda)}")
        print(f"rows, in {BUDGETS['rows']} s at most{self.unless_cuda(True)}")
        for case in self.cases():
            print(f"    {case.plan()}")

    def unless_cuda(self, needs_cuda: bool) -> str:
        return "  (left out: needs CUDA)" if needs_cuda and not self.target.is_cuda else ""

    def run(self) -> int:
        print(", ".join(f"{name} {value}" for name, value in self.machine().items()), flush=True)
        if not self.start():
            return self.finish()
        for stage, checks in self.stages().items():
            self.run_checks(stage, checks)
        if self.target.is_cuda:
            self.measure_rows()
        elif self.cases():
            print(f"[rows] left out, they need CUDA: {', '.join(dict.fromkeys(case.name for case in self.cases()))}")
        return self.finish()

    def start(self) -> bool:
        """Build and import ampcast."""
        if self.target.is_cuda and not torch.cuda.is_available():
            self.report_error("torch finds no GPU here; run with --device cpu, or --dry-run")
            return False
        if not self.arguments.no_build:
            begin = time.monotonic()
            error = build.build(self.target.device, BUDGETS["build"])
            self.end_stage("build", begin)
            if error:
                self.report_error(error)
                return False
        print(f"ampcast from {importlib.import_module('ampcast').__path__[0]}", flush=True)
        return True

    def run_checks(self, stage: str, checks: list[Check]) -> None:
        begin = time.monotonic()
        for check in checks:
            outcome = run_check(check, self.target, begin + BUDGETS[stage])
            self.outcomes.append(outcome)
            print("\n".join(outcome.lines()), flush=True)
        self.end_stage(stage, begin)

    def measure_rows(self) -> None:
        begin = time.monotonic()
        print(HEADER, flush=True)
        for case, row in rows.measure(self.cases(), self.target.device, QUICK if self.target.quick else FULL):
            if isinstance(row, Exception):
                self.report_error(f"{case.name}: {type(row).__name__}: {row}")
            else:
                self.rows.append(row)
                print(row.line(), rows.rate_line(case, row), sep="\n", flush=True)
            if time.monotonic() > begin + BUDGETS["rows"]:
                self.report_error(f"no time for the rows after {case.name}")
                break
        self.end_stage("rows", begin)

    def end_stage(self, stage: str, begin: float) -> None:
        self.seconds[stage] = time.monotonic() - begin
        print(f"[{stage}] {self.seconds[stage]:.1f} s", flush=True)

    def report_error(self, error: str) -> None:
        self.errors.append(error)
        print(f"ERROR: {error}", flush=True)

    def finish(self) -> int:
        failed = [outcome.check.name for outcome in self.outcomes if outcome.is_failure]
        if self.arguments.json:
            self.arguments.json.write_text(json.dumps(self.to_dict(), indent=1))
        if not (self.outcomes or self.rows or self.errors):
            self.errors.append(f"no check's or row's name holds {self.arguments.filter!r}")
        for failure in (*failed, *self.errors):
            print(f"FAILED: {failure.splitlines()[0]}", file=sys.stderr)
        if not failed and not self.errors:
            print(f"all {len(self.outcomes)} checks passed", flush=True)
        return 1 if failed or self.errors else 0

    def machine(self) -> dict[str, Any]:
        cuda = self.target.is_cuda and torch.cuda.is_available()
        return {
            "torch": torch.__version__,
            "CUDA": torch.version.cuda,
            "device": torch.cuda.get_device_name() if cuda else self.target.device.type,
            "python": platform.python_version(),
            "seed": self.seed,
        }

    def to_dict(self) -> dict[str, Any]:
        return {
            "machine": self.machine(),
            "seconds": self.seconds,
            "checks": [outcome.to_dict() for outcome in self.outcomes],
            "rows": [row.to_dict() for row in self.rows],
            "errors": self.errors,
        }


def main(arguments: list[str] | None = None) -> int:
    check = GpuCheck(parse_arguments(arguments))
    if check.arguments.dry_run:
        check.print_plan()
        return 0
    return check.run()


if __name__ == "__main__":
    faulthandler.dump_traceback_later(LIMIT, exit=True)  # a kernel that hangs cannot be interrupted
    sys.exit(main())
