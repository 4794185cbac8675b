"""Whether CUDA is initialised here is told without touching it, and said only where it matters."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec

from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.kernel.cuda import cuda_started, late_sentence, restart_gives_more
from tests.support.fake_pool import pool_doc

#: Opens what CUDA opens and maps what CUDA maps, by their names.
STARTED = """
import mmap, sys
from jupyter_gpupool.kernel.cuda import cuda_started
folder = sys.argv[1]
seen = [cuda_started()]
device = open(f"{folder}/nvidia-uvm")
seen.append(cuda_started())
library = open(f"{folder}/libcuda.so.1", "rb")
held = mmap.mmap(library.fileno(), 0, prot=mmap.PROT_READ)
seen.append(cuda_started())
device.close()
seen.append(cuda_started())
print(*seen, "torch" in sys.modules)
"""


def test_it_takes_the_drivers_library_and_an_open_device(tmp_path):
    (tmp_path / "nvidia-uvm").touch()
    (tmp_path / "libcuda.so.1").write_bytes(b"x" * 4096)
    done = subprocess.run(
        [sys.executable, "-c", STARTED, str(tmp_path)], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["False", "False", "True", "False", "False"]


def test_a_loaded_torch_is_asked_first(monkeypatch, tmp_path):
    (tmp_path / "torch.py").write_text(
        "class cuda:\n    is_initialized = staticmethod(lambda: True)\n", encoding="utf-8"
    )
    code = "import torch; from jupyter_gpupool.kernel.cuda import cuda_started; print(cuda_started())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env=dict(os.environ) | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(Path.cwd())])},
    )
    assert done.stdout.strip() == "True"


def test_this_process_has_not():
    assert not cuda_started()


def test_a_restart_is_named_only_where_it_gives_more():
    def device(name: str, sharing: str, *, kind: DeviceKind = DeviceKind.CUDA, offered: bool = True):
        return msgspec.structs.replace(
            pool_doc().devices[0], id=name, name=name, kind=kind, sharing=sharing, offered=offered
        )

    cpu = device("cpu", "", kind=DeviceKind.CPU)
    assert not restart_gives_more([cpu])
    assert not restart_gives_more([cpu, device("cuda0", "timeslice")])
    assert restart_gives_more([device("cuda0", "mps")])
    assert restart_gives_more([device("cuda0-mig0", "mig")])
    assert not restart_gives_more([device("cuda0", "mps", offered=False)])
    assert restart_gives_more([device("cuda0", "timeslice"), device("cuda1", "timeslice")])
    assert "restart the kernel" in late_sentence()
