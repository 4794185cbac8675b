"""The daemon of the fake control program: servers, clients, limits, faults, users that wait.

What clients see is described in the program itself, which starts this with its own arguments.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import socket
import sys
import time
from pathlib import Path

HERE = Path(__file__).absolute().parent
PIPES = Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"))
LOGS = Path(os.environ.get("CUDA_MPS_LOG_DIRECTORY", "/var/log/nvidia-mps"))
TICK_SECONDS = 0.02
MOST_CLIENTS = int(os.environ.get("FAKE_MPS_MOST_CLIENTS", "60"))


def note(file: Path, line: str) -> None:
    """Append a line in one write."""
    with contextlib.suppress(OSError), file.open("a") as log:
        log.write(line + "\n")


def start_ticks(pid: int) -> int:
    """Return when a process started; 0 when it is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] in (b"Z", b"X") else int(fields[19])


def name_process() -> None:
    """Take the name that the real one has in /proc."""
    ctypes.CDLL(None).prctl(15, b"nvidia-cuda-mps", 0, 0, 0)


def megabytes(text: str) -> int:
    """Read ``20G`` or ``512M`` as bytes.

    Raises
    ------
    ValueError
        If it is none.
    """
    scale = {"G": 2**30, "M": 2**20}.get(text[-1:].upper())
    if scale is None or not text[:-1].isdigit():
        raise ValueError(f"Invalid memory limit {text}")
    return int(text[:-1]) * scale


class Server:
    """One server process and what it enforces."""

    def __init__(self, uid: int, daemon: Daemon) -> None:
        self.uid = uid
        self.percentage = daemon.percentage
        self.limits = dict(daemon.limits)
        self.fault: set[int] = set()
        self.closing = False
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            os.closerange(3, 1024)  # whoever waits for the end of an answer must not wait for the server
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            if os.getuid() == 0 and uid:
                os.setgroups([])
                os.setuid(uid)
            name_process()
            while True:
                signal.pause()
        note(HERE / "processes", f"{self.pid} {start_ticks(self.pid)}")

    def end(self) -> None:
        """End its process."""
        with contextlib.suppress(OSError):
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)

    @property
    def status(self) -> str:
        """Say what state it is in."""
        return "FAULT" if self.fault else "ACTIVE"


class Daemon:
    """The control daemon: one loop over its socket and the clients' files."""

    def __init__(self, multiuser: bool) -> None:
        self.multiuser = multiuser
        self.percentage = float(os.environ.get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "100"))
        self.limits: dict[str, int] = {}
        self.servers: list[Server] = []
        self.accepted: dict[int, Server] = {}
        self.refused: set[int] = set()
        self.terminated: set[int] = set()
        self.pending: set[int] = set()
        self.quitting: tuple[float, socket.socket] | None = None
        self.shown = ""
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(PIPES / "control"))
        (PIPES / "control").chmod(0o600)
        self.listener.listen(64)
        (PIPES / "clients").mkdir(exist_ok=True)
        (PIPES / "clients").chmod(0o1777)  # clients of all users say there that they are
        (PIPES / "nvidia-cuda-mps-control.pid").write_text(f"{os.getpid()}\n")
        note(HERE / "processes", f"{os.getpid()} {start_ticks(os.getpid())}")
        self.say("Start")
        self.show()

    def say(self, text: str) -> None:
        """Write into control.log."""
        note(LOGS / "control.log", f"[{time.strftime('%F %T')} Control {os.getpid():5}] {text}")

    def server_says(self, server: Server, text: str) -> None:
        """Write into server.log."""
        note(LOGS / "server.log", f"[{time.strftime('%F %T')} Server {server.pid:5}] {text}")

    # --- clients --------------------------------------------------------------------------------------

    def living(self) -> dict[int, int]:
        """Return the uid of each client whose process lives; remove the files of the others."""
        found = {}
        for path in (PIPES / "clients").iterdir():
            if not path.name.isdigit():
                continue
            pid = int(path.name)
            try:
                lines = dict(line.partition(" ")[::2] for line in path.read_text().splitlines())
                alive = start_ticks(pid) == int(lines["start"])
            except (OSError, KeyError, ValueError):
                continue
            if alive:
                found[pid] = path.stat().st_uid if os.getuid() == 0 else int(lines["uid"])
            else:
                with contextlib.suppress(OSError):
                    path.unlink()
        return found

    def tick(self) -> None:
        """Look who came and went, and serve whoever can be served."""
        living = self.living()
        for pid in set(self.accepted) - set(living):
            self.server_says(self.accepted[pid], f"Client {pid} disconnected")
            del self.accepted[pid]
        for group in (self.refused, self.terminated, self.pending):
            group.intersection_update(living)
        for server in list(self.servers):
            if start_ticks(server.pid) == 0:
                self.say(f"Server {server.pid} exited with status 9")
                self.servers.remove(server)
                server.end()
                self.accepted = {pid: its for pid, its in self.accepted.items() if its is not server}
                continue
            if server.fault and not server.fault & set(self.accepted):
                server.fault = set()
                self.server_says(server, "Device contexts recreated, status ACTIVE")
            if server.closing and not self.clients_of(server):
                self.stop(server)
        if not self.quitting:
            for pid, uid in living.items():
                if pid not in self.accepted and pid not in self.refused and pid not in self.terminated:
                    self.admit(pid, uid)
        self.show()

    def admit(self, pid: int, uid: int) -> None:
        """Give a client its server, or leave it waiting."""
        server = self.server_for(uid)
        if server is None or server.fault or server.closing:
            if pid not in self.pending:
                self.pending.add(pid)
                self.say(
                    f"NEW CLIENT {pid} from user {uid}: Server is not ready, push client to pending list"
                )
            return
        self.pending.discard(pid)
        if len(self.clients_of(server)) >= MOST_CLIENTS:
            self.refused.add(pid)
            self.server_says(server, f"Client {pid} refused: too many clients")
            return
        self.say(f"NEW CLIENT {pid} from user {uid}: Server already exists")
        self.server_says(server, f"New client {pid} connected")
        self.accepted[pid] = server

    def server_for(self, uid: int) -> Server | None:
        """Return the server of a user, started if nobody else's is in the way; None if one is."""
        wanted = os.getuid() if self.multiuser else uid
        for server in list(self.servers):
            if server.uid == wanted:
                return server
            if self.clients_of(server):
                return None
            self.stop(server)
        return self.start(wanted)

    def start(self, uid: int) -> Server:
        """Start a server."""
        server = Server(uid, self)
        self.servers.append(server)
        self.say(f"Starting new server {server.pid} for user {uid}")
        self.server_says(server, "Start")
        return server

    def stop(self, server: Server) -> None:
        """End a server."""
        server.end()
        self.servers.remove(server)
        self.accepted = {pid: its for pid, its in self.accepted.items() if its is not server}
        self.say(f"Server {server.pid} exited with status 0")

    def clients_of(self, server: Server) -> list[int]:
        """List a server's clients."""
        return sorted(pid for pid, its in self.accepted.items() if its is server)

    def show(self) -> None:
        """Tell clients how things are, if they changed."""
        server = self.servers[0] if self.servers else None
        lines = [
            f"pid {os.getpid()}",
            f"start {start_ticks(os.getpid())}",
            f"multiuser {int(self.multiuser)}",
        ]
        if server:
            lines += [f"server {server.pid}", f"uid {server.uid}", f"fault {int(bool(server.fault))}"]
            lines += [f"active_thread_percentage {server.percentage:g}"]
            lines += [f"pinned {device} {size}" for device, size in server.limits.items()]
        for word, pids in (
            ("accepted", self.accepted),
            ("refused", self.refused),
            ("terminated", self.terminated),
        ):
            lines += [f"{word} {pid}" for pid in pids]
        text = "".join(line + "\n" for line in lines)
        if text != self.shown:
            draft = PIPES / ".fake-daemon"
            draft.write_text(text)
            draft.chmod(0o644)
            draft.replace(PIPES / "fake-daemon")
            self.shown = text

    # --- commands -------------------------------------------------------------------------------------

    def server(self, pid: str) -> Server:
        """Return a server by its pid."""
        for server in self.servers:
            if str(server.pid) == pid:
                return server
        raise ValueError(f"Server {pid} does not exist")

    def answer(self, line: str) -> str:
        """Carry a command out."""
        name, *words = line.split()
        method = getattr(self, f"do_{name.lstrip('_')}", None)
        if method is None:
            return f"Unknown command: {name}"
        try:
            return str(method(*words) or "")
        except TypeError:
            return f"Invalid arguments: {line}"
        except ValueError as error:
            return str(error)

    def do_get_server_list(self) -> str:
        return "\n".join(str(server.pid) for server in self.servers)

    def do_get_server_status(self, pid: str) -> str:
        return self.server(pid).status

    def do_start_server(self, flag: str, uid: str) -> str:
        if flag != "-uid" or not uid.isdigit():
            raise ValueError("Usage: start_server -uid <user id>")
        if os.getuid() not in (0, int(uid)):
            raise ValueError(f"Not permitted to start a server for user {uid}")
        if self.servers and any(server.uid != int(uid) for server in self.servers):
            raise ValueError("A server is already running for another user")
        if not self.servers:
            self.start(int(uid))
        return ""

    def do_shutdown_server(self, pid: str, force: str = "") -> str:
        server = self.server(pid)
        if force or not self.clients_of(server):
            self.stop(server)
        else:
            server.closing = True
        return ""

    def do_get_client_list(self, pid: str) -> str:
        return "\n".join(map(str, self.clients_of(self.server(pid))))

    def do_get_device_client_list(self, pid: str = "") -> str:
        lines = []
        for client, server in self.accepted.items():
            with contextlib.suppress(OSError):
                text = (PIPES / "clients" / str(client)).read_text()
                if pid in ("", str(server.pid)):
                    lines += [f"{one[7:]} {client}" for one in text.splitlines() if one.startswith("device ")]
        return "\n".join(sorted(lines))

    def do_ps(self, *_: str) -> str:
        rows = ["PID       ID    SERVER    DEVICE             NAMESPACE    COMMAND"]
        for at, (client, server) in enumerate(sorted(self.accepted.items())):
            rows.append(f"{client:<9} {at:<5} {server.pid:<9} {'GPU-fake':<18} {client:<12} client")
        return "\n".join(rows)

    def do_set_default_active_thread_percentage(self, value: str) -> str:
        self.percentage = self.percent(value)
        return f"{self.percentage:.1f}"

    def do_get_default_active_thread_percentage(self) -> str:
        return f"{self.percentage:.1f}"

    def do_set_active_thread_percentage(self, pid: str, value: str) -> str:
        server = self.server(pid)
        server.percentage = self.percent(value)
        return f"{server.percentage:.1f}"

    def do_get_active_thread_percentage(self, pid: str) -> str:
        return f"{self.server(pid).percentage:.1f}"

    @staticmethod
    def percent(value: str) -> float:
        """Read a percentage."""
        number = float(value)
        if not 0 < number <= 100:
            raise ValueError(f"Invalid percentage {value}")
        return number

    def do_set_default_device_pinned_mem_limit(self, device: str, value: str) -> str:
        return self.limit(self.limits, device, value)

    def do_get_default_device_pinned_mem_limit(self, device: str) -> str:
        return self.shown_limit(self.limits, device)

    def do_set_device_pinned_mem_limit(self, pid: str, device: str, value: str) -> str:
        return self.limit(self.server(pid).limits, device, value)

    def do_get_device_pinned_mem_limit(self, pid: str, device: str) -> str:
        return self.shown_limit(self.server(pid).limits, device)

    @staticmethod
    def limit(limits: dict[str, int], device: str, value: str) -> str:
        """Set a memory limit."""
        if not (device.startswith(("GPU-", "MIG-")) or device.isdigit()):
            raise ValueError(f"Invalid device {device}")
        limits[device] = megabytes(value)
        return ""

    @staticmethod
    def shown_limit(limits: dict[str, int], device: str) -> str:
        """Write a memory limit as the real one does; 0M without one."""
        size = limits.get(device, 0)
        return f"{size >> 30}G" if size and size % 2**30 == 0 else f"{size >> 20}M"

    def do_terminate_client(self, pid: str, client: str) -> str:
        server = self.server(pid)
        if not client.isdigit() or self.accepted.get(int(client)) is not server:
            raise ValueError(f"Client {client} is not connected to server {pid}")
        self.server_says(server, f"Client {client} terminated by request")
        del self.accepted[int(client)]
        self.terminated.add(int(client))
        return ""

    def do_fake_fault(self, pid: str, client: str) -> str:
        server = self.server(pid)
        server.fault = set(self.clients_of(server))
        self.server_says(server, f"Client {client} raised a fatal exception on the device")
        self.server_says(server, f"Server {pid} status is FAULT, waiting for {len(server.fault)} clients")
        return ""

    # --- the loop -------------------------------------------------------------------------------------

    def run(self) -> None:
        """Answer until told to quit."""
        while not (self.quitting and self.over()):
            if select.select([self.listener], [], [], TICK_SECONDS)[0]:
                connection, _ = self.listener.accept()
                self.serve(connection)
            self.tick()
        for server in list(self.servers):
            self.stop(server)
        self.say("Exit")
        for name in ("control", "nvidia-cuda-mps-control.pid", "fake-daemon"):
            (PIPES / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            (PIPES / "clients").rmdir()
        if self.quitting:
            self.quitting[1].close()

    def over(self) -> bool:
        """Say whether quitting has to wait no longer."""
        return self.quitting is not None and (not self.accepted or time.monotonic() >= self.quitting[0])

    def serve(self, connection: socket.socket) -> None:
        """Answer one call: all its commands, separated by lines."""
        connection.settimeout(2)
        try:
            with connection.makefile("rb") as lines:
                command = lines.readline().decode().strip()
        except OSError:
            connection.close()
            return
        if not command:  # somebody looked whether there is a daemon
            connection.close()
            return
        self.tick()
        self.say(f"Received command: {command}")
        name, *words = command.split()
        if name == "quit":
            wait = float(words[1]) if words[:1] == ["-t"] else 1e9
            self.quitting = (time.monotonic() + wait, connection)
            return
        with contextlib.suppress(OSError):
            if answer := self.answer(command):
                connection.sendall(f"{answer}\n".encode())
        connection.close()


def main(*, detached: bool, multiuser: bool) -> None:
    """Run a daemon; detached, the caller goes on when it listens."""
    try:
        PIPES.mkdir(parents=True, exist_ok=True)
        LOGS.mkdir(parents=True, exist_ok=True)
        (PIPES / "control").unlink(missing_ok=True)
    except OSError as error:
        print(f"Failed to create the pipe directory: {error.strerror}")
        sys.exit(1)
    tell = _detach() if detached else None
    name_process()
    daemon = Daemon(multiuser)
    if tell is not None:
        os.write(tell, b"1")
        os.close(tell)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    daemon.run()
    os._exit(0)


def _detach() -> int:
    """Leave the caller behind; it goes on when something is written to what is returned."""
    ready, tell = os.pipe()
    if os.fork():
        os.close(tell)
        sys.exit(0 if os.read(ready, 1) else 1)
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(ready)
    return tell


if __name__ == "__main__":
    main(detached="-d" in sys.argv, multiuser="-multiuser-server" in sys.argv)
