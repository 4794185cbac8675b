"""Which GPUs can be emulated, and how a list of them is written.

Rule of this module: whatever cannot be read is refused with what could have been written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from jupyter_gpupool.core.errors import InvalidValue

#: The most devices that one list may name.
MOST_DEVICES = 4096


@dataclass(frozen=True, kw_only=True, slots=True)
class EmulatedModel:
    """A GPU as its vendor describes it.

    Attributes
    ----------
    name : str
        What the vendor calls it.
    memory_bytes : int
        Its memory, bytes.
    multiprocessors : int
        Its streaming multiprocessors.
    idle_watts, full_watts : float
        Power when idle and under full load.
    """

    name: str
    memory_bytes: int
    multiprocessors: int
    idle_watts: float
    full_watts: float


def _gpu(name: str, gib: int, multiprocessors: int, idle: float, full: float) -> EmulatedModel:
    return EmulatedModel(
        name=name,
        memory_bytes=gib * 2**30,
        multiprocessors=multiprocessors,
        idle_watts=idle,
        full_watts=full,
    )


#: What can be emulated, by the name that people type.
MODELS = {
    "A10-24GB": _gpu("NVIDIA A10", 24, 72, 18, 150),
    "A100-40GB": _gpu("NVIDIA A100-SXM4-40GB", 40, 108, 52, 400),
    "A100-80GB": _gpu("NVIDIA A100-SXM4-80GB", 80, 108, 60, 400),
    "B200-180GB": _gpu("NVIDIA B200", 180, 148, 140, 1000),
    "H100-80GB": _gpu("NVIDIA H100 80GB HBM3", 80, 132, 70, 700),
    "H200-141GB": _gpu("NVIDIA H200", 141, 132, 75, 700),
    "L4-24GB": _gpu("NVIDIA L4", 24, 58, 13, 72),
    "L40S-48GB": _gpu("NVIDIA L40S", 48, 142, 35, 350),
    "RTX3090-24GB": _gpu("NVIDIA GeForce RTX 3090", 24, 82, 22, 350),
    "RTX4090-24GB": _gpu("NVIDIA GeForce RTX 4090", 24, 128, 20, 450),
    "T4-16GB": _gpu("NVIDIA Tesla T4", 16, 40, 10, 70),
    "V100-32GB": _gpu("NVIDIA Tesla V100-SXM2-32GB", 32, 80, 42, 300),
}
_BY_FOLDED = {name.casefold(): model for name, model in MODELS.items()}
_ENTRY = re.compile(r"(?:(\d{1,9})\s*[x×])?\s*(\S+)", re.ASCII | re.IGNORECASE)


def parse_emulation(spec: str) -> list[EmulatedModel]:
    """Read "8xA100-80GB,2xH100-80GB".

    Returns
    -------
    list of EmulatedModel
        One for each device, in the order written.

    Raises
    ------
    InvalidValue
        If a model is unknown or a number is out of range; the message lists what there is.
    """
    devices: list[EmulatedModel] = []
    for entry in spec.split(","):
        match = _ENTRY.fullmatch(entry.strip())
        model = _BY_FOLDED.get(match[2].casefold()) if match else None
        if match is None or model is None:
            raise InvalidValue(f"“{entry.strip()[:40]}” is not a device that can be emulated.", hint=_forms())
        count = int(match[1] or 1)
        if not 1 <= count <= MOST_DEVICES or len(devices) + count > MOST_DEVICES:
            raise InvalidValue(
                f"“{spec[:40]}” is not between 1 and {MOST_DEVICES} emulated devices.", hint=_forms()
            )
        devices += [model] * count
    return devices


def _forms() -> str:
    return f"Write it as 8xA100-80GB,2xH100-80GB; models: {', '.join(MODELS)}."
