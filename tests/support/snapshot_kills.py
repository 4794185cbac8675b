"""A process whose children save snapshots, and are killed: run as a script with a directory and a number.

It is a process of its own because it forks, which a process with threads should not.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

from jupyter_gpupool.state.store.store import Store
from tests.support.snapshot_stores import CHUNK, load, local_store, save

SHARED = random.Random(1).randbytes(CHUNK + 100)
#: A save takes some milliseconds; each child is killed within this time, seconds.
LONGEST_SECONDS = 0.25


def content(number: int) -> bytes:
    """Return what the snapshot with a number holds."""
    return random.Random(number).randbytes(CHUNK + number % 50_000)


def work(root: Path, first: int, told: int) -> None:
    """Save snapshots until killed; tell the number of each that was committed."""
    store = local_store(root)
    for number in range(first, first + 1000):
        save(store, b"%d" % number, SHARED, content(number), name=str(number))
        os.write(told, b"%d\n" % number)
        if number % 3 == 2:
            store.forget(str(number - 2))
            os.write(told, b"-%d\n" % (number - 2))
            store.gc(wait_seconds=0)


def kill_one(root: Path, first: int, chance: random.Random) -> tuple[set[int], int]:
    """Let a child save for a moment and kill it; return the numbers that stay, and the next number."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        work(root, first, write)
        os._exit(1)
    os.close(write)
    time.sleep(chance.uniform(0, LONGEST_SECONDS))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(read) as told:
        lines = [int(line) for line in told if line.endswith("\n")]
    kept = {number for number in lines if number > 0}
    # One is not told yet and may be there; one that is being forgotten may be gone.
    return kept - {-number for number in lines if number < 0}, max([first, *kept]) + 2


def check(store: Store, kept: set[int], possibly_gone: int) -> None:
    """Fail unless every snapshot that was committed is there and whole."""
    there = {int(manifest.name) for manifest in store.list()}
    assert kept - there <= {possibly_gone}, f"lost: {kept - there}"
    assert store.damaged() == {}
    for number in there:
        assert load(store, str(number)) == (b"%d" % number, [SHARED, content(number)]), number


def main() -> None:
    """Kill as often as was asked for."""
    root, kills = Path(sys.argv[1]), int(sys.argv[2])
    chance, number = random.Random(3), 3
    committed = 0
    for _ in range(kills):
        number += -number % 3
        kept, after = kill_one(root, number, chance)
        committed += len(kept)
        store = local_store(root)
        # The last third of numbers may have been in the middle of being forgotten.
        check(store, kept, possibly_gone=max(kept, default=0) - 2)
        number = after
        for manifest in store.list()[4:]:
            store.forget(manifest.id)
    store = local_store(root)
    collected = store.gc()
    assert collected.reason == "", collected.reason
    assert store.verify() == []
    assert not list(root.rglob("*.part"))
    needed = {path.stem for path in root.glob("packs/*.pack")}
    assert needed == {path.stem.rpartition("-")[0] for path in root.glob("packs/*.index")}
    print(f"{kills} kills, {committed} committed, {len(store.list())} there")


if __name__ == "__main__":
    main()
