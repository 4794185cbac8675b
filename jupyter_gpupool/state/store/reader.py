"""Reading one snapshot.

Rules of this module: nothing is given out that was not compared with its hash, but for what is mapped;
nothing of the snapshot is executed.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from types import TracebackType
from typing import NamedTuple, NoReturn, Self

import zstandard

from jupyter_gpupool.state.errors import Cancelled, NoSuchSnapshot, SnapshotDamaged
from jupyter_gpupool.state.model import Details, Manifest, Segment
from jupyter_gpupool.state.store.files import Cancel, Source
from jupyter_gpupool.state.store.formats import PAGE_BYTES, Codec, digest, shown, unpack_details
from jupyter_gpupool.state.store.index import Location, pack_path
from jupyter_gpupool.state.store.shelf import SNAPSHOT_ENDING, SNAPSHOTS, Shelf, cores
from jupyter_gpupool.state.store.streams import ChunkFile

#: Up to this many bytes are read without threads.
INLINE_BYTES = 1024 * 1024


class Place(NamedTuple):
    """A stretch of a file of this machine.

    Attributes
    ----------
    path : str
        The file.
    offset : int
        Where it begins: on a page.
    nbytes : int
        Its length.
    chunks : tuple of (bytes, int)
        Ids and lengths of the chunks that lie in it, one after the other.
    """

    path: str
    offset: int
    nbytes: int
    chunks: tuple[tuple[bytes, int], ...] = ()


class Reader:
    """Reads one snapshot; a context manager.

    Parameters
    ----------
    shelf : Shelf
        The owner's part of the store.
    manifest : Manifest
        The outside of the snapshot.
    trusted : bool
        Whether one of the owner's keys signed it.
    """

    def __init__(self, shelf: Shelf, manifest: Manifest, trusted: bool) -> None:
        self.manifest, self.trusted = manifest, trusted
        self._shelf = shelf
        self._sources: dict[str, Source] = {}
        self._mutex = threading.Lock()
        self._local = threading.local()
        self._pool: ThreadPoolExecutor | None = None

    def details(self) -> Details:
        """Return the inside of the snapshot."""
        return unpack_details(self.read(self.manifest.details), self.manifest)

    def read(self, chunks: Sequence[bytes]) -> bytes:
        """Return the bytes of some chunks."""
        target = bytearray(sum(self._place(chunk).nbytes for chunk in chunks))
        self.read_into(chunks, target)
        return bytes(target)

    def read_into(
        self,
        chunks: Sequence[bytes],
        target: bytearray | memoryview,
        *,
        progress: Callable[[int], None] | None = None,
        cancel: Cancel | None = None,
    ) -> None:
        """Fill memory with chunks, several at a time, and compare each with its hash.

        Parameters
        ----------
        chunks : sequence of bytes
            Their ids, in order.
        target : writable contiguous buffer
            Exactly as long as they are together.
        progress : callable, optional
            Called, by any thread, with the number of bytes of a chunk that is there.
        cancel : callable, optional
            Asked before each chunk by the thread that called.

        Raises
        ------
        SnapshotDamaged
            If a chunk is missing, or is not what was saved.
        Cancelled
            If ``cancel`` said so.
        """
        view = memoryview(target).cast("B") if memoryview(target).nbytes else memoryview(bytearray())
        jobs = list(self._jobs(chunks, view))
        few = len(view) <= INLINE_BYTES or len(jobs) < 2 or cores() == 1
        if few or not self._fetch_in_threads(jobs, progress, cancel):
            for job in jobs:
                _stop_if(cancel)
                self._fetch(*job, progress)

    def check(self, chunks: Sequence[bytes]) -> None:
        """Compare chunks with their hashes, and keep none of them."""
        for chunk in chunks:
            place = self._place(chunk)
            self._fetch(chunk, place, memoryview(bytearray(place.nbytes)), None)

    def stream(self, segments: Sequence[Segment]) -> io.BufferedReader:
        """Return segments of the stream of objects as one file that is read from its beginning."""
        chunks = [chunk for segment in segments for chunk in segment.chunks]
        return io.BufferedReader(ChunkFile(lambda chunk: self.read([chunk]), chunks), 128 * 1024)

    def places(self, chunks: Sequence[bytes]) -> list[Place] | None:
        """Return where chunks can be mapped from, as few stretches in their order; None where they cannot be.

        They can where they lie raw and on pages in files of this machine. What is mapped is not compared with
        its hash: `rechecking` does that later. Who maps a file holds a shared `flock` on it, or its
        chunks may be taken from under the map when the snapshot is forgotten; he asks again once he holds it.
        """
        self._shelf.refresh()
        found: list[Place] = []
        for chunk in chunks:
            place = self._mappable(chunk, self._place(chunk))
            if place is None or (found and found[-1].nbytes % PAGE_BYTES):
                return None
            last = found[-1] if found else None
            if last and last.path == place.path and last.offset + last.nbytes == place.offset:
                found[-1] = last._replace(
                    nbytes=last.nbytes + place.nbytes, chunks=(*last.chunks, *place.chunks)
                )
            else:
                found.append(place)
        return found

    def close(self) -> None:
        """Close the files that were read, and end the threads."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None
        with self._mutex:
            for source in self._sources.values():
                source.close()
            self._sources = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _jobs(
        self, chunks: Sequence[bytes], view: memoryview
    ) -> Iterator[tuple[bytes, Location, memoryview]]:
        at = 0
        for chunk in chunks:
            place = self._place(chunk)
            yield chunk, place, view[at : at + place.nbytes]
            at += place.nbytes
        if at != len(view):
            raise SnapshotDamaged(
                f"The snapshot {shown(self.manifest)} is damaged: {at:,} bytes are there where "
                f"{len(view):,} were saved.",
                hint=_OLDER,
            )

    def _fetch_in_threads(
        self,
        jobs: list[tuple[bytes, Location, memoryview]],
        progress: Callable[[int], None] | None,
        cancel: Cancel | None,
    ) -> bool:
        """Fetch chunks, several at once; False where no thread can be started any more."""
        work: list[Future[None]] = []
        try:
            if not self._submit(jobs, progress, work):
                return False
            for future in work:
                _stop_if(cancel)
                future.result()
        finally:
            for future in work:
                future.cancel()
            wait(work)  # nobody writes to the memory from here on
        return True

    def _submit(
        self,
        jobs: list[tuple[bytes, Location, memoryview]],
        progress: Callable[[int], None] | None,
        work: list[Future[None]],
    ) -> bool:
        """Give chunks to the threads of this reader; False where none can be started any more."""
        try:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(cores(), "gpupool-read")
            # one by one: those before one that cannot be given any more are waited for
            work.extend(self._pool.submit(self._fetch, *job, progress) for job in jobs)
        except RuntimeError:  # the interpreter ends
            return False
        return True

    def _mappable(self, chunk: bytes, place: Location) -> Place | None:
        path = self._shelf.files.local_path(pack_path(place.pack))
        if path is None or place.codec != Codec.RAW or place.offset % PAGE_BYTES:
            return None
        return Place(path, place.offset, place.nbytes, ((chunk, place.nbytes),))

    def _place(self, chunk: bytes) -> Location:
        place = self._shelf.index.get(chunk)
        if place is None:
            self._shelf.refresh()
            place = self._shelf.index.get(chunk)
        if place is None:
            self._damaged(chunk, "is in no pack", "; ".join(self._shelf.index.damaged.values()))
        return place

    def _fetch(
        self, chunk: bytes, place: Location, target: memoryview, progress: Callable[[int], None] | None
    ) -> None:
        problem = self._try(chunk, place, target)
        if problem:  # perhaps it was moved meanwhile
            self._shelf.refresh()
            moved = self._place(chunk)
            if moved == place or self._try(chunk, moved, target):
                self._damaged(chunk, problem)
        if progress is not None:
            progress(len(target))

    def _try(self, chunk: bytes, place: Location, target: memoryview) -> str:
        """Read a chunk and compare it with its hash; return what is wrong with it, as a clause."""
        where = f"at byte {place.offset} of the pack {place.pack}"
        try:
            self._load(place, target)
        except FileNotFoundError:
            return f"is missing: the pack {place.pack} is gone"
        except EOFError:
            return f"is missing: the pack {place.pack} was cut"
        except zstandard.ZstdError as error:
            return f"cannot be read {where} ({error})"
        return "" if digest(target) == chunk else f"is not what was saved, {where}"

    def _load(self, place: Location, target: memoryview) -> None:
        source = self._source(place.pack)
        if place.codec == Codec.RAW:
            source.read_into(place.offset, target)
            return
        packed = bytearray(place.stored)
        source.read_into(place.offset, memoryview(packed))
        with self._decompressor().stream_reader(packed) as unpacked:
            done = 0
            while done < len(target) and (n := unpacked.readinto(target[done:])):
                done += n

    def _source(self, pack: str) -> Source:
        with self._mutex:
            source = self._sources.get(pack)
            if source is None:
                source = self._sources[pack] = self._shelf.files.open(pack_path(pack))
            return source

    def _decompressor(self) -> zstandard.ZstdDecompressor:
        made: zstandard.ZstdDecompressor | None = getattr(self._local, "decompressor", None)
        if made is None:
            made = self._local.decompressor = zstandard.ZstdDecompressor()
        return made

    def _damaged(self, chunk: bytes, what: str, more: str = "") -> NoReturn:
        there = {entry.name for entry in self._shelf.files.listing(SNAPSHOTS)}
        if f"{self.manifest.id}{SNAPSHOT_ENDING}" not in there:
            raise NoSuchSnapshot(f"The snapshot {shown(self.manifest)} was forgotten while it was read.")
        raise SnapshotDamaged(
            f"The snapshot {shown(self.manifest)} is damaged: its chunk {chunk.hex()[:16]} {what}."
            + (f" {more}" if more else ""),
            hint=_OLDER,
        )


def _stop_if(cancel: Cancel | None) -> None:
    if cancel is not None and cancel():
        raise Cancelled("The restore was stopped; nothing was changed.")


_OLDER = "Restore an older snapshot."
