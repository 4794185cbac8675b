"""A training loop on the processor, turn by turn inside a lease and outside, in a process of its own.

Run as a script with what comes first ("inside" or "outside"), the number of rounds, and the passes over the
data in each turn: a small network learns scikit-learn's handwritten digits, in one thread. Prints one line of
JSON; every turn does the same work.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from sklearn.datasets import load_digits

import jupyter_gpupool


class Training:
    """The network and its data."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        digits = load_digits()
        self._images = torch.tensor(digits.data / 16, dtype=torch.float32)
        self._labels = torch.tensor(digits.target)
        layers = (torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
        self._network = torch.nn.Sequential(*layers)
        self._steps = torch.optim.Adam(self._network.parameters())

    def once(self) -> None:
        """Train with all of the data once."""
        for batch in torch.randperm(len(self._images)).split(64):
            self._steps.zero_grad()
            answers = self._network(self._images[batch])
            torch.nn.functional.cross_entropy(answers, self._labels[batch]).backward()
            self._steps.step()

    def right(self) -> float:
        """Return for which part of the data the network is right."""
        answers = self._network(self._images).argmax(1)
        return float((answers == self._labels).float().mean())


def turn(work: Callable[[], None], passes: int) -> dict[str, Any]:
    """Do the work so many times; return how long each took, and CPU time of all, seconds."""
    # one thread, whatever a lease allows: several that wait for each other measure what else the machine does
    torch.set_num_threads(1)
    taken, cpu = [], time.process_time()
    for _ in range(passes):
        started = time.perf_counter()
        work()
        taken.append(time.perf_counter() - started)
    return {"passes": taken, "cpu": time.process_time() - cpu}


def main() -> None:
    """Train inside a full-size lease of the processor and outside, in turn."""
    first, rounds, passes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    order = ("inside", "outside") if first == "inside" else ("outside", "inside")
    training, in_force = Training(), list[str]()
    turns: dict[str, list[dict[str, Any]]] = {"inside": [], "outside": []}
    turn(training.once, 3)  # what torch prepares once is not part of the loop
    for _ in range(rounds):
        for where in order:
            inside = where == "inside"
            with jupyter_gpupool.request(1.0, kind="cpu", wait="60s") if inside else nullcontext() as lease:
                turns[where].append(turn(training.once, passes))
                if lease is not None:
                    in_force = [f"{it.resource.value}: {it.mechanism} {it.limit}" for it in lease.isolation]
    print("GPUPOOL", json.dumps({**turns, "in_force": in_force, "right": training.right()}))


if __name__ == "__main__":
    main()
