"""A training loop on the processor, in a process of its own, inside a lease or outside.

Run as a script with "inside" or "outside" and the number of passes over the data: a small network learns
scikit-learn's handwritten digits, in one thread. Prints one line of JSON; both ways do the same work.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import ExitStack


def train(passes: int) -> dict[str, float]:
    """Train, and return how well the network does afterwards, and what it took, seconds.

    ``wall`` and ``cpu`` are of the whole loop; ``quiet`` is of one pass, the tenth percentile of them: what
    else the machine does hardly reaches it.
    """
    import torch
    from sklearn.datasets import load_digits  # type: ignore[import-untyped]

    torch.manual_seed(0)
    # one thread: several that wait for each other measure whatever else the machine does
    torch.set_num_threads(1)
    digits = load_digits()
    images = torch.tensor(digits.data / 16, dtype=torch.float32)
    labels = torch.tensor(digits.target)
    layers = (torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
    network = torch.nn.Sequential(*layers)
    steps = torch.optim.Adam(network.parameters())

    def epoch() -> None:
        for batch in torch.randperm(len(images)).split(64):
            steps.zero_grad()
            torch.nn.functional.cross_entropy(network(images[batch]), labels[batch]).backward()
            steps.step()

    epoch()  # what torch prepares once is not part of the loop
    taken, cpu = [], time.process_time()
    for _ in range(passes):
        started = time.perf_counter()
        epoch()
        taken.append(time.perf_counter() - started)
    cpu = time.process_time() - cpu
    right = (network(images).argmax(1) == labels).float().mean().item()
    return {"wall": sum(taken), "quiet": sorted(taken)[passes // 10], "cpu": cpu, "right": right}


def main() -> None:
    """Train inside a full-size lease of the processor, or outside."""
    with ExitStack() as stack:
        in_force = []
        if sys.argv[1] == "inside":
            import jupyter_gpupool

            lease = stack.enter_context(jupyter_gpupool.request(1.0, kind="cpu", wait="60s"))
            in_force = [f"{it.resource.value}: {it.mechanism} {it.limit}" for it in lease.isolation]
        print("GPUPOOL", json.dumps({**train(int(sys.argv[2])), "in_force": in_force}))


if __name__ == "__main__":
    main()
