"""Trains one small network on handwritten digits in float32, bfloat16 and float16, in Python and in C++.

Prints a table, draws the loss and the scale over time, and checks that ampcast's bfloat16 run has torch.autocast's bits.
"""

import argparse
import contextlib
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from report import Run, draw, print_table
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.jit._pickle import restore_type_tag
from tqdm import tqdm

import ampcast

BATCH = 64
GROWTH_INTERVAL = 50  # steps; short, so that a short training sees the scale grow
SPIKE_STEP = 125  # here the fp16 runs multiply one loss by SPIKE, on purpose
SPIKE = 2.0**20
WARM_UP = 10  # untimed steps before each run: the first ones choose and compile kernels


@dataclass(frozen=True)
class Way:
    """One way of training: its name, its autocast region, and whether losses are scaled."""

    name: str
    region: Callable[[], contextlib.AbstractContextManager]
    scaled: bool = False


WAYS = [
    Way("fp32", contextlib.nullcontext),
    Way("torch.autocast bf16", lambda: torch.autocast("cpu", dtype=torch.bfloat16)),
    Way("ampcast bf16", lambda: ampcast.autocast("cpu", dtype=torch.bfloat16)),
    Way("ampcast fp16", lambda: ampcast.autocast("cpu", dtype=torch.float16), scaled=True),
]


def make_model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))


def make_task(epochs: int) -> dict[str, Tensor]:
    """Return all that a run starts from, for Python and C++ alike: data, order of batches, initial weights."""
    torch.manual_seed(0)
    digits = load_digits()
    split = train_test_split(digits.data / 16, digits.target, test_size=0.25, stratify=digits.target, random_state=0)
    train_images, test_images, train_labels, test_labels = (torch.as_tensor(part) for part in split)
    rows = len(train_labels) // BATCH * BATCH
    order = torch.cat([torch.randperm(len(train_labels))[:rows] for _ in range(epochs)])
    return {
        "train_images": train_images.float(),
        "train_labels": train_labels,
        "test_images": test_images.float(),
        "test_labels": test_labels,
        "batches": order.view(-1, BATCH),
        **make_model().state_dict(),
    }


class Trainer:
    """A model in its first state, and what trains it in one way."""

    def __init__(self, way: Way, task: dict[str, Tensor]) -> None:
        self.way = way
        self.model = make_model()
        self.model.load_state_dict({name: task[name] for name in self.model.state_dict()})
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.scaler = ampcast.GradScaler("cpu", growth_interval=GROWTH_INTERVAL, enabled=way.scaled)

    def step(self, images: Tensor, labels: Tensor, spike: float) -> float:
        self.optimizer.zero_grad(set_to_none=True)
        with self.way.region():
            logits = self.model(images)
        loss = F.cross_entropy(logits.float(), labels)  # in float32: a float16 loss could not hold the scale
        self.scaler.scale(loss * spike).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.item()

    @torch.no_grad()
    def accuracy(self, images: Tensor, labels: Tensor) -> float:
        with self.way.region():
            logits = self.model(images)
        return (logits.argmax(1) == labels).float().mean().item()


def train(way: Way, task: dict[str, Tensor], batches: Tensor, progress: tqdm) -> Run:
    trainer = Trainer(way, task)
    losses, scales = [], [trainer.scaler.get_scale()]
    start = time.perf_counter()
    for step, batch in enumerate(batches):
        spike = SPIKE if way.scaled and step == SPIKE_STEP else 1.0
        losses.append(trainer.step(task["train_images"][batch], task["train_labels"][batch], spike))
        scales.append(trainer.scaler.get_scale())
        progress.update()
    seconds = time.perf_counter() - start
    accuracy = trainer.accuracy(task["test_images"], task["test_labels"])
    return Run(way.name, torch.tensor(losses), torch.tensor(scales), accuracy, seconds, way.scaled)


def train_in_python(task: dict[str, Tensor]) -> list[Run]:
    runs = []
    with tqdm(total=len(WAYS) * len(task["batches"]), unit="step") as progress:
        for way in WAYS:
            progress.set_description(f"{way.name:20}")
            with tqdm(disable=True) as silent:
                train(way, task, task["batches"][:WARM_UP], silent)
            runs.append(train(way, task, task["batches"], progress))
    return runs


def train_in_cpp(program: Path, task: dict[str, Tensor], folder: Path) -> list[Run]:
    """Hand `task` to the C++ program in a file and return the runs that it writes to another."""
    torch.save(task, folder / "task.pt")
    subprocess.run([program, folder / "task.pt", folder / "cpp_runs.pt"], check=True)
    with torch.serialization.safe_globals([restore_type_tag]):  # C++ tags the types of dicts
        results = torch.load(folder / "cpp_runs.pt")
    return [
        Run(
            f"{name}, C++",
            run["losses"],
            run["scales"],
            run["accuracy"].item(),
            run["seconds"].item(),
            name == "ampcast fp16",
        )
        for name, run in results.items()
    ]


def check_same_bits(runs: list[Run], name: str, reference: str) -> None:
    losses = {run.name: run.losses for run in runs}
    if not torch.equal(losses[name], losses[reference]):
        raise SystemExit(f"demo: {name} and {reference} must have the same losses, bit for bit, and have not")
    print(f"same bits in all {len(losses[name])} losses: {name} = {reference}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=20, help="passes over the training data (default: 20)")
    parser.add_argument("--cpp-program", type=Path, help="the built demo/cpp program; without it only Python trains")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "out", help="folder for what is written")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)

    torch.set_num_threads(1)  # fastest for a network this small
    task = make_task(arguments.epochs)
    runs = train_in_python(task)
    if arguments.cpp_program:
        runs += train_in_cpp(arguments.cpp_program, task, arguments.output)
    print_table(runs)
    check_same_bits(runs, "ampcast bf16", "torch.autocast bf16")
    if arguments.cpp_program:
        for name in ("fp32", "ampcast bf16", "ampcast fp16"):
            check_same_bits(runs, f"{name}, C++", name)
    draw(runs, SPIKE_STEP, arguments.output / "digits.png")
    print(f"loss and scale over time: {arguments.output / 'digits.png'}")


if __name__ == "__main__":
    main()
