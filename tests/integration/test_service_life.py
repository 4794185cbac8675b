"""The life of a service process: started, found, started twice, restarted, stopped, not needed any more."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import urllib3

from jupyter_gpupool.client.embedded import lives
from jupyter_gpupool.protocol import names
from tests.support.pool_process import PoolProcess, running_pool, wait_for

EMULATE = "2xA100-80GB"


def serve(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``serve`` to its end."""
    return subprocess.run(
        [sys.executable, "-m", "jupyter_gpupool", "serve", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )


def test_two_services_started_at_once_are_one(pool_environment: dict[str, str]) -> None:
    first = PoolProcess(emulate=EMULATE, embedded=True)
    second = PoolProcess(emulate=EMULATE, embedded=True)
    second._log = second._log.with_name("second.log")
    try:
        first.start(wait=False)
        second.start(wait=False)
        pools = {first, second}
        loser = wait_for(
            lambda: next((it for it in pools if it.process and it.process.poll() is not None), None),
            "one of the two to give way",
        )
        winner = (pools - {loser}).pop()
        assert loser.process is not None
        assert loser.process.returncode == 0
        file = wait_for(lambda: winner.file, "the runtime file")
        assert file.pid == winner.pid
        assert f"A pool runs already: {file.url} (pid {winner.pid}" in loser.log()
        assert winner.get("/health").status == 200
    finally:
        first.cleanup()
        second.cleanup()


@pytest.mark.slow
@pytest.mark.beside
def test_in_a_terminal_a_second_service_is_refused_with_a_sentence(
    pool_environment: dict[str, str],
) -> None:
    with running_pool(emulate=EMULATE) as pool:
        done = serve("--emulate", EMULATE)
        assert done.returncode == 1
        assert f"A pool runs already: {pool.url}" in done.stderr
        assert pool.get("/health").status == 200


def test_a_killed_service_comes_back_at_the_same_place_with_the_same_leases(
    pool_environment: dict[str, str],
) -> None:
    with running_pool(emulate=EMULATE) as pool:
        url, token = pool.url, pool.token
        lease = pool.request(250)
        usage = pool.get("/api/v1/usage").body[0]["device_seconds"]
        pool.kill()
        assert pool.file is not None  # left behind, and known to be stale by its pid
        assert not lives(pool.file)
        pool.restart()
        assert (pool.url, pool.token) == (url, token)
        again = pool.lease(lease["id"])
        assert (again["state"], again["device"]) == ("attaching", lease["device"])
        doc = wait_for(lambda: pool.lease(lease["id"])["attach"], "a new ticket")
        assert doc["ticket"] != lease["attach"]["ticket"]
        assert pool.get("/api/v1/usage").body[0]["device_seconds"] >= usage
        assert pool.release(lease["id"])["state"] == "ended"


@pytest.mark.slow
@pytest.mark.beside
def test_a_port_that_is_taken_meanwhile_is_left_alone(pool_environment: dict[str, str]) -> None:
    import socket

    with running_pool(emulate=EMULATE) as pool:
        pool.stop()
        port = int((pool.runtime / "port").read_text())
        with socket.create_server(("127.0.0.1", port)):
            pool.restart()
            assert pool.url != f"http://127.0.0.1:{port}"


def test_a_service_that_ends_without_leases_takes_its_agent_along(pool_environment: dict[str, str]) -> None:
    with running_pool(emulate=EMULATE) as pool:
        agent = pool.agent_pid
        assert agent is not None
        assert pool.stop() == 0
        assert pool.file is None
        wait_for(lambda: not Path(f"/proc/{agent}/fd").exists() or pool.agent_pid is None, "the agent to end")


def test_a_service_that_ends_with_leases_leaves_its_agent(pool_environment: dict[str, str]) -> None:
    with running_pool(emulate=EMULATE) as pool:
        pool.request(250)
        agent = pool.agent_pid
        assert pool.stop() == 0
        assert pool.file is None
        assert pool.agent_pid == agent
        pool.restart()
        assert pool.agent_pid == agent
        assert len(pool.get("/api/v1/leases").body) == 1


@pytest.mark.slow
@pytest.mark.beside
def test_an_embedded_service_that_nobody_needs_ends_by_itself(pool_environment: dict[str, str]) -> None:
    pool = PoolProcess(emulate=EMULATE, embedded=True, arguments=("--PoolService.idle_exit_seconds=2",))
    try:
        pool.start()
        lease = pool.request(250)
        began = time.monotonic()
        while time.monotonic() - began < 3.5:  # a lease keeps it, also without any client
            assert pool.process is not None
            assert pool.process.poll() is None
            time.sleep(0.1)
        pool.release(lease["id"])
        agent = pool.agent_pid
        assert pool.process.wait(30) == 0
        assert agent is not None
        wait_for(lambda: pool.agent_pid is None, "the agent to end")
        assert pool.file is None
    finally:
        pool.cleanup()


@pytest.mark.slow
@pytest.mark.beside
def test_a_service_in_a_terminal_does_not_end_by_itself(pool_environment: dict[str, str]) -> None:
    with running_pool(emulate=EMULATE, arguments=("--PoolService.idle_exit_seconds=1",)) as pool:
        began = time.monotonic()
        while time.monotonic() - began < 2.5:
            assert pool.process is not None
            assert pool.process.poll() is None
            time.sleep(0.1)


def test_ctrl_c_ends_a_service_without_a_traceback(pool_environment: dict[str, str]) -> None:
    with running_pool(emulate=EMULATE) as pool:
        assert pool.process is not None
        pool.process.send_signal(signal.SIGINT)
        assert pool.process.wait(30) == 0
        assert "Traceback" not in pool.log()


def test_open_streams_and_polls_do_not_hold_a_service_up(pool_environment: dict[str, str]) -> None:
    with running_pool(emulate=EMULATE) as pool:
        lease = pool.request(10)
        http = urllib3.PoolManager(maxsize=4, retries=False)
        headers = {"Authorization": f"Bearer {pool.token}"}
        poll = f"{pool.url}/api/v1/leases/{lease['id']}?since={lease['tag']}&wait_seconds=60"
        stream = http.request("GET", f"{pool.url}/api/v1/events", headers=headers, preload_content=False)
        next(stream.stream(1024))
        answers: list[object] = []

        def look() -> None:
            try:
                answers.append(http.request("GET", poll, headers=headers, timeout=30).status)
            except urllib3.exceptions.HTTPError as error:
                answers.append(error)

        thread = threading.Thread(target=look)
        thread.start()
        began = time.monotonic()
        assert pool.stop() == 0
        assert time.monotonic() - began < 10
        thread.join(30)
        assert len(answers) == 1
        stream.close()
        http.clear()
        assert "Traceback" not in pool.log()


def test_a_runtime_directory_that_others_may_enter_is_refused(pool_environment: dict[str, str]) -> None:
    runtime = Path(os.environ[names.ENV_RUNTIME_DIR])
    runtime.mkdir(mode=0o755)
    done = serve()
    assert done.returncode == 1
    assert "Others may enter" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--ip", "0.0.0.0"), "plain HTTP never leaves the machine"),  # noqa: S104 - refused
        (("--ip", "192.0.2.1"), "plain HTTP never leaves the machine"),
        (("--PoolService.tokens={'bob': 'short'}",), "at least 16"),
        (("--emulate", "nonsense"), "not a device that can be emulated"),
    ],
)
def test_settings_that_cannot_work_are_refused_with_a_sentence(
    pool_environment: dict[str, str], arguments: tuple[str, ...], sentence: str
) -> None:
    done = serve(*arguments)
    assert done.returncode == 1
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_that_was_asked_for_and_is_taken_is_named(pool_environment: dict[str, str]) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = serve("--port", str(port))
    assert done.returncode == 1
    assert f"127.0.0.1:{port}" in done.stderr


class TestCommands:
    """``jupyter gpupool status``, ``stop`` and ``config``."""

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "jupyter_gpupool", *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "COLUMNS": "160"},
            stdin=subprocess.DEVNULL,
        )

    def test_status_says_that_no_pool_runs_and_starts_none(self, pool_environment: dict[str, str]) -> None:
        done = self.run("status")
        assert done.returncode == 1
        assert "No pool was found" in done.stderr
        assert not Path(os.environ[names.ENV_RUNTIME_DIR], names.POOL_FILE).exists()

    def test_stop_says_that_no_pool_runs(self, pool_environment: dict[str, str]) -> None:
        done = self.run("stop")
        assert done.returncode == 1
        assert "No pool runs" in done.stderr

    def test_status_shows_devices_leases_and_the_queue(self, pool_environment: dict[str, str]) -> None:
        with running_pool(
            emulate="1xA100-80GB", arguments=("--PoolService.waiter_grace_seconds=60",)
        ) as pool:
            held = pool.request(750, holder={"label": "[red]notebook.ipynb"})
            waiting = pool.request(500)
            done = self.run("status")
            assert done.returncode == 0, done.stderr
            for text in ("cuda0", "emulated", held["id"], waiting["id"], "[red]notebook.ipynb", "queued, 1."):
                assert text in done.stdout
            snapshot = json.loads(self.run("status", "--json").stdout)
            assert {"nodes", "devices", "leases", "queue"} <= snapshot.keys()
            assert sorted(lease["state"] for lease in snapshot["leases"]) == ["attaching", "queued"]

    def test_stop_leaves_leases_alone_unless_it_is_forced(self, pool_environment: dict[str, str]) -> None:
        with running_pool(emulate=EMULATE) as pool:
            pool.request(250)
            done = self.run("stop")
            assert done.returncode == 1
            assert "--force" in done.stderr
            assert pool.get("/health").status == 200
            done = self.run("stop", "--force")
            assert done.returncode == 0, done.stderr
            assert "has ended" in done.stdout
            assert pool.process is not None
            assert pool.process.wait(10) == 0
            wait_for(lambda: pool.agent_pid is None, "the agent to end")

    def test_config_says_where_each_value_came_from(
        self, pool_environment: dict[str, str], tmp_path: Path
    ) -> None:
        file = tmp_path / "my_config.py"
        file.write_text(
            "c.PoolService.sweep_seconds = 7\nc.PoolService.tokens = {'bob': 'a-secret-token-of-bob'}\n"
        )
        done = self.run("config", "--config", str(file), "--PoolService.port=4711")
        rows = {line.split()[0]: line for line in done.stdout.splitlines() if line.strip()}
        assert "7.0" in rows["PoolService.sweep_seconds"]
        assert "my_config.py" in done.stdout
        assert "4711" in rows["PoolService.port"]
        assert "command line" in rows["PoolService.port"]
        assert "default" in rows["PoolService.order"]
        assert "a-secret-token-of-bob" not in done.stdout
        assert names.ENV_RUNTIME_DIR in done.stdout

    def test_a_setting_that_does_not_exist_is_warned_of(
        self, pool_environment: dict[str, str], tmp_path: Path
    ) -> None:
        file = tmp_path / "my_config.py"
        file.write_text("c.PoolService.sweep_second = 7\nc.PoolServic.port = 1\n")
        done = self.run("config", "--config", str(file))
        assert "sweep_second" in done.stderr
        assert "PoolServic" in done.stderr

    @pytest.mark.parametrize("command", [(), ("serve",), ("agent",), ("status",), ("config",), ("stop",)])
    @pytest.mark.parametrize("option", ["--help", "--help-all", "--version"])
    def test_help_works_at_every_level(
        self, pool_environment: dict[str, str], command: tuple[str, ...], option: str
    ) -> None:
        done = self.run(*command, option)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip()
        assert "Traceback" not in done.stderr

    def test_help_is_quick_because_nothing_heavy_is_imported(self, pool_environment: dict[str, str]) -> None:
        code = (
            "import sys\n"
            "import jupyter_gpupool.app\n"
            "print([name for name in ('distributed', 'dask', 'tornado', 'torch', 'rich', 'sqlite3',"
            " 'urllib3', 'uvicorn', 'prometheus_client') if name in sys.modules])"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
        assert done.stdout.strip() == "[]", done.stderr
