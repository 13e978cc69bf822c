"""`bench/gpu_check.py`, as far as a machine without a GPU can run it."""

import dataclasses
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import ampcast  # noqa: F401  (registers the operators)

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(not (ROOT / "bench").is_dir(), reason="the benchmarks are not beside the tests")
sys.path.insert(0, str(ROOT))

OPS = ["check_finite_", "unscale_", "unscale_norm_", "clip_", "update_scale_", "copy_cast_"]
ROWS = ["G1", "G2", "G3", "G4", "G5", "G6", "G8", "G9", "G12"]


def run_script(*arguments: str, module: bool = False) -> subprocess.CompletedProcess[str]:
    script = ["-m", "bench.gpu_check"] if module else ["bench/gpu_check.py"]
    path = os.pathsep.join(path for path in sys.path if path and path != str(ROOT))
    # Threads that wait for each other on a busy machine would take most of the time.
    env = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *script, *arguments]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)


@pytest.mark.parametrize("module", [False, True])
def test_dry_run_names_the_build_every_operator_and_every_row(module: bool) -> None:
    run = run_script("--dry-run", module=module)
    assert run.returncode == 0, run.stderr
    assert "-DAMPCAST_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=" in run.stdout
    assert "setup.py --quiet build_ext --inplace" in run.stdout
    words = run.stdout.replace(":", " ").split()
    assert [name for name in (*OPS, *ROWS) if name not in words] == []
    assert "171, 156661760 in all" in run.stdout


def test_checks_pass_on_the_cpu(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    run = run_script("--device", "cpu", "--no-build", "--quick", "--json", str(report))
    assert run.returncode == 0, run.stdout + run.stderr
    checks = json.loads(report.read_text())["checks"]
    left_out = {check["check"] for check in checks if check["verdict"] != "ok"}
    assert {name.split()[0] for name in left_out} == {"G8", "stream:"}
    assert all(check["cases"] for check in checks if check["check"] not in left_out)
    assert "[rows] left out, they need CUDA: G1 " in run.stdout


def test_filter_that_holds_nothing_and_a_missing_gpu_are_errors() -> None:
    run = run_script("--device", "cpu", "--no-build", "--filter", "no such check")
    assert run.returncode == 1
    assert "no check's or row's name holds 'no such check'" in run.stderr
    if not torch.cuda.is_available():
        run = run_script("--no-build")
        assert run.returncode == 1
        assert "run with --device cpu, or --dry-run" in run.stderr


# Planted faults

ops = torch.ops.ampcast
check_finite_, unscale_, unscale_norm_ = ops.check_finite_, ops.unscale_, ops.unscale_norm_
clip_, update_scale_, copy_cast_ = ops.clip_, ops.update_scale_, ops.copy_cast_


def unscale_writes_behind_the_end(grads: Any, found_inf: Any, inv_scale: Any) -> None:
    unscale_(grads, found_inf, inv_scale)
    for grad in grads:
        if grad.dim() == 1 and grad.numel() % 4 == 1:
            grad.as_strided((4,), (1,), grad.storage_offset() + grad.numel()).mul_(inv_scale)


def unscale_reads_behind_the_end(grads: Any, found_inf: Any, inv_scale: Any) -> None:
    longer = [g.as_strided((g.numel() + 2,), (1,), g.storage_offset()) if g.dim() == 1 else g for g in grads]
    check_finite_(longer, found_inf, inv_scale)
    unscale_(grads, found_inf, inv_scale)


def unscale_forgets_the_flag_of_the_last(grads: Any, found_inf: Any, inv_scale: Any) -> None:
    unscale_(grads, torch.zeros_like(found_inf), inv_scale)
    check_finite_([grad.flatten()[:-1] for grad in grads], found_inf, None)


def unscale_drops_complex_parts(grads: Any, found_inf: Any, inv_scale: Any) -> None:
    unscale_([grad.real if grad.is_complex() else grad for grad in grads], found_inf, inv_scale)


def check_finite_ignores_the_scale(grads: Any, found_inf: Any, inv_scale: Any) -> None:
    check_finite_(grads, found_inf, None)


def norm_in_float32(grads: Any, found_inf: Any, inv_scale: Any, norm: Any, norm_type: float = 2.0) -> None:
    unscale_norm_(grads, found_inf, inv_scale, norm, norm_type)
    if norm_type == 2.0:
        norm.copy_(norm.square().sqrt() * (1 + 2.0**-20))


def norm_differs_from_call_to_call(grads: Any, found_inf: Any, inv_scale: Any, norm: Any, _: float = 2.0) -> None:
    unscale_norm_(grads, found_inf, inv_scale, norm)
    norm.mul_(1 + torch.randint(3, ()) * 2.0**-23)


def clip_always_clips(grads: Any, norm: Any, max_norm: float) -> None:
    clip_(grads, norm, max_norm)
    if norm < max_norm < math.inf:
        torch._foreach_mul_(grads, 2.0)


def update_grows_a_step_late(
    scale: Any, tracker: Any, found_inf: Any, growth: float, backoff: float, interval: int
) -> None:
    update_scale_(scale, tracker, found_inf, growth, backoff, interval + 1)


def copy_cast_truncates(dst: Any, src: Any) -> None:
    copy_cast_(dst, src)
    for to, of in zip(dst, src, strict=True):
        if to.dtype == torch.bfloat16 and of.dtype == torch.float32 and to.is_contiguous():
            to.view(torch.int16).copy_(of.contiguous().view(torch.int32) >> 16)


FAULTS = [
    ("unscale_", unscale_writes_behind_the_end, "unscale_: dtypes and sizes"),
    ("unscale_", unscale_reads_behind_the_end, "unscale_: dtypes and sizes"),
    ("unscale_", unscale_forgets_the_flag_of_the_last, "unscale_: dtypes and sizes"),
    ("unscale_", unscale_drops_complex_parts, "unscale_: strides"),
    ("check_finite_", check_finite_ignores_the_scale, "check_finite_: lists"),
    ("unscale_norm_", norm_in_float32, "unscale_norm_: large numbers"),
    ("unscale_norm_", norm_differs_from_call_to_call, "unscale_norm_: same bits again"),
    ("clip_", clip_always_clips, "clip_: strides"),
    ("update_scale_", update_grows_a_step_late, "update_scale_: in lockstep with torch"),
    ("copy_cast_", copy_cast_truncates, "copy_cast_: dtypes and sizes"),
]


@pytest.mark.parametrize(("op", "fault", "check"), FAULTS)
def test_planted_fault_fails_its_check(
    op: str, fault: Callable[..., None], check: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from bench import gpu_check

    monkeypatch.setattr(torch.ops.ampcast, op, fault)
    arguments = ["--device", "cpu", "--no-build", "--quick", "--filter", check]
    assert gpu_check.main(arguments) == 1
    assert f"FAILED: {check}" in capsys.readouterr().err
    monkeypatch.undo()
    assert gpu_check.main(arguments) == 0


def test_graph_that_replays_something_else_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from bench import gpu_check
    from bench.gpu import scaler_checks

    monkeypatch.setattr(scaler_checks, "capture", lambda call, device: lambda: None)
    assert gpu_check.main(["--device", "cpu", "--no-build", "--quick", "--filter", "graph: "]) == 1


def test_check_out_of_time_is_a_failure() -> None:
    from bench.gpu.check import Check, Target, run_check

    check = Check("slow", "unscale_", [1, 2], lambda case: None)
    outcome = run_check(check, Target(torch.device("cpu")), deadline=0.0)
    assert outcome.is_failure and outcome.verdict == "FAILED: out of time"


def test_build_that_fails_or_takes_too_long_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from bench.gpu import build

    cpu = torch.device("cpu")
    script = "import os, sys; print('what', os.environ['AMPCAST_CMAKE_ARGS']); sys.exit(3)"
    monkeypatch.setattr(build, "COMMAND", (sys.executable, "-c", script))
    assert build.build(cpu, 60.0) == "the build failed:\nwhat -DAMPCAST_CUDA=OFF\n"
    monkeypatch.setattr(build, "COMMAND", (sys.executable, "-c", "import time; time.sleep(600)"))
    assert build.build(cpu, 0.1) == "the build takes more than 0 s"
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(build, "COMMAND", (sys.executable, "-c", ""))
    assert build.build(cpu, 60.0) == ""
    assert sys.path[0] == str(ROOT / "python")


# Timing


def test_block_makes_as_many_calls_as_fill_its_time() -> None:
    from bench.gpu.clocks import block
    from bench.harness import Effort

    class StoppedClock:
        max_calls = 100
        blocks: list[int] = []

        def seconds(self, call: Callable[[], object], calls: int) -> float:
            self.blocks.append(calls)
            return 0.25 if len(self.blocks) == 1 else 0.0005  # the first call warms up

    clock = StoppedClock()
    assert block(lambda: None, clock, Effort(block_seconds=0.02))() == 0.0005
    assert clock.blocks == [1, 1, 40, 40]
    clock.blocks.clear()
    block(lambda: None, clock, Effort(block_seconds=1.0))()
    assert clock.blocks[-1] == 100


def test_host_clock_waits_before_and_behind_what_it_times() -> None:
    from bench.gpu.clocks import HostClock

    for waits in (False, True):
        log: list[str] = []
        clock = HostClock(lambda log=log: log.append("wait"), waits)
        assert clock.seconds(lambda log=log: log.append("call"), 2) > 0
        assert log == ["wait", "call", "call", *["wait"] * (1 + waits)]


def test_device_clock_takes_the_time_between_two_events_around_the_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    from bench.gpu.clocks import DeviceClock

    log: list[str] = []

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            log.append("record")

        def synchronize(self) -> None:
            log.append("wait")

        def elapsed_time(self, end: "Event") -> float:
            assert self is not end
            return 6.0  # milliseconds

    monkeypatch.setattr(torch.cuda, "Event", Event)
    assert DeviceClock().seconds(lambda: log.append("call"), 3) == pytest.approx(0.002)
    assert log == ["record", "call", "call", "call", "record", "wait"]


def test_table_holds_rows_rates_and_errors(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from bench import gpu_check
    from bench.gpu import rows

    def fails(_: Any) -> Any:
        raise RuntimeError("out of memory")

    broken = dataclasses.replace(rows.CASES[0], name="G0", work=dataclasses.replace(rows.UNSCALE, calls=fails))
    small = next(case for case in rows.CASES if case.name == "G4 unscale, op, device time")
    monkeypatch.setattr(rows, "CASES", (broken, small))
    check = gpu_check.GpuCheck(gpu_check.parse_arguments(["--device", "cpu", "--quick", "--filter", "G"]))
    check.measure_rows()
    assert check.finish() == 1
    header, error, row, rate, _ = capsys.readouterr().out.splitlines()
    assert header.startswith("case ") and row.startswith("G4 unscale, op, device time ")
    assert error == "ERROR: G0: RuntimeError: out of memory"
    assert "GB/s, copy " in rate
    assert [row["case"] for row in check.to_dict()["rows"]] == [small.name]


def test_every_row_can_be_measured_in_small_on_the_cpu() -> None:
    from bench.gpu import rows
    from bench.harness import Effort

    effort = Effort(rounds=2, block_seconds=1e-4, retries=0, shrink=4000)
    measured = list(rows.measure(rows.CASES, torch.device("cpu"), effort))
    assert [row for _, row in measured if isinstance(row, Exception)] == []
    assert [case.name for case, _ in measured] == [case.name for case in rows.CASES]
    for case, row in measured:
        assert (rows.rate_line(case, row) != "") == ("copy" in row.times)
        assert row.line().count(" | ") == 12


def test_trace_counts_what_the_range_started_and_nothing_else() -> None:
    from bench.gpu.trace import RANGE, Counts, counts_of

    def runtime(name: str, ts: float, correlation: int) -> dict[str, Any]:
        return {"cat": "cuda_runtime", "name": name, "ts": ts, "dur": 1.0, "args": {"correlation": correlation}}

    def device(cat: str, name: str, correlation: int) -> dict[str, Any]:
        return {"cat": cat, "name": name, "ts": 500.0, "dur": 1.0, "args": {"correlation": correlation}}

    events = [
        {"ph": "M", "name": "process_name"},
        {"cat": "user_annotation", "name": RANGE, "ts": 100.0, "dur": 50.0},
        {"cat": "gpu_user_annotation", "name": RANGE, "ts": 500.0, "dur": 5.0},
        {"cat": "gpu_user_annotation", "name": "ampcast::step", "ts": 500.0, "dur": 5.0},
        *[runtime("cudaLaunchKernel", 110.0, 1), runtime("cudaMemsetAsync", 111.0, 2)],
        *[runtime("cudaMemcpyAsync", 112.0, 3), runtime("cudaStreamSynchronize", 113.0, 4)],
        *[runtime("cudaMemcpyAsync", 114.0, 5), runtime("cudaLaunchKernel", 90.0, 6)],
        *[runtime("cudaDeviceSynchronize", 160.0, 7), runtime("cudaLaunchKernel", 161.0, 8)],
        *[device("kernel", "visit", 1), device("gpu_memset", "Memset (Device)", 2)],
        *[device("gpu_memcpy", "Memcpy DtoH", 3), device("gpu_memcpy", "Memcpy HtoD", 5)],
        *[device("kernel", "before", 6), device("kernel", "behind", 8)],
    ]
    assert counts_of({"traceEvents": events}) == Counts(kernels=1, fills=1, copies_to_host=1, waits=1)
    with pytest.raises(RuntimeError, match="CUPTI"):
        counts_of({"traceEvents": events[:3]})


def test_range_of_a_real_trace_is_found() -> None:
    from bench.gpu import trace

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        with torch.profiler.record_function(trace.RANGE):
            torch.ones(3).sum()
    with pytest.raises(RuntimeError, match="the profiler recorded no call of CUDA's runtime"):
        trace.counts_of(trace.exported(profiler))
