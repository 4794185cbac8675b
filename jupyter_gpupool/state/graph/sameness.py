"""Whether a variable is what it was in another snapshot, told from the streams.

Rules of this module: a digest is of what is reached from a variable and of how that is linked, not of where
in the stream it lies; memory counts by what is in it.
"""

from __future__ import annotations

from typing import Any

import xxhash

from jupyter_gpupool.state.graph.symbols import Symbol, made
from jupyter_gpupool.state.memory.numbered import NUMBERED
from jupyter_gpupool.state.model import Details

_UNORDERED = frozenset({"set", "frozenset"})


class Sameness:
    """Digests of the variables of one snapshot.

    Parameters
    ----------
    details : Details
        Its inside: numbers of regions in its stream mean these.
    """

    def __init__(self, details: Details) -> None:
        self._details = details

    def digest(self, symbol: Any) -> bytes:
        """Return a digest of everything that is reached from a symbol."""
        total = xxhash.xxh3_128()
        numbers: dict[int, int] = {}
        waiting: list[Any] = [symbol]
        while waiting:
            one = waiting.pop()
            if not isinstance(one, Symbol):
                total.update(_atom(one))
                continue
            number = numbers.get(id(one))
            if number is not None:
                total.update(b"=%d;" % number)
                continue
            numbers[id(one)] = len(numbers)
            total.update(f"{one.kind}:{one.name}:{len(one.parts)};".encode())
            if one.kind in _UNORDERED:
                for part in sorted(self._apart(part) for part in one.parts):
                    total.update(part)
            else:
                waiting.extend(reversed(self._parts(one)))
        digest: bytes = total.digest()
        return digest

    def _apart(self, part: Any) -> bytes:
        """Return a digest of a member of a set, whose order means nothing."""
        return self.digest(part) if isinstance(part, Symbol) else _atom(part)

    def _parts(self, one: Symbol) -> list[Any]:
        """Return the parts of a symbol, with numbers of regions as what they mean."""
        found = made(one)
        if found is None or found[0] not in NUMBERED:
            return one.parts
        name, arguments = found
        plain = list(arguments)
        for at in NUMBERED[name]:
            if at < len(plain) and isinstance(plain[at], int) and plain[at] >= 0:
                plain[at] = self._memory(plain[at])
        return [name, *plain, *one.parts[2:]]

    def _memory(self, number: int) -> bytes:
        root, offset = self._details.offsets[number]
        found = self._details.roots[root]
        return b"".join([b"memory", *found.chunks, str((offset, found.nbytes, found.device)).encode()])


def _atom(value: Any) -> bytes:
    if isinstance(value, bytes):
        return b"b%d:" % len(value) + value
    written = repr(value).encode("utf-8", "surrogatepass")
    return b"%b%d:" % (type(value).__name__.encode(), len(written)) + written
