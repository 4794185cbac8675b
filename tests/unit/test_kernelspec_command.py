"""``jupyter gpupool kernelspec install``, as people type it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.protocol.wanted import WAIT_SECONDS, read_wanted
from tests.unit.test_join_commands import Terminal

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="pools run on Linux")


@pytest.fixture
def terminal(capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal(capsys)


def test_an_entry_is_written_that_names_share_and_provisioner(terminal: Terminal, tmp_path: Path) -> None:
    said = terminal(f"kernelspec install --share 1/4 --kind cuda --wait 2m --prefix {tmp_path}")
    folder = tmp_path / "share/jupyter/kernels/gpupool-0.25"
    assert str(folder) in said
    spec = json.loads((folder / "kernel.json").read_text())
    assert spec["display_name"] == "Python 3 · pool 0.25"
    assert spec["metadata"]["kernel_provisioner"] == {"provisioner_name": "gpupool-node-provisioner"}
    wanted = read_wanted(spec["metadata"]).request
    assert (wanted.compute_milli, wanted.kind, wanted.wait_seconds) == (250, DeviceKind.CUDA, 120.0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("", "Which share?"),
        ("--share 7", "more than one device"),
        ("--share 0.5 --kind gpu", "Give one of"),
        ("--share 0.5 --name a/b", "cannot be installed"),
    ],
)
def test_what_would_not_start_is_not_installed(
    terminal: Terminal, tmp_path: Path, options: str, said: str
) -> None:
    assert said in terminal(f"kernelspec install {options} --prefix {tmp_path}", status=1)
    assert not list(tmp_path.rglob("kernel.json"))


def test_a_kernelspec_without_a_share_or_with_something_unknown_is_refused_in_words() -> None:
    with pytest.raises(InvalidValue, match="does not say which share"):
        read_wanted({})
    with pytest.raises(InvalidValue, match="“shares” in the metadata"):
        read_wanted({"gpupool": {"share": 0.5, "shares": 2}})
    assert read_wanted({"gpupool": {"share": 0.5}}).request.wait_seconds == WAIT_SECONDS
