"""Trains a network on handwritten digits with as many workers as the progress of the training needs."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from dask.distributed import Client

from jupyter_gpupool import GPUPoolCluster
from jupyter_gpupool.sessions.training import Policy, Rank, by_progress, train

BATCH = 128  # of all ranks together, so that their number does not change what is computed


def work(rank: Rank, checkpoint: str) -> float:
    """Train some epochs, from the last checkpoint to the next."""
    import torch
    from sklearn.datasets import load_digits
    from torch.nn.parallel import DistributedDataParallel

    images, labels = load_digits(return_X_y=True)
    images, labels = torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels)
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    model = DistributedDataParallel(network)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    trained = 0
    if Path(checkpoint).exists():
        saved = torch.load(checkpoint, weights_only=True)
        network.load_state_dict(saved["network"])
        optimizer.load_state_dict(saved["optimizer"])
        trained = saved["epochs"]
    for epoch in range(max(trained, rank.first_epoch), rank.last_epoch + 1):
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(epoch))
        for batch in order[: len(images) // BATCH * BATCH].split(BATCH):
            mine = batch[rank.rank :: rank.world_size]
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(images[mine]), labels[mine]).backward()
            optimizer.step()
    if rank.rank == 0:
        state = {"network": network.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save({**state, "epochs": rank.last_epoch + 1}, f"{checkpoint}.new")
        Path(f"{checkpoint}.new").replace(checkpoint)  # at once and whole, whoever dies meanwhile
    with torch.no_grad():
        return float(torch.nn.functional.cross_entropy(network(images), labels))


def losses(policy: Policy, epochs: int, share: float, kind: Any = None) -> list[float]:
    """Train with a policy, and return the loss at the end of each run of epochs."""
    with (
        tempfile.TemporaryDirectory() as place,
        GPUPoolCluster(share=share, kind=kind) as cluster,
        Client(cluster) as client,
    ):
        checkpoint = str(Path(place) / "checkpoint.pt")
        return train(cluster, client, work, checkpoint, epochs=epochs, policy=policy)


if __name__ == "__main__":
    total = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    base = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    elastic = losses(by_progress(base), total, share=0.2, kind="cpu")
    fixed = losses(lambda epoch, epochs: base, total, share=0.2, kind="cpu")
    print(f"by progress {elastic[-1]:.4f}, with {base} all the time {fixed[-1]:.4f}")
