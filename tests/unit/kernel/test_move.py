"""When a move has failed, what was saved for it is kept unless the lease is surely where it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_gpupool.core.leases import LeaseState
from jupyter_gpupool.kernel.move import stays
from jupyter_gpupool.protocol.filesystems import network_filesystem
from tests.support.fake_pool import lease_doc


@pytest.mark.parametrize(
    ("state", "generation", "stayed"),
    [
        (LeaseState.ACTIVE, 3, True),
        (LeaseState.ATTACHING, 4, False),
        (LeaseState.ACTIVE, 4, False),
        (LeaseState.ENDING, 3, False),
    ],
)
def test_a_lease_that_is_held_by_another_process_or_none_has_gone_ahead(
    state: LeaseState, generation: int, stayed: bool
) -> None:
    before = lease_doc(state=LeaseState.ACTIVE, generation=3)
    assert stays(before, lease_doc(state=state, generation=generation)) is stayed


def test_a_lease_of_which_nobody_can_say_anything_may_have_gone_ahead() -> None:
    assert not stays(lease_doc(state=LeaseState.ACTIVE, generation=3), None)


def test_a_network_filesystem_is_one_that_other_nodes_see(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text("/dev/sda1 / ext4 rw 0 0\nserver:/home /home nfs4 rw 0 0\n")
    assert network_filesystem(Path("/home/ann/.local/share"), mounts) == "nfs4"
    assert network_filesystem(Path("/var/lib"), mounts) == ""
    assert network_filesystem(Path("/home"), tmp_path / "none") == ""
