"""Several hosts on one machine: network namespaces, joined by a bridge, with our commands running in them.

Rules of this module: it needs root and ``ip``, and is skipped elsewhere; whatever was made is taken away
again, by the names and pids that were written down.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import pytest

import jupyter_gpupool
from jupyter_gpupool.protocol import names
from tests.support.pool_process import PATIENCE_SECONDS, world

ROOT = Path(jupyter_gpupool.__file__).parents[1]
#: The network that the hosts are in; the first one is .1.
NETWORK = "10.77.0"
#: Of Linux: a network namespace.
_CLONE_NEWNET = 0x40000000


class Host:
    """One host, with a disk of its own.

    Parameters
    ----------
    space : str
        Name of its network namespace.
    link : str
        Name of its end of the cable, in the namespace of the first host.
    address : str
        Its address.
    home : Path
        Its disk.
    """

    def __init__(self, space: str, link: str, address: str, home: Path) -> None:
        self.space, self.link, self.address, self.home = space, link, address, home
        self._inside = ("nsenter", f"--net=/run/netns/{space}")
        home.mkdir(parents=True)
        self.environment = {**world(home), "PYTHONPATH": str(ROOT)}
        self.runtime = Path(self.environment[names.ENV_RUNTIME_DIR])
        self._started: list[subprocess.Popen[bytes]] = []

    def _command(self, arguments: tuple[str, ...]) -> list[str]:
        return [*self._inside, sys.executable, "-m", "jupyter_gpupool", *arguments]

    def start(self, *arguments: str, log: str) -> subprocess.Popen[bytes]:
        """Start ``jupyter gpupool …`` on this host."""
        with (self.home / log).open("ab") as file:
            process = subprocess.Popen(
                self._command(arguments),
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        self._started.append(process)
        return process

    def run(
        self, *arguments: str, stdin: str = "", environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run ``jupyter gpupool …`` on this host until it ends."""
        return subprocess.run(
            self._command(arguments),
            env={**self.environment, **(environment or {})},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def log(self, name: str) -> str:
        """Return what a command has said."""
        path = self.home / name
        return path.read_text(errors="replace") if path.exists() else ""

    def listening(self) -> set[tuple[str, int]]:
        """Return the addresses on which anything listens on this host for TCP, beside loopback."""
        done = subprocess.run(
            [*self._inside, "ss", "-Hltn"],
            check=True,
            capture_output=True,
            text=True,
            timeout=30,
        )
        ends = [line.split()[3].rpartition(":") for line in done.stdout.splitlines()]
        return {(host, int(port)) for host, _, port in ends if not host.startswith(("127.", "[::1]"))}

    def end(self) -> None:
        """End what was started here."""
        for process in self._started:
            if process.poll() is None:
                process.terminate()
        for process in self._started:
            try:
                process.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(PATIENCE_SECONDS)
        self._started.clear()


class Network:
    """A few hosts and the cables between them; the first host has the bridge."""

    def __init__(self) -> None:
        self._spaces: list[str] = []
        self.hosts: list[Host] = []

    def build(self, home: Path, count: int) -> None:
        """Make so many hosts; what was made of them is taken away by `close`, also where that fails."""
        tag = uuid.uuid4().hex[:6]
        first = self._space(f"gp{tag}h0")
        ip("-n", first, "link", "add", "bridge", "type", "bridge")
        ip("-n", first, "addr", "add", f"{NETWORK}.1/24", "dev", "bridge")
        ip("-n", first, "link", "set", "bridge", "up")
        self.hosts.append(Host(first, "", f"{NETWORK}.1", home / "h0"))
        for number in range(1, count):
            self._plug(self._space(f"gp{tag}h{number}"), first, number, home)

    def _plug(self, space: str, first: str, number: int, home: Path) -> None:
        link, address = f"cable{number}", f"{NETWORK}.{number + 1}"
        ip("link", "add", link, "netns", first, "type", "veth", "peer", "name", "eth0", "netns", space)
        ip("-n", first, "link", "set", link, "master", "bridge", "up")
        ip("-n", space, "addr", "add", f"{address}/24", "dev", "eth0")
        ip("-n", space, "link", "set", "eth0", "up")
        self.hosts.append(Host(space, link, address, home / f"h{number}"))

    def _space(self, name: str) -> str:
        ip("netns", "add", name)
        self._spaces.append(name)
        ip("-n", name, "link", "set", "lo", "up")
        return name

    def cut(self, host: Host) -> None:
        """Pull a host's cable out."""
        ip("-n", self.hosts[0].space, "link", "set", host.link, "down")

    def mend(self, host: Host) -> None:
        """Plug it in again."""
        ip("-n", self.hosts[0].space, "link", "set", host.link, "up")

    def close(self) -> None:
        """End what runs, and take the hosts away."""
        for host in reversed(self.hosts):
            host.end()
        for space in self._spaces:
            ip("netns", "del", space)


def ip(*arguments: str) -> None:
    """Run the program ``ip``."""
    subprocess.run(["ip", *arguments], check=True, capture_output=True, timeout=30)


@contextmanager
def inside(host: Host) -> Iterator[None]:
    """Be on a host, with what this thread does and starts meanwhile."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/self/ns/net", "rb") as here, open(f"/run/netns/{host.space}", "rb") as there:  # noqa: PTH123
        _enter(libc, there)
        try:
            yield
        finally:
            _enter(libc, here)


def _enter(libc: ctypes.CDLL, space: BinaryIO) -> None:
    if libc.setns(space.fileno(), _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "this network namespace cannot be entered")


@contextmanager
def network(home: Path, count: int) -> Iterator[Network]:
    """Give so many hosts; skips where that cannot be."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        pytest.skip("network namespaces need root on Linux")
    if missing := [it for it in ("ip", "nsenter", "ss") if not shutil.which(it)]:
        pytest.skip(f"this machine has no {', '.join(missing)}")
    made = Network()
    try:
        try:
            made.build(home, count)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"this machine makes no network namespaces: {error.stderr.decode().strip()}")
        yield made
    finally:
        made.close()
