"""A training on a session cluster that says how far it is, and one of whose ranks can be killed on its way.

As a program, with a folder, an address of this machine that the workers reach, and a number of epochs, it
trains on two workers of a cluster of its own, and prints the loss at the end.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from jupyter_gpupool.sessions.training import Rank, train

BATCH = 32


def work(rank: Rank, folder: str, kill_at: int) -> float:
    """Train some epochs of handwritten digits; once, at the epoch ``kill_at``, the second rank is killed."""
    import torch
    from sklearn.datasets import load_digits
    from torch.nn.parallel import DistributedDataParallel

    place = Path(folder)
    torch.set_num_threads(1)
    images, labels = load_digits(return_X_y=True)
    images, labels = torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels)
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    model = DistributedDataParallel(network)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    trained = 0
    if (place / "saved.pt").exists():
        saved = torch.load(place / "saved.pt", weights_only=True)
        network.load_state_dict(saved["network"])
        optimizer.load_state_dict(saved["optimizer"])
        trained = saved["epochs"]
    for epoch in range(max(trained, rank.first_epoch), rank.last_epoch + 1):
        if epoch == kill_at and rank.rank == 1 and not (place / "killed").exists():
            (place / "killed").write_text(str(time.time()))
            os.kill(os.getpid(), signal.SIGKILL)
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(epoch))
        for batch in order[: len(images) // BATCH * BATCH].split(BATCH):
            optimizer.zero_grad()
            mine = batch[rank.rank :: rank.world_size]
            torch.nn.functional.cross_entropy(model(images[mine]), labels[mine]).backward()
            optimizer.step()
        if rank.rank == 0:
            with (place / "progress").open("a") as file:
                file.write(json.dumps([epoch, time.time()]) + "\n")
    if rank.rank == 0:
        state = {"network": network.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save({**state, "epochs": rank.last_epoch + 1}, place / "saved.new")
        (place / "saved.new").replace(place / "saved.pt")
    with torch.no_grad():
        return float(torch.nn.functional.cross_entropy(network(images), labels))


def run(cluster: Any, client: Any, folder: str, *, epochs: int, save_every: int, kill_at: int = -1) -> float:
    """Train with two workers, and return the loss at the end."""
    losses = train(
        *(cluster, client, work, folder, kill_at),
        epochs=epochs,
        policy=lambda *_: 2,
        save_every=save_every,
    )
    return float(losses[-1])


def progress(folder: Path) -> list[tuple[int, float]]:
    """Return which epochs have ended when."""
    path = folder / "progress"
    lines = path.read_text().splitlines() if path.exists() else []
    return [(epoch, when) for epoch, when in map(json.loads, lines)]


def past(folder: Path, epoch: int, since: float) -> float | None:
    """Return when an epoch ended after some time; None while it has not."""
    return next((when for it, when in progress(folder) if it == epoch and when > since), None)


def main(folder: str, host: str, epochs: str) -> None:
    """Train on workers that may be on any node."""
    from dask.distributed import Client

    from jupyter_gpupool import GPUPoolCluster
    from tests.support import resumed_training

    with GPUPoolCluster(share=0.6, host=host) as cluster, Client(cluster) as client:
        print(resumed_training.run(cluster, client, folder, epochs=int(epochs), save_every=2))
        print("\n".join(cluster.troubles))


if __name__ == "__main__":
    main(*sys.argv[1:])
