"""A process is written down before it becomes the program: an agent that dies in between leaves nothing."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from jupyter_gpupool.cluster.launchers.accounts import Accounts, own_account
from jupyter_gpupool.cluster.launchers.base import LaunchRecord, LaunchSpec
from jupyter_gpupool.cluster.launchers.same_user import SameUserLauncher
from jupyter_gpupool.cluster.peer import find
from jupyter_gpupool.protocol import codec
from tests.support.waiting import until

pytestmark = pytest.mark.asyncio

OWN = own_account().name
#: An agent that is killed when it is about to write down, or just has written down, what it starts.
AGENT = """
import asyncio, os, signal, sys
from pathlib import Path
from jupyter_gpupool.cluster.launchers.accounts import Accounts
from jupyter_gpupool.cluster.launchers.base import LaunchSpec
from jupyter_gpupool.cluster.launchers.same_user import SameUserLauncher
from jupyter_gpupool.protocol import codec

directory, owner, mark = Path(sys.argv[1]), sys.argv[2], sys.argv[3]

def keep(record):
    (directory / "record").write_bytes(codec.encode(record))
    os.kill(os.getpid(), signal.SIGKILL)

spec = LaunchSpec(owner=owner, argv=("/bin/sh", "-c", f"touch {mark}; exec sleep 300"), cwd="/")
launcher = SameUserLauncher(directory / "launched", accounts=Accounts({owner: owner}, node="n"), node="n")
asyncio.run(launcher.launch(spec, keep))
"""


def launcher(directory: Path) -> SameUserLauncher:
    return SameUserLauncher(directory / "launched", accounts=Accounts({OWN: OWN}, node="n"), node="n")


def touching(mark: Path) -> LaunchSpec:
    return LaunchSpec(owner=OWN, argv=("/bin/sh", "-c", f"touch {mark}; exec sleep 300"), cwd="/")


async def test_an_agent_that_is_killed_while_it_writes_it_down_leaves_no_process(tmp_path: Path) -> None:
    mark = tmp_path / "began"
    agent = await asyncio.create_subprocess_exec(sys.executable, "-c", AGENT, str(tmp_path), OWN, str(mark))
    async with asyncio.timeout(60):
        assert await agent.wait() == -signal.SIGKILL
    record = codec.decode((tmp_path / "record").read_bytes(), LaunchRecord)

    await until(lambda: find(record.process) is None, what="the process to be gone")

    assert not mark.exists()
    assert await launcher(tmp_path).adopt(record) is None
    assert list((tmp_path / "launched").iterdir()) == []


async def test_what_cannot_be_written_down_does_not_begin(tmp_path: Path) -> None:
    mark, seen = tmp_path / "began", []

    def keep(record: LaunchRecord) -> None:
        seen.append(record)
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        await launcher(tmp_path).launch(touching(mark), keep)

    assert find(seen[0].process) is None
    assert not mark.exists()
    assert list((tmp_path / "launched").iterdir()) == []


async def test_it_is_written_down_as_the_process_that_it_becomes(tmp_path: Path) -> None:
    mark, seen = tmp_path / "began", []

    def keep(record: LaunchRecord) -> None:
        assert find(record.process) is not None
        assert not mark.exists()
        seen.append(record)

    started = await launcher(tmp_path).launch(touching(mark), keep)

    assert seen == [started.record]
    await until(mark.exists, what="the program to begin")
    os.kill(started.pid, 0)
    await started.end()
    started.close()
