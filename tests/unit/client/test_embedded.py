"""Joining and replacing a pool; and starting one that is nobody's child and under nobody's limits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jupyter_gpupool.client import embedded, launch
from jupyter_gpupool.client.embedded import ensure_embedded, start_ticks
from jupyter_gpupool.client.errors import CannotStartHere, PoolUnreachable, VersionConflict
from jupyter_gpupool.protocol import names
from jupyter_gpupool.protocol.paths import make_runtime_dir
from tests.support.scripted_pool import ScriptedPool
from tests.unit.client.test_discovery import announce


def test_a_process_has_a_start_time_while_it_lives():
    child = subprocess.Popen(["sleep", "60"])
    assert start_ticks(child.pid) == start_ticks(child.pid) is not None
    child.kill()
    child.wait()
    assert start_ticks(child.pid) is None


def test_a_running_pool_is_joined():
    with ScriptedPool() as pool:
        announce(pool)
        assert ensure_embedded().url == pool.url


def test_elsewhere_than_on_linux_one_sentence_says_why(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(CannotStartHere, match=rf"Linux only, and this is darwin.*{names.ENV_URL}"):
        ensure_embedded()


def test_a_pool_of_another_api_with_leases_is_left_alone():
    with ScriptedPool(lambda *_: (200, [{"id": "lease_1"}]), api=2) as pool:
        announce(pool)
        with pytest.raises(VersionConflict, match=r"version 9 \(API v2\).*API v1.*jupyter gpupool stop"):
            ensure_embedded()
    assert pool.paths("GET")[-1] == "/api/v2/leases"


def test_a_pool_of_another_api_without_leases_is_ended(monkeypatch):
    ended: list[tuple[int, int]] = []
    with ScriptedPool(lambda *_: (200, []), api=2) as pool:
        announce(pool)
        monkeypatch.setattr(os, "kill", lambda pid, sig: ended.append((pid, sig)))
        monkeypatch.setattr(embedded, "_STOP_SECONDS", 0.1)
        with pytest.raises(PoolUnreachable, match="does not end"):  # this very process, which goes on
            ensure_embedded()
    assert ended == [(os.getpid(), 15)]


def test_a_pool_that_lives_but_does_not_answer_is_named(monkeypatch):
    monkeypatch.setattr(embedded, "_ANSWER_SECONDS", 0.1)
    with ScriptedPool() as pool:
        announce(pool, url="http://127.0.0.1:1")
        with pytest.raises(PoolUnreachable, match=rf"pid {os.getpid()}.*does not answer.*gpupool stop"):
            ensure_embedded()


def test_a_pool_that_ends_at_once_is_told_with_its_last_words(monkeypatch, tmp_path):
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho 'The journal is corrupt.'\nexit 1\n")
    broken.chmod(0o755)

    def spawn(runtime: Path) -> Path:
        log = runtime / names.LOGS_DIR / "service.log"
        log.parent.mkdir()
        launch_file = Path(launch.__file__)
        subprocess.run([sys.executable, "-I", "-S", str(launch_file), str(log), str(broken)], check=True)
        return log

    monkeypatch.setattr(embedded, "_spawn", spawn)
    with pytest.raises(PoolUnreachable, match="The journal is corrupt"):
        ensure_embedded()


def _report_of_launched(tmp_path: Path, environment: dict[str, str]) -> dict[str, object]:
    """Launch a process under limits as a lease has them; return what it says of itself."""
    told = tmp_path / "told.json"
    told_by = """
import json, os, resource, sys
from pathlib import Path
told, baseline = sys.argv[1:]
report = dict(
    sid=os.getsid(0),
    ppid=os.getppid(),
    data=resource.getrlimit(resource.RLIMIT_DATA)[0],
    cores=sorted(os.sched_getaffinity(0)),
    omp=os.environ.get("OMP_NUM_THREADS"),
    base=os.environ.get(baseline),
)
Path(told + ".new").write_text(json.dumps(report))
Path(told + ".new").replace(told)
"""
    command = [sys.executable, "-c", told_by, str(told), names.ENV_BASELINE]

    def limit() -> None:
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (2**31, resource.getrlimit(resource.RLIMIT_DATA)[1]))
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

    subprocess.run(
        [sys.executable, "-I", "-S", launch.__file__, str(tmp_path / "log"), *command],
        check=True,
        env=environment,
        preexec_fn=limit,
        start_new_session=True,
    )
    deadline = time.monotonic() + 20
    while not told.exists():
        assert time.monotonic() < deadline, (tmp_path / "log").read_text()
        time.sleep(0.02)
    report: dict[str, object] = json.loads(told.read_text())
    return report


def test_a_pool_started_inside_a_lease_is_not_under_its_limits(tmp_path):
    import resource

    before = resource.getrlimit(resource.RLIMIT_DATA)[0]
    baseline = {
        "data_bytes": before,
        "cores": sorted(os.sched_getaffinity(0)),
        "environment": {"OMP_NUM_THREADS": None},
    }
    environment = dict(os.environ) | {names.ENV_BASELINE: json.dumps(baseline), "OMP_NUM_THREADS": "1"}
    report = _report_of_launched(tmp_path, environment)
    assert report["data"] == before
    assert report["cores"] == sorted(os.sched_getaffinity(0))
    assert report["omp"] is None
    assert report["base"] is None


def test_limits_that_no_lease_put_on_are_kept(tmp_path):
    report = _report_of_launched(tmp_path, dict(os.environ))
    assert report["data"] == 2**31


def test_a_started_pool_is_in_a_session_of_its_own_and_nobodys_child(tmp_path):
    report = _report_of_launched(tmp_path, dict(os.environ))
    assert report["sid"] != os.getsid(0)
    assert report["ppid"] != os.getpid()


def test_the_token_is_in_no_argument_and_no_inherited_variable(monkeypatch, tmp_path):
    seen: dict[str, object] = {}

    def run(command: list[str], **options: object) -> None:
        seen.update(options, command=command)

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setenv(names.ENV_TOKEN, "a-secret")
    embedded._spawn(make_runtime_dir())
    assert "a-secret" not in str(seen)
