"""A cell that asks for more than its lease has is told which lease, and what can be done."""

from __future__ import annotations

import subprocess
import sys

import pytest

from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.leases import Resource, Strength, Verified
from jupyter_gpupool.kernel.attach import AppliedSettings
from jupyter_gpupool.kernel.lease import Lease
from jupyter_gpupool.kernel.oom import explain, is_out_of_memory, memory_in_use
from jupyter_gpupool.kernel.process import Process
from jupyter_gpupool.protocol.documents import IsolationDoc, ShareDoc
from tests.support.fake_pool import lease_doc

TORCH_SAYS = (
    "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to "
    "allocate 4000000000 bytes. Error code 12 (Cannot allocate memory)"
)


def a_lease(milli: int = 250) -> Lease:
    limit = IsolationDoc(
        resource=Resource.MEMORY,
        strength=Strength.SOFT,
        mechanism="RLIMIT_DATA",
        limit="2.0 GiB",
        verified=Verified.READ_BACK,
    )
    share = ShareDoc(device_id="CPU-1", device_name="cpu", compute_milli=milli, memory_bytes=2**31)
    doc = lease_doc(compute_milli=milli, memory_bytes=2**31, shares=[share], isolation=[limit])
    return Lease(Process(), doc, AppliedSettings())


def a_gpu_lease(used_bytes: int | None = None) -> Lease:
    def in_force(resource: Resource, limit: str) -> IsolationDoc:
        return IsolationDoc(
            resource=resource,
            strength=Strength.SOFT,
            mechanism="MPS",
            limit=limit,
            verified=Verified.READ_BACK,
        )

    share = ShareDoc(device_id="GPU-1", device_name="cuda0", compute_milli=250, memory_bytes=20 * 2**30)
    doc = lease_doc(
        kind=DeviceKind.CUDA,
        memory_bytes=20 * 2**30,
        shares=[share],
        isolation=[in_force(Resource.MEMORY, "20.0 GiB"), in_force(Resource.COMPUTE, "25 %")],
        memory_used_bytes=used_bytes,
    )
    return Lease(Process(), doc, AppliedSettings())


def cuda_error(text: str, name: str = "OutOfMemoryError", module: str = "torch") -> Exception:
    return type(name, (RuntimeError,), {"__module__": module})(text)


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError(TORCH_SAYS)])
def test_the_note_names_the_lease_its_limit_its_use_and_the_next_step(error):
    explain(error, [a_lease()])
    (note,) = error.__notes__
    for part in (
        "lease_1",
        "2.0 GiB of cpu (soft, by RLIMIT_DATA)",
        "are in use",
        "%gpupool resize 0.5",
        "del name",
    ):
        assert part in note
    assert "\n" not in note


def test_a_whole_device_cannot_be_asked_for_more():
    error = MemoryError()
    explain(error, [a_lease(1000)])
    assert "resize" not in error.__notes__[0]


@pytest.mark.parametrize(
    "error", [ValueError(), RuntimeError("dictionary changed size"), OSError(12, "no memory")]
)
def test_other_errors_get_no_note(error):
    assert not is_out_of_memory(error)
    explain(error, [a_lease()])
    assert not hasattr(error, "__notes__")


def test_one_note_is_enough():
    error = MemoryError()
    explain(error, [a_lease()])
    explain(error, [a_lease()])
    assert len(error.__notes__) == 1


def test_an_error_of_gpu_memory_is_not_blamed_on_a_lease_of_the_cpu():
    kind = type("OutOfMemoryError", (RuntimeError,), {"__module__": "torch"})
    assert is_out_of_memory(kind("CUDA out of memory"))
    error = kind("CUDA out of memory")
    explain(error, [a_lease()])
    assert not hasattr(error, "__notes__")


@pytest.mark.parametrize(
    "error",
    [
        cuda_error("CUDA out of memory. Tried to allocate 4.00 GiB. GPU 0 has a total capacity of 80 GiB"),
        cuda_error("Out of memory allocating 8,589,934,592 bytes", module="cupy.cuda.memory"),
        cuda_error("CUDA error: out of memory", name="AcceleratorError"),
        cuda_error("CUDA_ERROR_OUT_OF_MEMORY: out of memory", name="CUDADriverError", module="cupy_backends"),
        MemoryError("std::bad_alloc: out_of_memory: RMM failure at: limiting_resource_adaptor.hpp"),
        cuda_error("RESOURCE_EXHAUSTED: Out of memory while trying to allocate", name="XlaRuntimeError"),
    ],
)
def test_past_the_memory_of_a_gpu_the_note_names_lease_limit_mechanism_and_step(error):
    explain(error, [a_lease(), a_gpu_lease(19 * 2**30)])
    (note,) = error.__notes__
    for part in (
        "went past the memory of lease lease_1",
        "20.0 GiB of cuda0 (soft, by MPS)",
        "19.0 GiB",
        "%gpupool resize 0.5",
        "torch.cuda.empty_cache()",
    ):
        assert part in note


def test_a_device_that_others_filled_is_not_called_the_leases_limit():
    error = cuda_error("CUDA out of memory. Tried to allocate 512.00 MiB. GPU 0 has 3 MiB free")
    explain(error, [a_gpu_lease(2 * 2**30)])
    (note,) = error.__notes__
    assert note.startswith("This did not go past the memory of lease lease_1")
    assert "`%gpupool devices` shows who uses it without a lease" in note


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("CUDA error: the MPS client has been terminated by the server", "took this process off the GPU"),
        ("[MPS] CUDA_ERROR_MPS_CLIENT_TERMINATED (810)", "took this process off the GPU"),
        ("cudaErrorMpsServerNotReady", "serves another user"),
        ("CUDA_ERROR_MPS_SERVER_NOT_READY", "waits for all its processes to end"),
        ("MPS client failed to connect to the MPS control daemon", "cannot reach the MPS control program"),
        ("CUDA_ERROR_MPS_MAX_CLIENTS_REACHED", "serves as many processes as it can"),
        ("CUDA error: an illegal memory access was encountered", "may have been another's"),
    ],
)
def test_an_error_of_mps_is_one_sentence_with_the_next_step(text, said):
    error = cuda_error(text, name="AcceleratorError")
    explain(error, [a_lease(), a_gpu_lease()])
    (note,) = error.__notes__
    assert note.startswith("Lease lease_1: ")
    assert said in note
    assert "cuda0" in note
    assert "restart the kernel" in note or "end child processes" in note


def test_a_fault_without_mps_is_the_processes_own():
    error = cuda_error("CUDA error: an illegal memory access was encountered", name="AcceleratorError")
    lease = a_gpu_lease()
    for entry in lease.doc.isolation:
        entry.mechanism = "MIG"
    explain(error, [lease])
    assert not hasattr(error, "__notes__")


def test_what_is_in_use_is_what_the_limit_counts():
    used = memory_in_use()
    assert used is not None
    assert 2**20 < used < 2**40


REAL = """
import resource, sys
from IPython.core.interactiveshell import InteractiveShell
from tests.unit.kernel.test_oom import a_lease
from jupyter_gpupool.kernel import process
import numpy, torch
shell = InteractiveShell.instance(colors="nocolor")
lease = a_lease()
owner = lease._process
resource.setrlimit(resource.RLIMIT_DATA, (2**31, resource.getrlimit(resource.RLIMIT_DATA)[1]))
owner.hold(lease)
cells = ["import numpy; numpy.ones(2**30)", "import torch; torch.ones(2**30)", "bytearray(2**33)",
         "raise RuntimeError('mine')", "{}['key']"]
for cell in cells:
    result = shell.run_cell(cell)
    print("NOTES", getattr(result.error_in_exec, "__notes__", []))
owner.drop(lease)
print("AFTER", shell.custom_exceptions)
print("ALIVE", shell.run_cell("sum(numpy.ones(10))").result)
"""


@pytest.mark.slow
@pytest.mark.beside
def test_under_a_real_limit_numpy_and_torch_are_explained_and_the_process_lives_on():
    done = subprocess.run(
        [sys.executable, "-c", REAL], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    notes = [line for line in done.stdout.split("\n") if line.startswith("NOTES")]
    assert ["lease_1" in note for note in notes] == [True, True, True, False, False]
    assert "Unable to allocate" in done.stdout
    assert "DefaultCPUAllocator" in done.stdout
    assert done.stdout.count("This went past the memory of lease lease_1") == 6  # in the traceback, and above
    assert "RuntimeError: mine" in done.stdout
    assert "AFTER ()" in done.stdout
    assert "ALIVE 10.0" in done.stdout


def test_a_handler_that_stood_there_before_still_gets_its_turn():
    code = """
from IPython.core.interactiveshell import InteractiveShell
from tests.unit.kernel.test_oom import a_lease
shell = InteractiveShell.instance()
theirs = lambda self, kind, error, tb, tb_offset=None: print("THEIRS", error.__notes__)
shell.set_custom_exc((MemoryError,), theirs)
lease = a_lease()
lease._process.hold(lease)
shell.run_cell("raise MemoryError()")
lease._process.drop(lease)
print(shell.custom_exceptions)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert "THEIRS ['This went past the memory of lease lease_1" in done.stdout
    assert "(<class 'MemoryError'>,)" in done.stdout
