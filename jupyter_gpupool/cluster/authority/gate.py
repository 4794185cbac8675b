"""Which certificates count: the book, as quickly as each message needs it.

Rule of this module: what another process writes into the book counts from the next message on.
"""

from __future__ import annotations

from jupyter_gpupool.cluster.authority.book import Book
from jupyter_gpupool.cluster.errors import AuthorityFault
from jupyter_gpupool.cluster.tls import Peer

#: What is read of the book's file, and where in that SQLite counts its changes.
_HEAD_BYTES, _COUNTER = 28, slice(24, 28)


class Gate:
    """Lets peers pass whose certificate is in the book, and not revoked.

    Parameters
    ----------
    book : Book
        The authority's.
    """

    def __init__(self, book: Book) -> None:
        self._book = book
        self._seen = b""
        self._valid: dict[int, str] = {}

    def passes(self, peer: Peer) -> bool:
        """Tell whether a peer is a node of this pool still; what cannot be looked up does not pass."""
        try:
            with self._book.path.open("rb") as file:
                seen = file.read(_HEAD_BYTES)[_COUNTER]  # SQLite counts here how often the file was changed
            if seen != self._seen:
                rows = self._book.certificates()
                self._valid = {row.serial: row.node_id for row in rows if row.revoked_ms is None}
                self._seen = seen
        except (OSError, AuthorityFault):
            return False
        return peer.node_id != "" and self._valid.get(peer.serial) == peer.node_id
