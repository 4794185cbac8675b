"""The newest message of each kind for the browser, and who wants them.

Rules of this module: newest wins; nothing is queued; a listener that comes late gets the newest at once.
What is large has a mark: this feed, and its number there. A listener that comes back with the last mark that
it took is told only what is newer, and the status, which it cannot know.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

import msgspec

from jupyter_gpupool.protocol.codec import encode
from jupyter_gpupool.protocol.documents import PoolDoc
from jupyter_gpupool.server.kernels import KernelDoc

#: Called with the kind of a message and its JSON; must not block.
Listener = Callable[[str, str], None]


class _Marked(msgspec.Struct, kw_only=True, frozen=True):
    """What a message has that is not told twice."""

    #: Written by the feed: which one it is.
    mark: str = ""


class StatusMessage(msgspec.Struct, kw_only=True, frozen=True, tag="status"):
    """How the link to the pool is."""

    state: str
    message: str = ""
    hint: str = ""


class PoolMessage(_Marked, kw_only=True, frozen=True, tag="pool"):
    """The pool's newest snapshot."""

    pool: PoolDoc


class KernelsMessage(_Marked, kw_only=True, frozen=True, tag="kernels"):
    """The kernels of this server."""

    kernels: list[KernelDoc]


#: The kind of `StatusMessage`.
_UNMARKED = "status"
#: Digits of a number that nobody will ever count to.
_LONGEST = 16

Message = StatusMessage | PoolMessage | KernelsMessage


class Feed:
    """Hands each message to everybody who listens, encoded once."""

    def __init__(self) -> None:
        # another feed (after a restart of the server, or another server) is never taken for this one
        self._name = secrets.token_hex(4)
        self._count = 0
        self._newest: dict[str, tuple[int, str]] = {}
        self._listeners: set[Listener] = set()

    @property
    def listener_count(self) -> int:
        """How many listen."""
        return len(self._listeners)

    def publish(self, message: Message) -> None:
        """Make a message the newest of its kind, and hand it out."""
        kind = str(message.__struct_config__.tag)
        self._count += 1
        if not isinstance(message, StatusMessage):
            message = msgspec.structs.replace(message, mark=f"{self._name}-{self._count}")
        text = encode(message).decode()
        self._newest.pop(kind, None)  # in the order in which they were told
        self._newest[kind] = (self._count, text)
        for listener in tuple(self._listeners):
            listener(kind, text)

    def listen(self, listener: Listener, *, after: str = "") -> None:
        """Hand the newest message of each kind to a listener now, and each newer one when it comes.

        Parameters
        ----------
        listener : callable
            Called with the kind of each message, and its JSON.
        after : str
            Last mark that it has; what has a mark and is not newer is left out.
        """
        self._listeners.add(listener)
        has = self._number(after)
        for kind, (number, text) in self._newest.items():
            if number > has or kind == _UNMARKED:
                listener(kind, text)

    def unlisten(self, listener: Listener) -> None:
        """Hand nothing more to a listener; harmless when it does not listen."""
        self._listeners.discard(listener)

    def _number(self, mark: str) -> int:
        """Return which message of this feed has a mark; 0 for a mark that is not this feed's."""
        name, _, number = mark.partition("-")
        known = name == self._name and number.isascii() and number.isdigit() and len(number) < _LONGEST
        return int(number) if known else 0
