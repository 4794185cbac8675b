"""What a lease's environment becomes beside a user's own settings."""

from __future__ import annotations

import subprocess
import sys

import pytest

from jupyter_gpupool.protocol.frameworks import applied, cap_environment, version

TORCH = {"pytorch": "2.13.0+cu130"}
GIB = 2**30


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ({}, {"PYTORCH_ALLOC_CONF": "per_process_memory_fraction:0.2500"}),
        (
            {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
            {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True,per_process_memory_fraction:0.2500"},
        ),
        (
            {"PYTORCH_ALLOC_CONF": "per_process_memory_fraction:0.1,max_split_size_mb:64"},
            {"PYTORCH_ALLOC_CONF": "max_split_size_mb:64,per_process_memory_fraction:0.1"},
        ),
        (
            {"PYTORCH_ALLOC_CONF": "per_process_memory_fraction:0.9"},
            {"PYTORCH_ALLOC_CONF": "per_process_memory_fraction:0.2500"},
        ),
        (
            {"PYTORCH_ALLOC_CONF": "roundup_power2_divisions:[256:1,>:4],pinned_use_background_threads:True"},
            {
                "PYTORCH_ALLOC_CONF": "roundup_power2_divisions:[256:1,>:4],"
                "pinned_use_background_threads:True,per_process_memory_fraction:0.2500"
            },
        ),
    ],
    ids=["none", "extended", "own lower cap", "own higher cap", "brackets"],
)
def test_pytorchs_settings_are_extended_and_never_overwritten(
    before: dict[str, str], expected: dict[str, str]
) -> None:
    told = {"PYTORCH_CUDA_ALLOC_CONF": cap_environment(20 * GIB, 80 * GIB)["PYTORCH_CUDA_ALLOC_CONF"]}
    assert applied(told, before, TORCH) == expected


@pytest.mark.parametrize("installed", [{}, {"pytorch": "2.9.1"}, {"pytorch": "1.13"}])
def test_a_pytorch_that_would_fail_on_the_setting_does_not_get_it(installed: dict[str, str]) -> None:
    made = applied(cap_environment(GIB, 4 * GIB), {}, installed)
    assert not [name for name in made if name.startswith("PYTORCH")]


def test_jax_gets_one_name_only_because_it_refuses_both() -> None:
    told = cap_environment(GIB, 4 * GIB)
    assert applied(told, {}, {})["XLA_PYTHON_CLIENT_MEM_FRACTION"] == "0.2500"
    newer = applied(told, {"XLA_CLIENT_MEM_FRACTION": "0.9"}, {})
    assert newer["XLA_CLIENT_MEM_FRACTION"] == "0.2500"
    assert "XLA_PYTHON_CLIENT_MEM_FRACTION" not in newer
    assert applied(told, {"XLA_CLIENT_MEM_FRACTION": ".1"}, {})["XLA_CLIENT_MEM_FRACTION"] == ".1"


@pytest.mark.parametrize(
    ("own", "expected"), [("", GIB), ("1024", 1024), ("10%", "10%"), ("80%", GIB), ("no", GIB)]
)
def test_cupys_limit_is_the_lower_one(own: str, expected: object) -> None:
    before = {"CUPY_GPU_MEMORY_LIMIT": own} if own else {}
    assert applied(cap_environment(GIB, 4 * GIB), before, {})["CUPY_GPU_MEMORY_LIMIT"] == str(expected)


def test_tensorflow_grows_unless_the_user_decided() -> None:
    told = cap_environment(GIB, 4 * GIB)
    assert applied(told, {}, {})["TF_FORCE_GPU_ALLOW_GROWTH"] == "true"
    assert "TF_FORCE_GPU_ALLOW_GROWTH" not in applied(told, {"TF_FORCE_GPU_ALLOW_GROWTH": "false"}, {})


def test_what_is_not_about_frameworks_passes_unchanged() -> None:
    told = {"CUDA_VISIBLE_DEVICES": "GPU-1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert applied(told, {"CUDA_VISIBLE_DEVICES": "0"}, TORCH) == told


@pytest.mark.parametrize(("text", "numbers"), [("2.13.0+cu130", (2, 13, 0)), ("2", (2,)), ("nightly", ())])
def test_a_version_is_the_numbers_that_it_begins_with(text: str, numbers: tuple[int, ...]) -> None:
    assert version(text) == numbers


@pytest.mark.slow
def test_the_installed_pytorch_reads_what_we_write() -> None:
    pytest.importorskip("torch")
    settings = applied(
        cap_environment(20 * GIB, 80 * GIB), {"PYTORCH_ALLOC_CONF": "max_split_size_mb:64"}, TORCH
    )["PYTORCH_ALLOC_CONF"]
    code = "import sys, torch; torch._C._accelerator_setAllocatorSettings(sys.argv[1])"
    subprocess.run([sys.executable, "-c", code, settings], check=True, timeout=60)
