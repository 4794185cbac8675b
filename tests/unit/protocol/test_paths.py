"""Where files lie, and which directories are refused."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_gpupool.protocol import names, paths
from jupyter_gpupool.protocol.paths import UnsafeDirectory


def test_a_missing_directory_is_made_private_whatever_the_umask(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        made = paths.private_directory(tmp_path / "a" / "b", variable="X")
    finally:
        os.umask(old)
    assert stat.S_IMODE(made.stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o701, 0o710, 0o770, 0o755, 0o707])
def test_a_directory_that_others_may_enter_is_refused_with_the_variable_to_set(
    tmp_path: Path, mode: int
) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(mode)
    with pytest.raises(UnsafeDirectory, match="THE_VARIABLE"):
        paths.private_directory(tmp_path / "open", variable="THE_VARIABLE")


def test_a_symlink_is_refused_even_to_a_private_directory(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(UnsafeDirectory, match="not a plain directory"):
        paths.private_directory(tmp_path / "link", variable="X")


def test_a_symlink_to_nowhere_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(UnsafeDirectory, match="not a plain directory"):
        paths.private_directory(tmp_path / "link", variable="X")
    assert not (tmp_path / "nowhere").exists()


def test_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UnsafeDirectory, match="not a plain directory"):
        paths.private_directory(tmp_path / "file", variable="X")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a directory to somebody else")
def test_somebody_elses_directory_is_refused_with_the_uid(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir(mode=0o700)
    os.chown(tmp_path / "theirs", 4321, 4321)
    with pytest.raises(UnsafeDirectory, match="uid 4321"):
        paths.private_directory(tmp_path / "theirs", variable="X")


def test_the_runtime_directory_is_the_variables_then_xdgs_then_a_temporary_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert paths.runtime_dir() == Path(os.environ[names.ENV_RUNTIME_DIR])
    monkeypatch.delenv(names.ENV_RUNTIME_DIR)
    assert paths.runtime_dir() == tmp_path / "jupyter_gpupool"
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert paths.runtime_dir().name == f"jupyter_gpupool-{os.getuid()}"


def test_a_short_runtime_directory_holds_the_socket_itself() -> None:
    runtime = Path("/run/user/1000/jupyter_gpupool")
    assert paths.socket_path(runtime) == runtime / names.AGENT_SOCKET


def test_under_a_runtime_directory_of_200_characters_the_socket_can_be_bound(tmp_path: Path) -> None:
    runtime = tmp_path / ("d" * (200 - len(str(tmp_path)) - 1))
    assert len(str(runtime)) == 200
    path = paths.socket_path(runtime)
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
        assert len(os.fsencode(path)) <= names.MAX_SOCKET_PATH
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert path == paths.socket_path(runtime), "every process computes the same path"
        assert path != paths.socket_path(runtime.with_name("e" * 150))
    finally:
        path.unlink(missing_ok=True)
        path.parent.rmdir()
        paths.socket_path(runtime.with_name("e" * 150)).parent.rmdir()


def test_the_length_of_a_socket_path_counts_bytes_not_characters(tmp_path: Path) -> None:
    runtime = Path("/") / ("ü" * 50)
    path = paths.socket_path(runtime)
    path.parent.rmdir()
    assert path.parent != runtime


def test_the_owners_token_is_made_once_and_private(tmp_path: Path) -> None:
    first = paths.owner_token(tmp_path)
    assert paths.owner_token(tmp_path) == first
    assert len(first) >= 40
    assert stat.S_IMODE((tmp_path / names.TOKEN_FILE).stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [names.TOKEN_FILE]


def test_ten_processes_that_ask_at_once_get_one_token(tmp_path: Path) -> None:
    script = (
        "import sys, pathlib; from jupyter_gpupool.protocol.paths import owner_token;"
        "sys.stdin.read(1); print(owner_token(pathlib.Path(sys.argv[1])))"
    )
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(10)
    ]
    tokens = {racer.communicate("x", timeout=60)[0].strip() for racer in racers}
    assert len(tokens) == 1


def test_data_lies_in_a_folder_of_this_machine() -> None:
    assert paths.data_dir().name == paths.machine_id()
    assert paths.machine_id().isalnum()


def test_the_lock_directory_does_not_depend_on_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(names.ENV_LOCK_DIR)
    seen = set()
    for home in ("/home/ann", "/home/bob"):
        monkeypatch.setenv("HOME", home)
        monkeypatch.setenv("XDG_RUNTIME_DIR", f"{home}/run")
        seen.add(paths.lock_dir())
    assert len(seen) == 1
