"""One of several processes that use a store at once: run as a script with a directory, a name and a count."""

from __future__ import annotations

import random
import sys
from pathlib import Path

from tests.support.snapshot_stores import CHUNK, load, local_store, save

SHARED = [random.Random(number).randbytes(CHUNK + number) for number in range(3)]


def main() -> None:
    """Save, read, forget and collect, beside others that do the same."""
    root, name, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    chance, store = random.Random(name), local_store(root)
    own: list[str] = []
    for number in range(count):
        stream, called = f"{name} {number}".encode(), f"{name}-{number}"
        roots = [chance.choice(SHARED), chance.randbytes(chance.choice([100, CHUNK, 70_000]))]
        save(store, stream, *roots, name=called)
        assert load(store, called) == (stream, roots)
        own.append(called)
        if len(own) > 3:
            store.forget(own.pop(chance.randrange(len(own))))
            store.gc(wait_seconds=chance.choice([0.0, 0.2]))
        again = chance.choice(own)
        assert load(store, again)[0].decode() == again.replace("-", " ")
    print(" ".join(own))


if __name__ == "__main__":
    main()
