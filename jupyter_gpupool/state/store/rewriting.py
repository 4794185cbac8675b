"""Copying what is needed of a pack into a new one, where holes cannot be made.

Rule of this module: the copy is whole, and checked, before anything of the old pack goes.
"""

from __future__ import annotations

from jupyter_gpupool.state.errors import SnapshotDamaged
from jupyter_gpupool.state.store.formats import Codec, Entry, PackIndex
from jupyter_gpupool.state.store.index import pack_path
from jupyter_gpupool.state.store.packing import PackWriter, Piece
from jupyter_gpupool.state.store.shelf import Shelf

#: So many bytes may wait to be written.
QUEUE_BYTES = 16 * 1024 * 1024


def rewrite(shelf: Shelf, pack: str, content: PackIndex, kept: list[Entry]) -> int:
    """Write the chunks of a pack that are kept into a new one; return the bytes that this saves."""
    writer = PackWriter(shelf.files, shelf.mint(), seen=shelf.seen, queue_bytes=QUEUE_BYTES)
    source = shelf.files.open(pack_path(pack))
    try:
        for entry in kept:
            data = bytearray(entry.stored)
            try:
                source.read_into(entry.offset, memoryview(data))
            except EOFError as error:
                raise SnapshotDamaged(
                    f"The pack {pack} was cut; nothing of it was given back.",
                    hint="Look at what is damaged with `%gpupool snapshots --verify`.",
                ) from error
            writer.add(Piece(entry.id, memoryview(data), entry.nbytes, Codec(entry.codec)))
        index = writer.finish()
    except BaseException:
        writer.discard()
        raise
    finally:
        source.close()
    if index is None:
        return 0
    shelf.index.add(writer.pack, index)
    return content.pack_bytes - index.pack_bytes
