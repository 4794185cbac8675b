"""Whether a holder could open another device than its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jupyter_gpupool.backends.nvidia.devicenodes import ANYBODY, Identity, identity, open_besides

ANN = Identity(uid=os.geteuid() + 12345, groups=frozenset({os.getegid() + 12345}))


def dev(folder: Path, *names: str, closed: tuple[str, ...] = ()) -> Path:
    """Make device files: all may read them, but those that are closed."""
    for name in (*names, *closed):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
        path.chmod(0o600 if name in closed else 0o666)
    return folder


@pytest.mark.parametrize("who", [ANN, ANYBODY])
def test_a_device_is_closed_when_it_is_the_only_one_that_can_be_opened(tmp_path: Path, who: Identity) -> None:
    names = ("nvidia0", "nvidiactl", "nvidia-uvm", "nvidia-modeset")
    assert open_besides(who, dev(tmp_path, *names, closed=("nvidia1",))) == ""


def test_another_gpu_that_is_open_is_named(tmp_path: Path) -> None:
    found = open_besides(ANN, dev(tmp_path, "nvidia0", "nvidia3", "nvidiactl"))
    assert found == "/dev/nvidia0 and /dev/nvidia3 are open to it"


def test_a_mig_instance_is_opened_through_two_files_and_others_count(tmp_path: Path) -> None:
    own = ("nvidia0", "nvidia-caps/nvidia-cap12", "nvidia-caps/nvidia-cap13")
    kept = ("nvidia-caps/nvidia-cap1", "nvidia-caps/nvidia-cap2")
    dev(tmp_path, *own, *kept, closed=("nvidia-caps/nvidia-cap21",))
    assert open_besides(ANN, tmp_path, instance=True) == ""
    dev(tmp_path, "nvidia-caps/nvidia-cap30")
    assert "other MIG instances' files" in open_besides(ANN, tmp_path, instance=True)
    assert open_besides(ANN, tmp_path) == ""


def test_root_can_open_everything_and_what_cannot_be_looked_at_counts_as_open(tmp_path: Path) -> None:
    assert open_besides(Identity(uid=0), dev(tmp_path, "nvidia0")) == "the holder runs as root"
    assert open_besides(ANN, tmp_path / "none") == "its device files cannot be looked at"


def test_where_all_gpus_share_one_device_file_none_is_closed(tmp_path: Path) -> None:
    found = open_besides(ANN, dev(tmp_path, "dxg"))
    assert found == "there are no device files of single GPUs that could be closed"


def test_owner_and_group_count_as_the_kernel_counts_them(tmp_path: Path) -> None:
    dev(tmp_path, "nvidia0", closed=("nvidia1",))
    owner = Identity(uid=os.geteuid() or 4242)
    if os.geteuid() == 0:
        os.chown(tmp_path / "nvidia1", 4242, -1)
    assert "are open to it" in open_besides(owner, tmp_path)
    (tmp_path / "nvidia1").chmod(0o640)
    group = (tmp_path / "nvidia1").stat().st_gid
    assert "are open to it" in open_besides(Identity(uid=ANN.uid, groups=frozenset({group})), tmp_path)


def test_who_a_process_is_is_read_from_its_status() -> None:
    me = identity(os.getpid())
    assert me is not None
    assert me.uid == os.geteuid()
    assert os.getegid() in me.groups
    assert identity(2**22 + 1) is None
