"""What a capture says to the store when it writes.

Rule of this module: plain frozen values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from jupyter_gpupool.state.model import CHUNK_BYTES, Environment, Finding
from jupyter_gpupool.state.store.files import Cancel

#: So many bytes of copies and of compressed chunks may wait to be written.
QUEUE_BYTES = 16 * 1024 * 1024
#: Up to this size a buffer is one chunk, and is hashed where it is, without threads.
SMALL_BYTES = 256 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Label:
    """What is said of a snapshot outside of it; the fields are those of `Manifest`."""

    name: str = ""
    note: str = ""
    notebook: str = ""
    seconds: float = 0.0
    automatic: bool = False
    total_bytes: int = 0
    count: int = 0
    findings: list[Finding] = field(default_factory=list)
    environment: Environment
    kernel: str = ""
    hostname: str = ""
    created_ms: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class WriteOptions:
    """How a snapshot is written.

    Attributes
    ----------
    copies : bool
        Copy what is new at once, so that its owner may go on; else memory that was given must stay as it is
        until `Writer.commit` returns.
    watch : bool
        Keep what is needed for `Writer.unchanged`.
    queue_bytes : int
        So many bytes of copies and compressed chunks may wait for the disk; then `Writer.put` waits.
    chunk_bytes : int
        Buffers are cut to chunks of this size: a multiple of a page, more than `SMALL_BYTES`.
    most_bytes : int or None
        So many bytes that are not in the store may be written; what needs more is refused as `StoreFull`.
    progress : callable or None
        Called with the number of bytes that `put` has dealt with so far.
    cancel : callable or None
        Asked often; when it says True, `Cancelled` is raised.
    """

    copies: bool = False
    watch: bool = False
    queue_bytes: int = QUEUE_BYTES
    chunk_bytes: int = CHUNK_BYTES
    most_bytes: int | None = None
    progress: Callable[[int], None] | None = None
    cancel: Cancel | None = None
