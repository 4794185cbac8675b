"""Builders and drivers for tests of a pool, ours and other people's.

Rules of this package: builders have a sensible value for everything, so that a test names only what it is
about; time is passed, never slept; everything is real, nothing mocked.
"""

from __future__ import annotations

from jupyter_gpupool.testing.builders import GIB, a_device, a_mig_instance, a_want, an_isolation
from jupyter_gpupool.testing.driver import PoolDriver
from jupyter_gpupool.testing.journal import MemoryJournal

__all__ = ["GIB", "MemoryJournal", "PoolDriver", "a_device", "a_mig_instance", "a_want", "an_isolation"]
