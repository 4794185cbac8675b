"""Whether compressing pays, asked of the data itself.

Rule of this module: a save is never made slower than the disk would be, to make it smaller; but a chunk that
shrinks to a sliver is worth a little time.
"""

from __future__ import annotations

import threading
import time

import zstandard

from jupyter_gpupool.state.store.shelf import FIRST_GUESS

#: Level of Zstandard for large buffers: its speed is near a disk's.
FAST_LEVEL = 1
#: Level for small things, where time does not count.
SMALL_LEVEL = 3
#: Up to this size a chunk is small.
SMALL_BYTES = 256 * 1024
#: A chunk is kept compressed only if it shrinks to less than this part of itself.
WORTH = 0.85
#: Where it shrinks to less than this, compressing may take as long as writing it raw.
SLIVER = 0.25
SAMPLE_BYTES = 32 * 1024


class Squeezer:
    """Compresses chunks where it pays; one for each save, used by several threads.

    Parameters
    ----------
    disk_speed : float
        Bytes a second that the store was seen to take in.
    threads : int
        How many threads compress at once.
    """

    def __init__(self, disk_speed: float = FIRST_GUESS, threads: int = 2) -> None:
        self._disk_speed, self._threads = disk_speed, threads
        self._local = threading.local()

    def squeeze(self, chunk: memoryview) -> bytes | None:
        """Return the chunk compressed; None where it is better written as it is."""
        if len(chunk) < 64:
            return None
        small = len(chunk) <= SMALL_BYTES
        if not small and not self._pays(chunk):
            return None
        squeezed = self._compressor(SMALL_LEVEL if small else FAST_LEVEL).compress(chunk)
        return squeezed if len(squeezed) < WORTH * len(chunk) else None

    def _pays(self, chunk: memoryview) -> bool:
        step = len(chunk) // 3
        sample = b"".join(chunk[at : at + SAMPLE_BYTES] for at in (0, step, len(chunk) - SAMPLE_BYTES))
        start = time.thread_time()
        ratio = len(self._compressor(FAST_LEVEL).compress(sample)) / len(sample)
        speed = self._threads * len(sample) / max(time.thread_time() - start, 1e-6)
        if ratio > WORTH:
            return False
        seconds = max(1 / speed, ratio / self._disk_speed)
        return seconds < (1.0 if ratio > SLIVER else 1.5) / self._disk_speed

    def _compressor(self, level: int) -> zstandard.ZstdCompressor:
        kept: dict[str, zstandard.ZstdCompressor] = self._local.__dict__
        made = kept.get(str(level))
        if made is None:
            made = kept[str(level)] = zstandard.ZstdCompressor(level, write_checksum=False)
        return made
