"""The lock that makes an agent the only one."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from jupyter_gpupool.cluster import lockfile
from jupyter_gpupool.cluster.errors import AgentRuns

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="agents run on Linux")


def test_the_second_is_refused_and_told_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lockfile, "TRY_SECONDS", 0.0)
    handle = lockfile.hold(tmp_path / "agent.lock")
    with pytest.raises(AgentRuns, match=str(tmp_path)):
        lockfile.hold(tmp_path / "agent.lock")
    os.close(handle)


def test_who_has_it_is_found_while_it_lives(tmp_path: Path) -> None:
    path = tmp_path / "agent.lock"
    assert lockfile.holder(path) is None
    handle = lockfile.hold(path)
    pidfd = lockfile.holder(path)
    assert pidfd is not None
    assert f"Pid:\t{os.getpid()}\n" in Path(f"/proc/self/fdinfo/{pidfd}").read_text()
    os.close(pidfd)
    os.close(handle)
    assert lockfile.holder(path) is None
