"""Joining and replacing a pool; and starting one that is nobody's child and under nobody's limits."""

from __future__ import annotations

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


def test_a_started_pool_is_in_a_session_of_its_own_and_nobodys_child(tmp_path):
    told = tmp_path / "told"
    code = """
import os, sys
from pathlib import Path
draft = Path(sys.argv[1] + ".new")
draft.write_text(f"{os.getsid(0)} {os.getpid()} {os.getppid()}")
draft.replace(sys.argv[1])
"""
    command = [sys.executable, "-c", code, str(told)]
    subprocess.run(
        [sys.executable, "-I", "-S", launch.__file__, str(tmp_path / "log"), *command],
        check=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 20
    while not told.exists():
        assert time.monotonic() < deadline, (tmp_path / "log").read_text()
        time.sleep(0.02)
    session, process, parent = map(int, told.read_text().split())
    assert session == process
    assert parent != os.getpid()


def test_the_token_is_in_no_argument_and_no_inherited_variable(monkeypatch, tmp_path):
    seen: dict[str, object] = {}

    def run(command: list[str], **options: object) -> None:
        seen.update(options, command=command)

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setenv(names.ENV_TOKEN, "a-secret")
    embedded._spawn(make_runtime_dir())
    assert "a-secret" not in str(seen)
