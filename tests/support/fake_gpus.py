"""GPUs for tests: a fake driver's library, and the state from which it answers.

The library (tests/fakes/nvml) is compiled once per machine; the real binding and our real code run on it::

    with FakeGPUs(tmp_path).a100(8) as gpus:
        nvml = NVML(library=gpus.library)
        gpus.set("gpu0.nvmlDeviceGetTemperature", 91)

Processes get ``gpus.environment()``.
"""

from __future__ import annotations

import os
import time
import uuid
from pathlib import Path
from types import TracebackType
from typing import TextIO

from tests.support.compiled import compiled
from tests.support.fake_cuda import cuda_environment
from tests.support.gpu_models import A100, GB10, H100, Model

SOURCES = Path(__file__).resolve().parents[1] / "fakes" / "nvml"
STATE_VARIABLE = "FAKE_NVML_STATE"


class FakeGPUs:
    """The state of a fake driver, and the library that answers from it.

    As a context manager it puts the state into this process's environment, where the library looks for it,
    and opens a file that stands for the driver's device file: this process may be listed as a user of a GPU.

    Parameters
    ----------
    folder : Path
        Of the test, for the state and what processes add to it.
    driver : str
        Version of the driver.
    """

    def __init__(self, folder: Path, driver: str = "615.71") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.state = folder / "nvml.state"
        self._values: dict[str, str] = {"driver": driver, "nvml": f"13.{driver}", "cuda": "13040"}
        self._missing: list[str] = []
        self._count = 0
        self._before: str | None = None
        self._device_file: TextIO | None = None
        self._events = 0
        self._write()

    @property
    def library(self) -> str:
        """Path of the compiled library."""
        return str(compiled("libnvidia-ml.so.1", sorted(SOURCES.iterdir())))

    def environment(self) -> dict[str, str]:
        """Return the whole environment in which a child process finds these GPUs, and CUDA."""
        made = cuda_environment(self.state)
        made["LD_LIBRARY_PATH"] = os.pathsep.join([str(Path(self.library).parent), made["LD_LIBRARY_PATH"]])
        return made

    def __enter__(self) -> FakeGPUs:
        """Let this process see the GPUs."""
        self._before = os.environ.get(STATE_VARIABLE)
        os.environ[STATE_VARIABLE] = str(self.state)
        self._device_file = (self.state.parent / "nvidia-uvm").open("w")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Hide them again."""
        if self._device_file is not None:
            self._device_file.close()
        if self._before is None:
            os.environ.pop(STATE_VARIABLE, None)
        else:
            os.environ[STATE_VARIABLE] = self._before

    def a100(self, count: int = 1) -> FakeGPUs:
        """Add A100-SXM4-80GB."""
        return self.add(A100, count)

    def h100(self, count: int = 1) -> FakeGPUs:
        """Add H100-80GB-HBM3."""
        return self.add(H100, count)

    def h100_mig(self, *profiles: str) -> FakeGPUs:
        """Add one H100 in MIG mode with instances: of profiles ``1g.10gb``, ``2g.20gb``, ``3g.40gb``."""
        self.add(H100)
        gpu = f"gpu{self._count - 1}"
        self.set(f"{gpu}.nvmlDeviceGetMigMode", "1 1")
        self.set(f"{gpu}.mig_mode", 1)
        for name in ("nvmlDeviceGetUtilizationRates", "usage"):
            self.set(f"{gpu}.{name}", "!3")
        for index, profile in enumerate(profiles or ("3g.40gb", "2g.20gb", "1g.10gb")):
            self._add_instance(gpu, index, profile)
        return self

    def gb10(self) -> FakeGPUs:
        """Add a GB10: it has no memory of its own."""
        return self.add(GB10)

    def add(self, model: Model, count: int = 1) -> FakeGPUs:
        """Add GPUs of a model."""
        for _ in range(count):
            index = self._count
            self._count += 1
            gpu = f"gpu{index}"
            values = {
                "uuid": self.uuid(index),
                "name": model.name,
                "serial": f"165302{index:07d}",
                "pci": f"0 {0x07 + 8 * index} 0",
                "nvmlDeviceGetMinorNumber": str(index),
                **model.values,
            }
            self._values |= {f"{gpu}.{key}": value for key, value in values.items()}
        self._write()
        return self

    def _add_instance(self, gpu: str, index: int, profile: str) -> None:
        slices, memory_mb, multiprocessors = {
            "1g.10gb": (1, 9984, 16),
            "1g.20gb": (1, 20096, 26),
            "2g.20gb": (2, 20096, 32),
            "3g.40gb": (3, 40448, 60),
            "4g.40gb": (4, 40448, 64),
            "7g.80gb": (7, 81152, 132),
        }[profile]
        values = {
            "uuid": self.uuid(gpu, index),
            "name": f"{self._values[f'{gpu}.name']} MIG {profile}",
            "attributes": f"{multiprocessors} {slices} {slices} 0 {slices} 0 {slices} {slices} {memory_mb}",
            "multiprocessors": str(multiprocessors),
            "memory.total": str(memory_mb * 2**20),
            "memory.reserved": str(64 * 2**20),
            "nvmlDeviceGetGpuInstanceId": str(index + 1),
            "nvmlDeviceGetComputeInstanceId": "0",
            "nvmlDeviceGetMigMode": "!2",
        }
        self._values |= {f"{gpu}.mig{index}.{key}": value for key, value in values.items()}
        self._write()

    def uuid(self, gpu: int | str, instance: int | None = None) -> str:
        """Return the UUID of a GPU (by number) or of one of its instances."""
        number = int(str(gpu).removeprefix("gpu"))
        name = f"{number}" if instance is None else f"{number}/{instance}"
        made = uuid.uuid5(uuid.NAMESPACE_OID, f"jupyter_gpupool fake {name}")
        return f"{'GPU' if instance is None else 'MIG'}-{made}"

    def set(self, key: str, value: object) -> FakeGPUs:
        """Set one key of the state (see tests/fakes/nvml/fake_nvml.c); ``!3`` is NVML's error 3."""
        self._values[key] = str(value)
        self._write()
        return self

    def unset(self, *keys: str) -> FakeGPUs:
        """Take keys out of the state."""
        for key in keys:
            self._values.pop(key, None)
        self._write()
        return self

    def missing(self, *functions: str) -> FakeGPUs:
        """Leave functions out of the library, as an older driver does."""
        self._missing += functions
        self._write()
        return self

    def processes(
        self, gpu: str, *processes: tuple[int, int | None] | tuple[int, int | None, str]
    ) -> FakeGPUs:
        """Let processes use a device: (pid, bytes or None) or (pid, bytes or None, "mps" or "graphics")."""
        return self.set(
            f"{gpu}.processes",
            ",".join(
                ":".join([str(one[0]), "-" if one[1] is None else str(one[1]), *one[2:]]) for one in processes
            ),
        )

    def event(self, gpu: int, xid: int, kind: int = 8) -> FakeGPUs:
        """Let an event happen: an XID, unless of another kind (``nvmlEventType…``)."""
        self._events += 1
        before = self._values.get("events", "")
        return self.set("events", f"{before} {self._events}:{xid}@{gpu}:{kind}".strip())

    def lose(self, gpu: int) -> FakeGPUs:
        """Let a GPU fall off the bus."""
        return self.set(f"gpu{gpu}.all", "!15")

    def recover(self, gpu: int) -> FakeGPUs:
        """Let it come back."""
        return self.unset(f"gpu{gpu}.all")

    def use(self, device_uuid: str, pid: int, memory_bytes: int, *, mps: bool = False) -> None:
        """Let a living process have a context on one device, as the fake CUDA notes it."""
        folder = self.state.with_name(self.state.name + ".cuda")
        folder.mkdir(exist_ok=True)
        start = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
        _replace(folder / str(pid), f"start {start}\nmps {int(mps)}\ncontext {device_uuid} {memory_bytes}\n")

    def limits(self) -> dict[tuple[str, str], tuple[int, int]]:
        """Return the memory limits that were set: (soft, hard) by UUID and control group, the last counts."""
        path = self.state.with_name(self.state.name + ".limits")
        lines = path.read_text().splitlines() if path.exists() else []
        return {(one[0], one[1]): (int(one[2]), int(one[3])) for one in (line.split(" ") for line in lines)}

    def _write(self) -> None:
        lines = [f"{key} {value}" for key, value in self._values.items()]
        lines += [f"missing {function}" for function in self._missing]
        _replace(self.state, "\n".join(lines) + "\n")


def _replace(path: Path, text: str) -> None:
    """Write a file whole, with a time of change that no other version of it has."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_text(text)
    now = time.time_ns()
    os.utime(fresh, ns=(now, now))
    fresh.replace(path)
