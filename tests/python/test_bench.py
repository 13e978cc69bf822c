import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(not (ROOT / "bench").is_dir(), reason="the benchmarks are not beside the tests")
sys.path.insert(0, str(ROOT))

CASES = [
    *[
        "C1 unscale, op",
        "C1 unscale, scaler",
        "C2 unscale, op",
        "C2 unscale, op",
        "C3 unscale, op",
        "C3 unscale, op",
    ],
    *["C4 unscale, op", "C4 unscale, op", "C5 check only, op", "C5 check only, op", "C6 unscale, scaler"],
    *["C7 unscale and clip", "C7 unscale and clip, not due"],
    *["C8 unscale and clip", "C8 unscale and clip, not due"],
    *["C13 copy and cast, op", "C13 copy and cast, op"],
    *["C16 nothing to cast", "C16 cached parameter", "C16 op not listed"],
    *["C16 enter and leave", "C16 enter and leave, same instance"],
]


def row_of(ours, peer, goal, **floors):
    from bench.row import Row

    times = {"ours": ours, "peer": peer, **floors}
    return Row("C0", "fp32", "1 x 1", 1, "torch", goal, {name: np.array(seconds) for name, seconds in times.items()})


def test_quick_run_measures_every_row(tmp_path):
    command = [
        sys.executable,
        "-m",
        "bench",
        "--quick",
        "--threads",
        "1",
        "--json",
        str(tmp_path / "rows.json"),
    ]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    rows = json.loads((tmp_path / "rows.json").read_text())["rows"]
    assert [row["case"] for row in rows] == CASES
    assert [row for row in rows if row["ratio"] <= 0 or row["verdict"] != "-"] == []
    table = [line for line in run.stdout.splitlines() if " | " in line]
    assert [line.split(" | ")[0].strip() for line in table] == ["case", *CASES]
    assert {line.count("|") for line in table} == {12}


def test_goal_of_a_speedup_is_a_lower_bound_and_of_an_overhead_an_upper_one():
    from bench.row import Goal

    assert row_of([1.0] * 9, [3.0] * 9, Goal(3.0)).verdict() == "yes"
    assert row_of([1.0] * 9, [2.9] * 9, Goal(3.0)).verdict() == "no"
    assert row_of([1.03] * 9, [1.0] * 9, Goal(1.03, is_overhead=True)).verdict() == "yes"
    assert row_of([1.04] * 9, [1.0] * 9, Goal(1.03, is_overhead=True)).verdict() == "no"


def test_near_miss_at_the_floor_is_bound_by_the_machine():
    from bench.row import Goal

    assert row_of([1.0] * 9, [2.9] * 9, Goal(3.0), copy=[0.95] * 9).verdict() == "bound"
    assert row_of([1.0] * 9, [2.9] * 9, Goal(3.0), copy=[0.5] * 9).verdict() == "no"
    assert row_of([1.0] * 9, [2.0] * 9, Goal(3.0), copy=[0.95] * 9).verdict() == "no"
    overhead = Goal(1.03, is_overhead=True)  # the time without a region is no resource that runs out
    assert row_of([1.04] * 9, [1.0] * 9, overhead, bare=[1.0] * 9).verdict() == "no"


def test_no_verdict_without_nine_rounds_or_with_a_noisy_peer():
    from bench.row import Goal

    assert row_of([1.0] * 8, [3.0] * 8, Goal(3.0)).verdict() == "-"
    assert row_of([1.0] * 9, [3.0, 4.0, 5.0] * 3, Goal(3.0)).verdict() == "noisy"


def test_ours_and_peer_are_timed_in_turn_and_again_while_the_peer_is_noisy():
    from bench.harness import Effort, interleave

    calls = []
    peer_times = iter([1.0, 2.0, 3.0, 1.0, 1.0, 1.0])

    def ours():
        calls.append("ours")
        return 1.0

    def peer():
        calls.append("peer")
        return next(peer_times)

    times = interleave({"ours": ours, "peer": peer}, Effort(rounds=3))
    assert calls == ["ours", "peer"] * 6
    assert times["peer"].tolist() == [1.0, 1.0, 1.0]
