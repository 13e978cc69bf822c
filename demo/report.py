"""What the demo shows of its runs: a table and a picture."""

from dataclasses import dataclass
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from rich.console import Console
from rich.table import Table
from torch import Tensor

matplotlib.use("Agg")

LAST_STEPS = 21  # the loss in the table is the mean over these: one epoch
SMOOTH_STEPS = 11
# Colour and width: a thin line on a wide one shows that two runs are the same.
LINES = [("#404040", 1.5), ("#f2b134", 5), ("#1f6fb4", 1.5), ("#3a9a5b", 1.5)]
SCALE_LINES = [("#a8d5b5", 5), ("#1f6f3a", 1.5)]


@dataclass(frozen=True)
class Run:
    """One finished training: its losses, one a step, and its scales, the first one and one after each step."""

    name: str
    losses: Tensor
    scales: Tensor
    accuracy: float
    seconds: float
    scaled: bool

    def skipped_steps(self) -> list[int]:
        """Return the steps after which the scale backed off, which are the ones whose gradients overflowed."""
        return (self.scales[1:] < self.scales[:-1]).nonzero().flatten().tolist()


def print_table(runs: list[Run]) -> None:
    table = Table(title="Handwritten digits, 1347 to train on and 450 to test on")
    table.add_column("run", no_wrap=True)
    for title in ("loss", "accuracy", "seconds", "skipped", "final scale"):
        table.add_column(title, justify="right")
    for run in runs:
        table.add_row(
            run.name,
            f"{run.losses[-LAST_STEPS:].mean():.5f}",
            f"{100 * run.accuracy:.1f} %",
            f"{run.seconds:.2f}",
            f"{len(run.skipped_steps())} of {len(run.losses)}" if run.scaled else "-",
            f"{run.scales[-1]:.0f}" if run.scaled else "-",
        )
    Console().print(table)


def draw(runs: list[Run], spike_step: int, path: Path) -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.5), layout="constrained")
    draw_losses(left, [run for run in runs if not run.name.endswith("C++")])
    draw_scales(right, [run for run in runs if run.scaled], spike_step)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def draw_losses(axes: Axes, runs: list[Run]) -> None:
    for run, (color, width) in zip(runs, LINES, strict=True):
        smooth = run.losses.unfold(0, SMOOTH_STEPS, 1).mean(1)
        axes.plot(range(SMOOTH_STEPS - 1, len(run.losses)), smooth, color=color, linewidth=width, label=run.name)
    axes.set(title="Training loss", xlabel="step", ylabel=f"loss, mean of {SMOOTH_STEPS} steps", yscale="log")
    axes.grid(alpha=0.3)
    axes.legend()


def draw_scales(axes: Axes, runs: list[Run], spike_step: int) -> None:
    for run, (color, width) in zip(runs, SCALE_LINES, strict=False):
        axes.step(range(len(run.scales)), run.scales, where="post", color=color, linewidth=width, label=run.name)
    skipped = runs[0].skipped_steps()
    axes.plot(skipped, runs[0].scales[skipped], "v", color="#c1272d", label="gradients overflow: step skipped")
    axes.axvline(spike_step, color="#c1272d", linewidth=1, linestyle=":", label="overflow provoked on purpose")
    axes.set(title="Scale of the loss", xlabel="step", ylabel="scale")
    axes.set_yscale("log", base=2)
    axes.grid(alpha=0.3)
    axes.legend()
