"""The Python API in plain processes: no Jupyter, no IPython, and a pool that starts on first use."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_gpupool.client.embedded import lives, read_runtime_file, start_ticks
from jupyter_gpupool.core.leases import LeaseState
from jupyter_gpupool.protocol import names
from tests.support.pool_process import PATIENCE_SECONDS, PoolProcess, running_pool, wait_for


@pytest.fixture
def embedded(pool_environment) -> Iterator[Path]:
    """Give the runtime directory of a pool that the test's own processes start, and end that afterwards."""
    runtime = Path(pool_environment[names.ENV_RUNTIME_DIR])
    yield runtime
    watcher = PoolProcess(pool_environment)
    watcher.cleanup()
    wait_for(lambda: not ((file := read_runtime_file(runtime)) and lives(file)), "the pool to be gone")


def python(code: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a plain Python process."""
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=90, check=False
    )


SESSION = """
import json, os, resource, sys
import jupyter_gpupool as gpupool
before = resource.getrlimit(resource.RLIMIT_DATA)
with gpupool.request(0.25, memory="2GiB") as lease:
    during = resource.getrlimit(resource.RLIMIT_DATA)
    assert lease.state.value == "active", lease
    assert gpupool.current() is lease
    assert [d.name for d in gpupool.devices()] == ["cpu"]
    assert lease.why()
    lease.resize("50%", memory="3GiB")
    resized = resource.getrlimit(resource.RLIMIT_DATA)
    assert lease.share == 0.5 and lease.memory_bytes == 3 * 2**30
after = resource.getrlimit(resource.RLIMIT_DATA)
assert lease.state.value == "ended" and gpupool.current() is None
print(json.dumps([before, during, resized, after, lease.device, "IPython" in sys.modules]))
"""


def test_a_plain_process_starts_the_pool_on_first_use_and_is_limited_while_it_holds(
    embedded, pool_environment
):
    done = python(SESSION, pool_environment)
    assert done.returncode == 0, done.stderr
    before, during, resized, after, device, ipython = json.loads(done.stdout)
    assert during == [2 * 2**30, before[1]]
    assert resized == [3 * 2**30, before[1]]
    assert after == before
    assert device == "cpu"
    assert not ipython
    file = read_runtime_file(embedded)
    assert file is not None
    assert lives(file)
    assert file.embedded


def test_processes_that_start_at_once_share_one_pool(embedded, pool_environment):
    code = (
        "import jupyter_gpupool as g; g.pool(); from jupyter_gpupool.kernel.process import this_process;"
        "print(this_process().client.connection.url)"
    )
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            env=pool_environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    answers = [process.communicate(timeout=90) for process in started]
    assert [process.returncode for process in started] == [0, 0, 0], answers
    assert len({out for out, _ in answers}) == 1


@pytest.mark.slow
@pytest.mark.beside
def test_a_process_that_ends_without_releasing_leaves_nothing(pool_environment):
    with running_pool(pool_environment, embedded=True) as pool:
        done = python("import jupyter_gpupool as g; print(g.request(0.5).id)", pool_environment)
        assert done.returncode == 0, done.stderr
        pool.wait_state(done.stdout.strip(), "ended")
        assert pool.get("/api/v1/devices").body[0]["free_compute_milli"] == 1000


@pytest.mark.slow
@pytest.mark.beside
def test_an_interrupted_script_leaves_no_ghost(pool_environment):
    with running_pool(pool_environment, embedded=True) as pool:
        holding = subprocess.Popen(
            [
                sys.executable,
                "-c",
                "import jupyter_gpupool as g, time; g.request(0.75, memory='1GiB'); time.sleep(600)",
            ],
            env=pool_environment,
        )
        waiting = None
        try:
            wait_for(lambda: any(d["state"] == "active" for d in pool.get("/api/v1/leases").body), "a holder")
            waiting = subprocess.Popen(
                [sys.executable, "-c", "import jupyter_gpupool as g; g.request(0.5, memory='1GiB')"],
                env=pool_environment,
                stderr=subprocess.PIPE,
                text=True,
            )
            assert waiting.stderr is not None
            assert "position 1" in waiting.stderr.readline()
            waiting.send_signal(signal.SIGINT)
            _, said = waiting.communicate(timeout=PATIENCE_SECONDS)
            assert waiting.returncode != 0
            assert "KeyboardInterrupt: The request was cancelled; nothing is held or waits." in said
            assert pool.get("/api/v1/queue").body == []
        finally:
            for process in (holding, waiting):
                if process is not None:
                    process.kill()
                    process.wait()


@pytest.mark.slow
@pytest.mark.beside
def test_a_holder_whose_pool_died_restarts_it_free_of_its_own_limits(pool_environment):
    code = """
import os, sys
import jupyter_gpupool as gpupool
lease = gpupool.request(0.25, memory="2GiB")
print(lease.id, flush=True)
sys.stdin.readline()
print(gpupool.pool().leases[0].id, flush=True)
sys.stdin.readline()
lease.release()
print(lease.state.value, flush=True)
"""
    with running_pool(pool_environment, embedded=True) as pool:
        holder = subprocess.Popen(
            [sys.executable, "-c", code],
            env=pool_environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert holder.stdin is not None
        assert holder.stdout is not None
        try:
            lease_id = holder.stdout.readline().strip()
            pool.kill()
            holder.stdin.write("go\n")
            holder.stdin.flush()
            assert holder.stdout.readline().strip() == lease_id
            file = pool.file
            assert file is not None
            assert file.pid != pool.pid
            limits = Path(f"/proc/{file.pid}/limits").read_text()
            assert str(2 * 2**30) not in limits
            status = Path(f"/proc/{file.pid}/stat").read_bytes().rpartition(b")")[2].split()
            assert int(status[1]) != holder.pid  # nobody's child
            pool.wait_joined()
            holder.stdin.write("go\n")
            holder.stdin.flush()
            assert holder.stdout.readline().strip() == LeaseState.ENDED.value
        finally:
            holder.kill()
            holder.communicate()


@pytest.mark.slow
@pytest.mark.beside
def test_a_pool_somewhere_else_is_used_when_it_is_named(pool_environment):
    with running_pool(pool_environment) as pool:
        elsewhere = pool_environment | {
            names.ENV_RUNTIME_DIR: pool_environment[names.ENV_RUNTIME_DIR] + "-other"
        }
        code = (
            "import sys, jupyter_gpupool as g; url, token = sys.stdin.read().split();"
            "g.connect(url, token); print([d.name for d in g.devices()])"
        )
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=elsewhere,
            input=f"{pool.url}\n{pool.token}\n",
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.stdout.strip() == "['cpu']", done.stderr
        assert not Path(elsewhere[names.ENV_RUNTIME_DIR]).exists()


def test_without_a_pool_and_without_leave_to_start_one_the_error_lists_what_was_tried(pool_environment):
    done = python("import jupyter_gpupool as g; g.devices()", pool_environment | {names.ENV_AUTOSTART: "0"})
    assert done.returncode != 0
    assert "No pool was found. Tried: no URL was passed;" in done.stderr
    assert not Path(pool_environment[names.ENV_RUNTIME_DIR], names.POOL_FILE).exists()


def test_a_dead_process_has_no_start_time():
    assert start_ticks(os.getpid()) is not None
    assert start_ticks(2**22 + 1) is None
