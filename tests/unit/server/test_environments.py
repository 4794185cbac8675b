"""Finding out whether our package is installed where a kernel runs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from jupyter_gpupool.server.environments import is_ipykernel, look

DIST_INFO = "jupyter_gpupool-0.1.0.dist-info"


def make_interpreter(path: Path) -> Path:
    """Put a binary that is called like a Python at ``path``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x7fELF")
    path.chmod(0o755)
    return path


def make_venv(prefix: Path, base: Path, *, system: bool = False) -> Path:
    """Make what matters here of a virtual environment: the link, its settings, its packages."""
    (prefix / "bin").mkdir(parents=True)
    (prefix / "lib/python3.11/site-packages").mkdir(parents=True)
    interpreter = prefix / "bin/python"
    interpreter.symlink_to(base)
    (prefix / "pyvenv.cfg").write_text(
        f"home = {base.parent}\n"
        f"include-system-site-packages = {'true' if system else 'false'}\nversion = 3.11.7\n"
    )
    return interpreter


def install(place: Path) -> None:
    (place / DIST_INFO).mkdir(parents=True)


def argv(interpreter: Path | str) -> list[str]:
    return [str(interpreter), "-m", "ipykernel_launcher", "-f", "{connection_file}"]


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "bin")}


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return make_interpreter(tmp_path / "opt/bin/python3.11")


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("python -m ipykernel_launcher -f {c}", True),
        ("python -m ipykernel -f {c}", True),
        ("python -mipykernel_launcher -f {c}", True),
        ("python -X frozen_modules=off -Wignore -m ipykernel_launcher -f {c}", True),
        ("python -W ignore -m ipykernel_launcher -f {c}", True),
        ("python /x/site-packages/ipykernel_launcher.py -f {c}", True),
        ("python -m bash_kernel -f {c}", False),
        ("python -m nb_conda_kernels.runner /prefix env python -m ipykernel_launcher -f {c}", False),
        ("conda run -n env python -m ipykernel_launcher -f {c}", False),
        ("python", False),
        ("python -m", False),
        ("R --slave -e IRkernel::main() --args {c}", False),
        ("xpython -f {c}", False),
    ],
)
def test_only_a_python_that_runs_ipykernel_itself_counts(command: str, expected: bool) -> None:
    assert is_ipykernel(command.split()) is expected


def test_a_virtual_environment_has_its_own_packages_though_its_python_is_a_link(
    tmp_path: Path, base: Path, env: dict[str, str]
) -> None:
    ours, other = make_venv(tmp_path / "ours", base), make_venv(tmp_path / "other", base)
    install(tmp_path / "ours/lib/python3.11/site-packages")
    assert look(argv(ours), env).installed
    found = look(argv(other), env)
    assert not found.installed
    assert found.interpreter == str(other)
    assert found.install_command == f"{other} -m pip install jupyter_gpupool"


def test_a_virtual_environment_that_sees_the_systems_packages_sees_ours_there(
    tmp_path: Path, base: Path, env: dict[str, str]
) -> None:
    open_one, closed = make_venv(tmp_path / "a", base, system=True), make_venv(tmp_path / "b", base)
    make_interpreter(tmp_path / "opt/bin/python")
    install(tmp_path / "opt/lib/python3.11/site-packages")
    assert look(argv(open_one), env).installed
    assert not look(argv(closed), env).installed


def test_a_link_to_an_interpreter_elsewhere_is_followed(
    tmp_path: Path, base: Path, env: dict[str, str]
) -> None:
    link = tmp_path / "bin/python3"
    link.parent.mkdir()
    link.symlink_to(base)
    assert not look(argv(link), env).installed
    install(tmp_path / "opt/lib/python3.11/site-packages")
    assert look(argv(link), env).installed
    assert look(argv("python3"), env).installed


@pytest.mark.parametrize(
    "place",
    [
        "opt/lib/python3/dist-packages",
        "opt/local/lib/python3.11/dist-packages",
        "opt/lib64/python3.11/site-packages",
    ],
)
def test_the_layouts_of_distributions_are_known(
    tmp_path: Path, base: Path, env: dict[str, str], place: str
) -> None:
    install(tmp_path / place)
    assert look(argv(base), env).installed


def test_packages_of_another_python_in_the_same_prefix_do_not_count(
    tmp_path: Path, base: Path, env: dict[str, str]
) -> None:
    install(tmp_path / "opt/lib/python3.12/site-packages")
    assert not look(argv(base), env).installed


def test_packages_of_the_user_count_unless_they_are_switched_off(
    tmp_path: Path, base: Path, env: dict[str, str]
) -> None:
    install(tmp_path / "home/.local/lib/python3.11/site-packages")
    assert look(argv(base), env).installed
    assert not look(argv(base), {**env, "PYTHONNOUSERSITE": "1"}).installed
    assert not look(argv(make_venv(tmp_path / "v", base)), env).installed
    elsewhere = {**env, "PYTHONUSERBASE": str(tmp_path / "else")}
    assert not look(argv(base), elsewhere).installed
    install(tmp_path / "else/lib/python3.11/site-packages")
    assert look(argv(base), elsewhere).installed


def test_an_installation_later_on_is_noticed(tmp_path: Path, base: Path, env: dict[str, str]) -> None:
    python = make_venv(tmp_path / "v", base)
    place = tmp_path / "v/lib/python3.11/site-packages"
    assert not look(argv(python), env).installed
    install(place)
    assert look(argv(python), env).installed
    (place / DIST_INFO).rmdir()
    assert not look(argv(python), env).installed


def test_of_a_shim_nobody_can_tell_what_it_runs(tmp_path: Path, env: dict[str, str]) -> None:
    shim = make_interpreter(tmp_path / "shims/python3")
    shim.write_text("#!/usr/bin/env bash\nexec pyenv exec python3\n")
    found = look(argv(shim), env)
    assert (found.interpreter, found.installed, found.install_command) == ("", False, "")


@pytest.mark.parametrize("word", ["python-that-is-not-there", "/nowhere/python", "", "conda"])
def test_what_cannot_be_found_is_not_installed(word: str, env: dict[str, str]) -> None:
    found = look(argv(word), env)
    assert (found.ipykernel, found.interpreter, found.installed) == (False, "", False)


def test_a_prefix_that_may_not_be_read_is_not_installed(
    tmp_path: Path, base: Path, env: dict[str, str]
) -> None:
    python = make_venv(tmp_path / "v", base)
    place = tmp_path / "v/lib/python3.11/site-packages"
    place.rmdir()
    place.write_text("not a directory")
    assert not look(argv(python), env).installed


def test_this_interpreter_has_our_package(env: dict[str, str]) -> None:
    found = look(argv(sys.executable), env)
    assert found.installed
    assert found.interpreter == sys.executable
    assert found.install_command == ""


def test_looking_is_quick_and_starts_nothing(
    tmp_path: Path, base: Path, env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "posix_spawn", None)
    monkeypatch.setattr(os, "fork", None)
    monkeypatch.setattr("subprocess.Popen", None)
    assert not look(argv(make_venv(tmp_path / "v", base)), env).installed
