"""Starting processes as the agent's own user."""

from __future__ import annotations

import ast
import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from jupyter_gpupool.cluster.launchers import spawn
from jupyter_gpupool.cluster.launchers.accounts import Accounts, own_account
from jupyter_gpupool.cluster.launchers.base import Exit, Launched, LaunchRecord, LaunchSpec
from jupyter_gpupool.cluster.launchers.errors import (
    AccountRefused,
    DirectoryRefused,
    LaunchError,
    ProgramNotFound,
)
from jupyter_gpupool.cluster.launchers.output import MOST_BYTES, Output
from jupyter_gpupool.cluster.launchers.same_user import SameUserLauncher
from jupyter_gpupool.cluster.peer import find
from jupyter_gpupool.protocol import codec
from tests.support.waiting import until

pytestmark = pytest.mark.asyncio

OWN = own_account().name


def launcher(
    directory: Path, mapping: Mapping[str, str] | None = None, *, joined: bool = False
) -> SameUserLauncher:
    return SameUserLauncher(
        directory / "launched", accounts=Accounts(mapping or {}, node="n2"), node="n2", joined=joined
    )


def python(code: str, *, stdin: bytes = b"", cwd: str = "/", **env: str) -> LaunchSpec:
    return LaunchSpec(owner=OWN, argv=(sys.executable, "-I", "-c", code), env=env, cwd=cwd, stdin=stdin)


async def ended(started: Launched) -> Exit:
    try:
        async with asyncio.timeout(30):
            return await started.wait()
    finally:
        started.close()


async def running(started: Launched, word: str) -> None:
    await until(lambda: started.last_words() == word, what=f"the process has written {word}")


async def test_a_process_runs_and_its_end_is_told_with_its_last_words(tmp_path: Path) -> None:
    started = await launcher(tmp_path).launch(python("print('first'); print('last', flush=True); exit(3)"))

    assert await ended(started) == Exit(status=3, signal=None, last_words="last")
    assert list((tmp_path / "launched").iterdir()) == []


async def test_a_process_that_a_signal_ended_is_told_so(tmp_path: Path) -> None:
    started = await launcher(tmp_path).launch(python("import time; print('up', flush=True); time.sleep(300)"))
    await running(started, "up")

    await started.signal(signal.SIGKILL)

    how = await ended(started)
    assert how == Exit(status=None, signal=signal.SIGKILL, last_words="up")
    assert str(how) == "It was ended by SIGKILL: up"


async def test_secrets_arrive_on_standard_input_and_stand_nowhere_else(tmp_path: Path) -> None:
    secret = b"key-7193" * 5000
    code = "import sys, time; data = sys.stdin.buffer.read(); print(len(data), flush=True); time.sleep(300)"
    started = await launcher(tmp_path).launch(python(code, stdin=secret))
    await running(started, "40000")

    process = Path("/proc") / str(started.pid)
    seen = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
    await started.end()
    started.close()

    assert b"7193" not in seen
    assert "7193" not in repr(python(code, stdin=secret))


async def test_a_process_leads_a_session_of_its_own(tmp_path: Path) -> None:
    started = await launcher(tmp_path).launch(python("import time; print('up', flush=True); time.sleep(300)"))
    await running(started, "up")

    assert os.getsid(started.pid) == os.getpgid(started.pid) == started.pid
    assert started.pid != os.getsid(0)
    await started.end()
    started.close()


async def test_the_environment_is_what_was_wanted_and_allowed_and_nothing_of_the_agents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_OF_THE_AGENT", "1")
    code = "import os; print(sorted(os.environ.items()))"
    wanted = {"LANG": "C.UTF-8", "LD_PRELOAD": "/tmp/evil.so", "HOME": "/elsewhere", "BASH_ENV": "x"}
    started = await launcher(tmp_path).launch(python(code, **wanted))

    told = dict(ast.literal_eval((await ended(started)).last_words))
    told.pop("LC_CTYPE", None)  # Python's own
    account = own_account()
    assert told == {"LANG": "C.UTF-8", "PATH": spawn.DEFAULT_PATH} | account.environment


async def test_a_program_that_is_not_on_the_node_is_named(tmp_path: Path) -> None:
    spec = LaunchSpec(owner=OWN, argv=("python9.99", "-m", "x"), env={"PATH": "/usr/bin"}, cwd="/")

    with pytest.raises(ProgramNotFound, match=r"on node n2: python9\.99 was not found") as refused:
        await launcher(tmp_path).launch(spec)

    assert "Install it on the node" in refused.value.hint
    assert list((tmp_path / "launched").iterdir()) == []


async def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DirectoryRefused, match="/nowhere/at/all cannot be entered"):
        await launcher(tmp_path).launch(python("0", cwd="/nowhere/at/all"))


async def test_a_program_is_looked_for_on_the_path_that_was_wanted(tmp_path: Path) -> None:
    program = tmp_path / "my-program"
    program.write_text("#!/bin/sh\necho found\n")
    program.chmod(0o755)
    spec = LaunchSpec(owner=OWN, argv=("my-program",), env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, cwd="/")

    assert (await ended(await launcher(tmp_path).launch(spec))).last_words == "found"


async def test_a_file_that_is_no_program_ends_and_says_so(tmp_path: Path) -> None:
    program = tmp_path / "broken"
    program.write_bytes(b"\x7fELF not really")
    program.chmod(0o755)

    how = await ended(await launcher(tmp_path).launch(LaunchSpec(owner=OWN, argv=(str(program),), cwd="/")))

    assert how.status == 126
    assert "cannot be run" in how.last_words


@pytest.mark.parametrize(
    "spec",
    [
        LaunchSpec(owner=OWN, argv=()),
        LaunchSpec(owner=OWN, argv=("true", "a\0b")),
        LaunchSpec(owner=OWN, argv=("true",), env={"JUPYTER_=x": "1"}),
    ],
)
async def test_what_no_process_can_be_given_is_refused(tmp_path: Path, spec: LaunchSpec) -> None:
    with pytest.raises(LaunchError):
        await launcher(tmp_path, {OWN: OWN}).launch(spec)


async def test_what_a_process_started_in_its_group_ends_with_it(tmp_path: Path) -> None:
    spec = LaunchSpec(owner=OWN, argv=("/bin/sh", "-c", "sleep 300 & echo $!; wait"), cwd="/")
    started = await launcher(tmp_path).launch(spec)
    await until(started.last_words, what="the child is there")
    child = int(started.last_words())

    await started.end()
    started.close()

    await until(lambda: not Path(f"/proc/{child}").exists() or _is_zombie(child), what="the child is gone")


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


async def test_a_process_that_ignores_a_polite_end_is_made_to(tmp_path: Path) -> None:
    code = (
        "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); time.sleep(300)"
    )
    started = await launcher(tmp_path).launch(python(code))
    await running(started, "deaf")

    how = await started.end(seconds=0.1)
    started.close()

    assert how.signal == signal.SIGKILL


async def test_signals_work_in_it_though_the_agent_ignores_them(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        code = (
            "import time\ntry: print('up', flush=True); time.sleep(9e4)\nexcept BaseException: print('off')"
        )
        started = await launcher(tmp_path).launch(python(code))
    finally:
        signal.signal(signal.SIGINT, before)
    await running(started, "up")

    await started.signal(signal.SIGINT)

    assert await ended(started) == Exit(status=0, signal=None, last_words="off")


async def _launched_by_an_agent_that_ended(tmp_path: Path, then: str) -> bytes:
    """Start a process from another one, which ends as soon as the first has written a word."""
    code = f"""
import asyncio, sys
from pathlib import Path
from tests.unit.cluster.launchers.test_same_user import codec, launcher, python, running

async def main():
    spec = python("import time; print('up', flush=True); {then}")
    started = await launcher(Path({str(tmp_path)!r})).launch(spec)
    await running(started, "up")
    sys.stdout.buffer.write(codec.encode(started.record))

asyncio.run(main())
"""
    agent = await asyncio.create_subprocess_exec(
        *(sys.executable, "-W", "ignore", "-c", code), stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(60):
        told, _ = await agent.communicate()
    assert agent.returncode == 0
    return told


async def test_the_next_agent_takes_a_process_over_by_its_record(tmp_path: Path) -> None:
    record = codec.decode(await _launched_by_an_agent_that_ended(tmp_path, "time.sleep(300)"), LaunchRecord)

    taken = await launcher(tmp_path).adopt(record)

    assert taken is not None
    assert (taken.pid, taken.last_words()) == (record.process.pid, "up")
    how = await taken.end()
    taken.close()
    assert (how.status, how.signal) == (None, None)
    assert "agent was started anew" in str(how)


async def test_a_process_that_ended_meanwhile_is_not_taken_over_and_its_output_goes(tmp_path: Path) -> None:
    record = codec.decode(await _launched_by_an_agent_that_ended(tmp_path, ""), LaunchRecord)
    await until(lambda: find(record.process) is None, what="the process has ended")

    assert await launcher(tmp_path).adopt(record) is None
    assert list((tmp_path / "launched").iterdir()) == []


async def test_another_owner_has_no_processes_here_and_is_told_why(tmp_path: Path) -> None:
    with pytest.raises(AccountRefused, match="starts no processes for somebody: its agent starts") as refused:
        await launcher(tmp_path).launch(LaunchSpec(owner="somebody", argv=("true",)))

    assert "administrator" in refused.value.hint


async def test_an_administrator_may_give_an_owner_the_agents_account(tmp_path: Path) -> None:
    assert launcher(tmp_path, {"ann@example.org": OWN}).account("ann@example.org") == OWN


@pytest.mark.skipif(os.geteuid() >= 1000, reason="needs an agent that runs as a system account")
async def test_on_a_joined_node_an_owner_called_like_the_agents_system_account_is_not_it(
    tmp_path: Path,
) -> None:
    with pytest.raises(AccountRefused, match="an account of the system"):
        launcher(tmp_path, joined=True).account(OWN)

    assert launcher(tmp_path, {OWN: OWN}, joined=True).account(OWN) == OWN


async def test_waiting_for_a_process_that_is_cancelled_ends_nothing(tmp_path: Path) -> None:
    started = await launcher(tmp_path).launch(python("import time; print('up', flush=True); time.sleep(300)"))
    await running(started, "up")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await started.wait()

    os.kill(started.pid, 0)
    await started.end()
    started.close()


async def test_an_output_that_grew_too_large_is_emptied_and_its_process_goes_on(tmp_path: Path) -> None:
    output = Output(tmp_path, "one")
    handle = output.create()
    os.write(handle, b"x" * (MOST_BYTES + 1))
    output.trim()
    os.write(handle, b"later\n")
    os.close(handle)

    assert output.last_words() == "later"
    assert (tmp_path / "one.out").stat().st_size == len(b"later\n")
