"""The newest message of each kind for the browser, and who wants them.

Rule of this module: newest wins; nothing is queued; a listener that comes late gets the newest at once.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from jupyter_gpupool.protocol.codec import encode
from jupyter_gpupool.protocol.documents import PoolDoc
from jupyter_gpupool.server.kernels import KernelDoc

#: Called with the kind of a message and its JSON; must not block.
Listener = Callable[[str, str], None]


class StatusMessage(msgspec.Struct, kw_only=True, frozen=True, tag="status"):
    """How the link to the pool is."""

    state: str
    message: str = ""
    hint: str = ""


class PoolMessage(msgspec.Struct, kw_only=True, frozen=True, tag="pool"):
    """The pool's newest snapshot."""

    pool: PoolDoc


class KernelsMessage(msgspec.Struct, kw_only=True, frozen=True, tag="kernels"):
    """The kernels of this server."""

    kernels: list[KernelDoc]


Message = StatusMessage | PoolMessage | KernelsMessage


class Feed:
    """Hands each message to everybody who listens, encoded once."""

    def __init__(self) -> None:
        self._newest: dict[str, str] = {}
        self._listeners: set[Listener] = set()

    @property
    def listener_count(self) -> int:
        """How many listen."""
        return len(self._listeners)

    def publish(self, message: Message) -> None:
        """Make a message the newest of its kind, and hand it out."""
        kind = str(message.__struct_config__.tag)
        text = encode(message).decode()
        self._newest[kind] = text
        for listener in tuple(self._listeners):
            listener(kind, text)

    def listen(self, listener: Listener) -> None:
        """Hand the newest message of each kind to a listener now, and each newer one when it comes."""
        self._listeners.add(listener)
        for kind, text in self._newest.items():
            listener(kind, text)

    def unlisten(self, listener: Listener) -> None:
        """Hand nothing more to a listener; harmless when it does not listen."""
        self._listeners.discard(listener)
