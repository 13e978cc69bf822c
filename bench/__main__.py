"""Measures the rows that the command line asks for, and prints a table."""

import argparse
import json
import os
import platform
import sys
from pathlib import Path

# Read by the OpenMP runtime when torch loads it: each thread stays on its core.
os.environ.setdefault("OMP_PROC_BIND", "true")
os.environ.setdefault("OMP_PLACES", "cores")
CORES = sorted(os.sched_getaffinity(0))

import torch  # noqa: E402

from bench import autocast_rows, scaler_rows  # noqa: E402
from bench.harness import Effort  # noqa: E402
from bench.row import HEADER, Row  # noqa: E402

QUICK = Effort(rounds=2, block_seconds=0.001, processes=1, retries=0, shrink=64)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench", description="Times ampcast against torch.")
    parser.add_argument("--filter", default="", help="only rows whose case holds this, such as C3 or scaler")
    parser.add_argument("--threads", type=int, help="of rows C1 to C8 and C13; by default 2, and 1 in one row")
    parser.add_argument("--rounds", type=int, default=Effort.rounds, help="a verdict needs 9")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, no verdicts: does every row run?")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write rows and times here, too")
    return parser.parse_args()


def machine() -> dict[str, str]:
    return {
        "torch": torch.__version__,
        "cpu capability": torch.backends.cpu.get_cpu_capability(),
        "cores": str(len(CORES)),
        "python": platform.python_version(),
        "load": "{:.1f} {:.1f} {:.1f}".format(*os.getloadavg()),
    }


def main() -> int:
    arguments = parse_arguments()
    effort = QUICK if arguments.quick else Effort(rounds=arguments.rounds)
    print(", ".join(f"{name} {value}" for name, value in machine().items()))
    print(HEADER, flush=True)
    rows: list[Row] = []
    for suite in (
        scaler_rows.measure(arguments.filter, arguments.threads, len(CORES), effort),
        autocast_rows.measure(arguments.filter, CORES[0], effort),
    ):
        for row in suite:
            rows.append(row)
            print(row.line(), flush=True)
    for row in rows:
        if row.goal.is_overhead:
            print(f"{row.case}: ours takes {row.difference() * 1e9:+.0f} ns a call")
    if arguments.json:
        report = {"machine": machine(), "rows": [row.to_dict() for row in rows]}
        arguments.json.write_text(json.dumps(report, indent=1))
    if not rows:
        print(f"no row's case holds {arguments.filter!r}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
