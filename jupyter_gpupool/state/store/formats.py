"""How files of the store are written: docs/snapshots-format.md is this module in words.

Rules of this module: every file begins with what it is and its version, and carries a hash of what follows;
no file is read that a later version wrote in another way.
"""

from __future__ import annotations

import re
from enum import IntEnum
from hmac import compare_digest

import blake3
import msgspec

from jupyter_gpupool.state.errors import IncompatibleSnapshot, NotTrusted, SnapshotDamaged
from jupyter_gpupool.state.model import FORMAT, Details, Manifest

#: The first bytes of every kind of file; the digit is the version of the format.
PACK_MAGIC = b"gpupool pack 1\n\x00"
INDEX_MAGIC = b"gpupool index 1\n"
SNAPSHOT_MAGIC = b"gpupool snap 1\n\x00"
_MAGIC = re.compile(rb"gpupool (pack|index|snap) (\d+)\n\x00?")
#: Bytes of a hash of blake3, and of a signature.
HASH_BYTES = 32
#: Raw chunks of at least this size begin on a page of the pack, so that they can be mapped.
ALIGNED_FROM_BYTES = 64 * 1024
PAGE_BYTES = 4096


class Codec(IntEnum):
    """How a chunk is written in a pack."""

    RAW = 0
    """As it is."""
    ZSTD = 1
    """One frame of Zstandard."""


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """Where one chunk lies in a pack.

    Attributes
    ----------
    id : bytes
        blake3 of the chunk's bytes.
    offset, stored : int
        Where it begins in the pack, and how many bytes it takes there.
    nbytes : int
        Its length.
    codec : int
        A `Codec`.
    """

    id: bytes
    offset: int
    stored: int
    nbytes: int
    codec: int


class PackIndex(msgspec.Struct, frozen=True):
    """What is in one pack.

    Attributes
    ----------
    pack_bytes : int
        How long the pack is: a shorter one was cut.
    entries : list of Entry
        Its chunks, in the order of their offsets.
    """

    pack_bytes: int
    entries: list[Entry]


class _Chunks(msgspec.Struct):
    chunks: list[bytes]


class _Held(msgspec.Struct):
    stream: list[_Chunks]
    roots: list[_Chunks]


_pack_index = msgspec.msgpack.Decoder(PackIndex)
_manifest = msgspec.msgpack.Decoder(Manifest)
_details = msgspec.msgpack.Decoder(Details)
_held = msgspec.msgpack.Decoder(_Held)
_version = msgspec.msgpack.Decoder(dict[str, object])


def digest(data: bytes | bytearray | memoryview) -> bytes:
    """Return the hash that names a chunk."""
    return blake3.blake3(data).digest()


def seal_index(index: PackIndex) -> bytes:
    """Return the bytes of the index of a pack."""
    body = msgspec.msgpack.encode(index)
    return INDEX_MAGIC + digest(body) + body


def open_index(data: bytes, where: str) -> PackIndex:
    """Read the index of a pack."""
    body = _checked(data, INDEX_MAGIC, where)
    try:
        return _pack_index.decode(body)
    except msgspec.DecodeError as error:
        raise SnapshotDamaged(f"{where} cannot be read: {error}.") from error


def seal_manifest(manifest: Manifest, key: bytes) -> bytes:
    """Return the bytes of the file of a snapshot: signed with its owner's key."""
    body = msgspec.msgpack.encode(manifest)
    signed = _signature(body, key) + body
    return SNAPSHOT_MAGIC + digest(signed) + signed


def open_manifest(data: bytes, snapshot: str, keys: tuple[bytes, ...]) -> tuple[Manifest, bool]:
    """Read the file of a snapshot; return it, and whether one of the keys signed it.

    Raises
    ------
    SnapshotDamaged
        If its bytes are not those that were written.
    IncompatibleSnapshot
        If a later version of this package wrote it.
    """
    where = f"The snapshot {snapshot}"
    signed = _checked(data, SNAPSHOT_MAGIC, where)
    signature, body = signed[:HASH_BYTES], signed[HASH_BYTES:]
    try:
        manifest = _manifest.decode(body)
    except msgspec.DecodeError as error:
        written = _written_format(body)
        if written > FORMAT:
            raise _newer(where, written) from error
        raise SnapshotDamaged(f"{where} cannot be read: {error}.") from error
    if manifest.format > FORMAT:
        raise _newer(where, manifest.format)
    if manifest.id != snapshot:
        raise SnapshotDamaged(f"{where} is a copy of {manifest.id} under another name; restore that one.")
    return manifest, any(compare_digest(_signature(body, key), signature) for key in keys)


def require_trust(manifest: Manifest, trusted: bool, trust: bool) -> None:
    """Refuse a snapshot that its reader did not write, unless he says that he trusts it."""
    if not trusted and not trust:
        raise NotTrusted(
            f"The snapshot {shown(manifest)} was not written with your key, so restoring it could run "
            f"somebody's code as you.",
            hint="Look at it with `%gpupool snapshots inspect`, and restore it with --trust if you know it.",
        )


def pack_details(details: Details) -> bytes:
    """Return the bytes of the inside of a snapshot."""
    return msgspec.msgpack.encode(details)


def unpack_details(data: bytes, manifest: Manifest) -> Details:
    """Read the inside of a snapshot."""
    try:
        return _details.decode(data)
    except msgspec.DecodeError as error:
        raise SnapshotDamaged(
            f"The inside of the snapshot {shown(manifest)} cannot be read: {error}."
        ) from error


def held_chunks(data: bytes) -> set[bytes]:
    """Return the ids of all chunks that the inside of a snapshot speaks of."""
    held = _held.decode(data)
    ids: set[bytes] = set()
    for part in (*held.stream, *held.roots):
        ids.update(part.chunks)
    return ids


def shown(manifest: Manifest) -> str:
    """Return how a person is told which snapshot is meant."""
    return f"“{manifest.name}” ({manifest.id})" if manifest.name else manifest.id


def _signature(body: bytes, key: bytes) -> bytes:
    return blake3.blake3(SNAPSHOT_MAGIC + body, key=key).digest()


def _checked(data: bytes, magic: bytes, where: str) -> bytes:
    """Return what follows the hash, after comparing it."""
    found = _MAGIC.match(data[: len(magic)])
    if not data.startswith(magic):
        if found and int(found[2]) > FORMAT:
            raise _newer(where, int(found[2]))
        raise SnapshotDamaged(f"{where} does not begin as it should: its file is damaged.", hint=_OLDER)
    body = data[len(magic) + HASH_BYTES :]
    if digest(body) != data[len(magic) : len(magic) + HASH_BYTES]:
        raise SnapshotDamaged(f"{where} is damaged: its bytes are not those that were written.", hint=_OLDER)
    return body


def _written_format(body: bytes) -> int:
    try:
        found = _version.decode(body).get("format", 0)
    except msgspec.DecodeError:
        return 0
    return found if isinstance(found, int) else 0


def _newer(where: str, version: int) -> IncompatibleSnapshot:
    return IncompatibleSnapshot(
        f"{where} is in format {version}, and this version of jupyter_gpupool reads up to {FORMAT}.",
        hint="Upgrade jupyter_gpupool in this environment.",
    )


_OLDER = "Restore an older snapshot."
