"""Which backends an agent runs.

Rule of this module: emulated devices take the place of real ones, so that nobody mistakes one for the other;
only who asks for both gets both.
"""

from __future__ import annotations

from jupyter_gpupool.backends.base import Backend
from jupyter_gpupool.backends.cpu import CPUBackend
from jupyter_gpupool.backends.emulated import EmulatedBackend


def make_backends(emulate: str, emulate_beside: bool) -> list[Backend]:
    """Make the backends of one node.

    Parameters
    ----------
    emulate : str
        Devices to emulate ("8xA100-80GB,2xH100-80GB"); empty for none.
    emulate_beside : bool
        Whether real devices are offered beside the emulated ones.

    Raises
    ------
    InvalidValue
        If ``emulate`` cannot be read.
    """
    if not emulate.strip():
        return [CPUBackend()]
    emulated = EmulatedBackend(emulate.strip())
    return [emulated, CPUBackend()] if emulate_beside else [emulated]
