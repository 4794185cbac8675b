"""One restore: what differs here is said first, then everything is made aside, then the names change.

Rule of this module: whatever goes wrong is raised as `RestoreFailed`, and has changed nothing.
"""

from __future__ import annotations

import io
import logging
import time
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from jupyter_gpupool.state.errors import RestoreFailed, StateError
from jupyter_gpupool.state.graph import packages
from jupyter_gpupool.state.graph.naming import reason_of
from jupyter_gpupool.state.graph.parts import Parts
from jupyter_gpupool.state.graph.putting import Put, Putting, Wish
from jupyter_gpupool.state.memory.regions import Regions
from jupyter_gpupool.state.model import Details, Finding
from jupyter_gpupool.state.process.history import History
from jupyter_gpupool.state.report import Report
from jupyter_gpupool.state.snapshot import Snapshot
from jupyter_gpupool.state.ticking import Ticker

if TYPE_CHECKING:
    from jupyter_gpupool.state.memory.lazy import Mapped, Stretch
    from jupyter_gpupool.state.store.reader import Reader


_log = logging.getLogger(__name__)


def put_back(
    snapshot: Snapshot,
    wish: Wish,
    ticker: Ticker,
    *,
    place: Callable[[str], str] | None = None,
    lazy: bool = False,
    trust: bool = False,
    history: History | None = None,
    damaged: Callable[[str], None] | None = None,
) -> Report:
    """Put a snapshot back into a namespace."""
    begun = time.monotonic()
    with snapshot.open(trust=trust) as reader:
        warnings = packages.check(reader.manifest)
        details = reader.details()
        _check_names(wish.only, details, snapshot)
        parts = Parts(wish.namespace, history)
        mapper = _mapper(reader) if lazy else None
        put = _put(reader, details, wish, ticker, _regions(reader, details, ticker, place, mapper), parts)
    if mapper is not None and mapper.stretches:
        _check_later(mapper.stretches, snapshot.name or snapshot.id, damaged or _log.error)
    findings = _of(reader.manifest.findings, wish.only) + put.findings
    return Report(
        action="restore",
        snapshot=snapshot.id,
        name=snapshot.name,
        names=put.names,
        removed=put.removed,
        kept=put.kept,
        findings=_each_once(findings),
        warnings=warnings,
        total_bytes=reader.manifest.total_bytes,
        seconds=time.monotonic() - begun,
    )


class _Watched:
    """A stream that can be stopped wherever more of it is read."""

    def __init__(self, stream: io.BufferedReader, tick: Callable[[], None]) -> None:
        self._stream, self._tick = stream, tick
        self.readline = stream.readline

    def read(self, size: int = -1) -> bytes:
        """Read some bytes."""
        self._tick()
        return self._stream.read(size)

    def readinto(self, target: memoryview) -> int:
        """Fill memory."""
        self._tick()
        return self._stream.readinto(target)


def _put(reader: Reader, details: Details, wish: Wish, ticker: Ticker, regions: Regions, parts: Parts) -> Put:
    with reader.stream(details.stream) as stream:
        try:
            return Putting(
                details, _Watched(stream, ticker.tick), regions, wish, parts.put, ticker.tick
            ).run()
        except (StateError, KeyboardInterrupt):
            raise
        except MemoryError as error:
            raise RestoreFailed(
                "There is not enough memory to restore the snapshot; the namespace is as it was before.",
                hint="Free memory, or restore some variables only (--only), and try again.",
            ) from error
        except Exception as error:
            raise RestoreFailed(
                f"The snapshot {reader.manifest.name or reader.manifest.id} could not be restored "
                f"({reason_of(error)}); the namespace is as it was before.",
                hint="Look at it with inspect, or restore some variables only (--only).",
            ) from error


def _regions(
    reader: Reader,
    details: Details,
    ticker: Ticker,
    place: Callable[[str], str] | None,
    mapper: Mapped | None,
) -> Regions:
    """Return the memory of a snapshot; some of it mapped from the store where that is asked for."""
    ticker.total_bytes = sum(root.nbytes for root in details.roots) + sum(s.nbytes for s in details.stream)

    def read(chunks: list[bytes], target: memoryview) -> None:
        reader.read_into(chunks, target, cancel=ticker.cancel)
        ticker.add(len(target))

    return Regions(details, read, place=place, mapper=mapper)


def _mapper(reader: Reader) -> Mapped:
    """Return what maps memory from files of the store."""
    from jupyter_gpupool.state.memory.lazy import Mapped

    return Mapped(reader.places)


def _check_later(stretches: Sequence[Stretch], name: str, say: Callable[[str], None]) -> None:
    """Compare with its hashes, in a thread, what was mapped."""
    from jupyter_gpupool.state.background import begin
    from jupyter_gpupool.state.store.rechecking import Rechecker

    begin(Rechecker(stretches, name, say).run, "checking")


def _check_names(only: Collection[str] | None, details: Details, snapshot: Snapshot) -> None:
    known = {variable.name for variable in details.variables}
    missing = [name for name in only or () if name not in known]
    if missing:
        raise RestoreFailed(
            f"The snapshot {snapshot.name or snapshot.id} has no {', '.join(missing)}; nothing was changed.",
            hint=f"It has {', '.join(sorted(known)[:20]) or 'no variables'}.",
        )


def _of(findings: list[Finding], only: Collection[str] | None) -> list[Finding]:
    return [f for f in findings if only is None or f.variable in only or f.variable.startswith("(")]


def _each_once(findings: list[Finding]) -> list[Finding]:
    return list({(f.kind, f.path, f.reason): f for f in findings}.values())
