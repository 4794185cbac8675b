"""Builds the wheel where there is no Node.js, and tries it in a fresh environment without any either.

Rule of this module: like a person who never saw the source tree: install, list, ask for a share.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

#: What must not be found: the build has to bring its own, and the wheel needs none.
NODE_COMMANDS = {"node", "nodejs", "npm", "npx", "corepack", "yarn", "yarnpkg"}

Check = Callable[[str, Callable[[], None]], bool]

_TAKE_A_SHARE = """
import jupyter_gpupool as gpupool
with gpupool.request(0.1, wait="30s") as lease:
    print(lease)
"""


def path_without_node(directory: Path) -> str:
    """Return a PATH with every command of this system but Node.js's."""
    directory.mkdir()
    for folder in ("/usr/bin", "/bin", "/usr/sbin", "/sbin"):
        for command in Path(folder).iterdir():
            link = directory / command.name
            if command.name not in NODE_COMMANDS and not link.is_symlink():
                link.symlink_to(command)
    return str(directory)


def output_of(*command: str | Path, environment: dict[str, str], cwd: Path, seconds: float = 900) -> str:
    """Run a command and return all that it prints; raise with that if it fails."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        timeout=seconds,
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if done.returncode != 0:
        raise RuntimeError(f"exit status {done.returncode} of {command[0]}:\n{done.stdout[-6000:]}")
    return done.stdout


def expect(text: str, *words: str) -> None:
    """Raise unless one line of ``text`` has all the words."""
    if not any(all(word in line for word in words) for line in text.splitlines()):
        raise RuntimeError(f"no line has {' and '.join(words)} in:\n{text[-4000:]}")


def wheel_checks(check: Check, *, root: Path, python: str, venv: Path, scratch: Path) -> None:
    """Run the checks; each counts as one."""
    environment = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    environment["PATH"] = path_without_node(scratch / "commands")
    for name in ("RUNTIME", "DATA", "LOCK"):
        environment[f"JUPYTER_GPUPOOL_{name}_DIR"] = str(scratch / name.lower())
    clone, dist, fresh = scratch / "clone", scratch / "dist", scratch / "venv"

    def build() -> None:
        output_of("git", "clone", "-q", root, clone, environment=environment, cwd=scratch)
        output_of(
            venv / "bin" / "python", "-m", "build", "-o", dist, clone, environment=environment, cwd=scratch
        )

    def install() -> None:
        (wheel,) = dist.glob("*.whl")
        output_of(python, "-m", "venv", fresh, environment=environment, cwd=scratch)
        pip = (fresh / "bin" / "python", "-m", "pip", "install", "-qq")
        output_of(*pip, f"jupyter_gpupool @ {wheel.as_uri()}", environment=environment, cwd=scratch)
        environment["PATH"] = f"{fresh / 'bin'}:{environment['PATH']}"

    def jupyter(*words: str) -> str:
        return output_of(fresh / "bin" / "jupyter", *words, environment=environment, cwd=scratch, seconds=120)

    def lists_server_extension() -> None:
        expect(jupyter("server", "extension", "list"), "jupyter_gpupool", "OK")

    def lists_labextension() -> None:
        expect(jupyter("labextension", "list"), "jupyter-gpupool", "enabled", "OK")

    def takes_a_share() -> None:
        script = scratch / "share.py"
        script.write_text(_TAKE_A_SHARE)
        print(output_of(fresh / "bin" / "python", script, environment=environment, cwd=scratch, seconds=120))

    if not check("the wheel builds from a clone with no Node.js on PATH", build):
        return
    if not check("the wheel installs in a fresh environment with no Node.js on PATH", install):
        return
    check("jupyter server extension list says OK", lists_server_extension)
    check("jupyter labextension list says OK", lists_labextension)
    check("jupyter gpupool --help answers", lambda: expect(jupyter("gpupool", "--help"), "status"))
    check("a plain Python process takes a share", takes_a_share)
    check("jupyter gpupool stop ends the pool", lambda: print(jupyter("gpupool", "stop")))
