"""Stores of snapshots for tests: saving and loading plain buffers, and files that fail when told to."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import msgspec

from jupyter_gpupool.state.errors import StateError
from jupyter_gpupool.state.model import Details, Environment, Manifest, Root, Segment, Variable
from jupyter_gpupool.state.store.files import Bytes, Files, Held, Listed, Sink, Source
from jupyter_gpupool.state.store.formats import seal_manifest
from jupyter_gpupool.state.store.local import LocalFiles, failed
from jupyter_gpupool.state.store.store import Store
from jupyter_gpupool.state.store.writer import Label, WriteOptions, Writer

KEY = bytes(range(32))
#: Small chunks, so that tests move little data.
CHUNK = 384 * 1024
SMALL = WriteOptions(chunk_bytes=CHUNK)
ENVIRONMENT = Environment(python="3.11.2", platform="Linux x86_64", packages={"numpy": "2.4.6"})


def local_store(root: Path, *, key: bytes = KEY, quota_bytes: int | None = None) -> Store:
    """Return the store of one owner in a directory."""
    return Store(LocalFiles(root), owner="ann", keys=[key], quota_bytes=quota_bytes)


def commit(
    writer: Writer, stream: bytes, roots: list[Bytes], name: str = "", *, automatic: bool = False
) -> Manifest:
    """Write a stream and buffers, as a capture does, and commit."""
    parts = [Segment(nbytes=len(stream), chunks=writer.put(stream))]
    held = [Root(nbytes=memoryview(root).nbytes, chunks=writer.put(root)) for root in roots]
    total = len(stream) + sum(root.nbytes for root in held)
    details = Details(variables=[Variable(name="x", type_name="int")], stream=parts, roots=held)
    label = Label(
        name=name,
        automatic=automatic,
        environment=ENVIRONMENT,
        total_bytes=total,
        count=1,
        notebook="a.ipynb",
    )
    return writer.commit(details, label)


def save(
    store: Store,
    stream: bytes = b"objects",
    *roots: Bytes,
    name: str = "",
    automatic: bool = False,
    options: WriteOptions | None = None,
) -> Manifest:
    """Save a stream and buffers as one snapshot."""
    with store.begin(options or SMALL) as writer:
        return commit(writer, stream, list(roots), name, automatic=automatic)


def load(store: Store, which: str, *, trust: bool = False) -> tuple[bytes, list[bytes]]:
    """Return the stream and the buffers of a snapshot."""
    with store.open(which, trust=trust) as reader:
        details = reader.details()
        with reader.stream(details.stream) as stream:
            return stream.read(), [reader.read(root.chunks) for root in details.roots]


def synthesize(root: Path, count: int) -> list[Manifest]:
    """Put manifests of small snapshots into a store without saving them one by one: their insides are one."""
    first = save(local_store(root), name="0")
    made = [
        msgspec.structs.replace(first, id=f"{int(first.id[:12], 16) + n:012x}{n:010x}", name=str(n))
        for n in range(1, count)
    ]
    for manifest in made:
        (root / "snapshots" / f"{manifest.id}.snapshot").write_bytes(seal_manifest(manifest, KEY))
    return [first, *made]


class Killed(BaseException):
    """Raised where a process would have been killed; nothing that it does afterwards has an effect."""


class FaultyFiles:
    """Local files that stop at a step: half of what is written at that step gets there.

    Parameters
    ----------
    root : Path
        The directory.
    step : int
        The number of the step that fails; steps are counted from 0, and none fails when it is negative.
    code : int
        The error of the file system that the step fails with; 0 to be killed instead.
    """

    punches = True

    def __init__(self, root: Path, *, step: int = -1, code: int = 0) -> None:
        self._files: Files = LocalFiles(root)
        self.address = self._files.address
        self.step, self.code, self.steps = step, code, 0
        self._dead = False

    def happen(self) -> bool:
        """Count one step, and say whether it is the one that fails."""
        if self._dead:
            raise Killed
        self.steps += 1
        return self.steps - 1 == self.step

    def fail(self) -> None:
        """Fail as the step has to."""
        if self.code:
            failed(OSError(self.code, errno.errorcode[self.code]), self.address)
        self._dead = True
        raise Killed

    def listing(self, folder: str) -> list[Listed]:
        return self._files.listing(folder)

    def read(self, path: str) -> bytes:
        return self._files.read(path)

    def open(self, path: str) -> Source:
        return self._files.open(path)

    def create(self, path: str) -> Sink:
        if self.happen():
            self.fail()
        return FaultySink(self, self._files.create(path))

    def put(self, path: str, data: bytes, *, lasting: bool = True) -> None:
        if self.happen():
            if not self.code:
                self._files.put(f"{path}-1-dead.part", data[: len(data) // 2])
            self.fail()
        self._files.put(path, data, lasting=lasting)

    def remove(self, path: str) -> None:
        if self.happen():
            self.fail()
        self._files.remove(path)

    def lock(self, *, shared: bool, wait_seconds: float) -> AbstractContextManager[Held]:
        return self._files.lock(shared=shared, wait_seconds=wait_seconds)

    def punch(self, path: str, ranges: list[tuple[int, int]]) -> bool:
        if self.happen():
            self._files.punch(path, ranges[: len(ranges) // 2])
            self.fail()
        return self._files.punch(path, ranges)

    def local_path(self, path: str) -> str | None:
        return self._files.local_path(path)


class FaultySink:
    """A new file of `FaultyFiles`."""

    def __init__(self, files: FaultyFiles, sink: Sink) -> None:
        self._files, self._sink = files, sink

    def write(self, data: Bytes) -> None:
        if self._files.happen():
            self._sink.write(memoryview(data)[: len(data) // 2])
            self._files.fail()
        self._sink.write(data)

    def finish(self) -> None:
        if self._files.happen():
            self._files.fail()
        self._sink.finish()

    def discard(self) -> None:
        self._files.happen()
        self._sink.discard()


@contextmanager
def stopped() -> Iterator[None]:
    """Swallow what a failing step raises, as the end of a process does."""
    with suppress(Killed, StateError):
        yield
