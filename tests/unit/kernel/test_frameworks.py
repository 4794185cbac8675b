"""Installed frameworks are told by their metadata alone, and only loaded ones are touched."""

from __future__ import annotations

import subprocess
import sys

from jupyter_gpupool.kernel.frameworks import installed


def test_versions_are_known_without_an_import():
    code = (
        "import sys; from jupyter_gpupool.kernel.frameworks import installed; "
        "print(installed().get('pytorch', '')); print('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    version, imported = done.stdout.split()
    assert version[0].isdigit()
    assert imported == "False"


def test_the_first_distribution_that_is_installed_says_the_version(tmp_path, monkeypatch):
    for name, version in (("cupy-cuda12x", "14.0.1"), ("rmm-cu12", "26.8.0")):
        folder = tmp_path / f"{name.replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = installed()
    assert found["cupy"] == "14.0.1"
    assert found["rmm"] == "26.8.0"
    assert "tensorflow" not in found


def test_a_changed_answer_changes_nothing_for_the_next_caller():
    installed()["pytorch"] = "0"
    assert installed().get("pytorch") != "0"
