"""The embedded pool: join the one that runs, or start one as a detached process.

Rules of this module: one pool for one runtime directory, whoever comes first starts it; the new process is
nobody's child, and it is not under the limits of a lease whose holder happened to start it; a runtime file
counts only if its process lives *and* its service answers.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import urllib3

from jupyter_gpupool.client.calls import Connection, Source
from jupyter_gpupool.client.errors import CannotStartHere, PoolUnreachable, VersionConflict
from jupyter_gpupool.protocol import names
from jupyter_gpupool.protocol.codec import BadMessage, decode
from jupyter_gpupool.protocol.documents import HealthDoc, RuntimeFile
from jupyter_gpupool.protocol.paths import make_runtime_dir, owner_token, private_directory

#: How long a pool may take to start, seconds.
START_SECONDS = 20.0
#: How long a pool whose process lives may take to answer, seconds.
_ANSWER_SECONDS = 5.0
#: How long one health check may take, seconds.
_HEALTH_SECONDS = 2.0
#: How long a pool that is replaced may take to end, seconds.
_STOP_SECONDS = 15.0
#: Pause between two looks, seconds.
_LOOK_SECONDS = 0.05
#: In the runtime directory: held (flock) by the one client that starts a pool.
_START_LOCK = "start.lock"
#: Variables of one kernel or one server that a pool must not inherit.
_NOT_INHERITED = (names.ENV_URL, names.ENV_TOKEN, names.ENV_REATTACH, "JPY_PARENT_PID", "JPY_SESSION_NAME")


def read_runtime_file(runtime: Path) -> RuntimeFile | None:
    """Read ``pool.json``; None when there is none, or it cannot be read."""
    try:
        return decode((runtime / names.POOL_FILE).read_bytes(), RuntimeFile)
    except (OSError, BadMessage):
        return None


def start_ticks(pid: int) -> int | None:
    """Return when a process started, clock ticks since boot; None when it does not live."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = stat.rpartition(b")")[2].split()
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def lives(file: RuntimeFile) -> bool:
    """Tell whether the process that wrote a runtime file still runs."""
    return start_ticks(file.pid) == file.pid_start


def ask_health(url: str, *, timeout: float = _HEALTH_SECONDS) -> HealthDoc | None:
    """Ask a service whether it lives; None when it does not answer as one."""
    http = urllib3.PoolManager(num_pools=1, retries=False)
    try:
        answer = http.request("GET", f"{url}/health", timeout=timeout, redirect=False)
        return decode(answer.data, HealthDoc) if answer.status == 200 else None
    except (urllib3.exceptions.HTTPError, BadMessage):
        return None
    finally:
        http.clear()


def answers(url: str) -> bool:
    """Tell whether a service of our API major answers at ``url``."""
    health = ask_health(url)
    return health is not None and health.api == names.API_MAJOR


def find_running(runtime: Path) -> RuntimeFile | None:
    """Return the running pool of a runtime directory if we can use it.

    None means that a pool must be started (or the one that runs replaced): see `ensure_embedded`.
    """
    file = read_runtime_file(runtime)
    if file is None or file.api != names.API_MAJOR or not lives(file):
        return None
    return file if answers(file.url) else None


def ensure_embedded(runtime: Path | None = None) -> Connection:
    """Join the embedded pool, or start it.

    Raises
    ------
    CannotStartHere
        On a platform where it cannot run.
    VersionConflict
        If one runs that speaks another API and has leases.
    PoolUnreachable
        If it does not come up in time; the message has the end of its log.
    """
    if sys.platform != "linux":
        raise CannotStartHere(
            f"The embedded pool runs on Linux only, and this is {sys.platform}.",
            hint=f"Set {names.ENV_URL} and {names.ENV_TOKEN} to use a pool on another machine.",
        )
    runtime = (
        make_runtime_dir() if runtime is None else private_directory(runtime, variable=names.ENV_RUNTIME_DIR)
    )
    with _alone(runtime):
        if file := _settle(runtime):
            return _join(runtime, file, Source.RUNTIME_FILE)
        log = _spawn(runtime)
        return _join(runtime, _await_start(runtime, log), Source.STARTED)


def _join(runtime: Path, file: RuntimeFile, source: Source) -> Connection:
    """Make the connection to a pool that runs."""
    return Connection(url=file.url, token=owner_token(runtime), source=source, owner=file.owner)


@contextmanager
def _alone(runtime: Path) -> Iterator[None]:
    """Keep other clients from starting a pool at the same time: they wait, and then join."""
    import fcntl

    deadline = time.monotonic() + START_SECONDS + _STOP_SECONDS
    with (runtime / _START_LOCK).open("a") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise PoolUnreachable(
                        f"Another process has been starting the pool in {runtime} for too long.",
                        hint="See `jupyter gpupool status`.",
                    ) from None
                time.sleep(_LOOK_SECONDS)
        yield


def _settle(runtime: Path) -> RuntimeFile | None:
    """Decide what to do with the pool that the runtime file names; None when one must be started."""
    file = read_runtime_file(runtime)
    if file is None or not lives(file):
        return None
    health = _await_health(file)
    if health is None and lives(file):
        raise PoolUnreachable(
            f"The pool (pid {file.pid}) runs, but does not answer at {file.url}.",
            hint="Stop it with `jupyter gpupool stop`, and try again.",
        )
    if health is None:
        return None
    if health.api == names.API_MAJOR:
        return file
    _replace(runtime, file, health)
    return None


def _await_health(file: RuntimeFile) -> HealthDoc | None:
    """Give a pool whose process lives a few seconds to answer."""
    deadline = time.monotonic() + _ANSWER_SECONDS
    while lives(file):
        if health := ask_health(file.url):
            return health
        if time.monotonic() > deadline:
            return None
        time.sleep(_LOOK_SECONDS)
    return None


def _replace(runtime: Path, file: RuntimeFile, health: HealthDoc) -> None:
    """End a pool of another API major, if it has no leases."""
    if _has_leases(runtime, file):
        from jupyter_gpupool._version import version

        raise VersionConflict(
            f"The running pool is version {health.version} (API v{health.api}) and has leases; "
            f"this is version {version()} (API v{names.API_MAJOR}).",
            hint="Release the leases or end it with `jupyter gpupool stop`, and try again.",
        )
    os.kill(file.pid, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_SECONDS
    while lives(file):
        if time.monotonic() > deadline:
            raise PoolUnreachable(
                f"The running pool (pid {file.pid}, version {health.version}) does not end.",
                hint="End it with `jupyter gpupool stop`, and try again.",
            )
        time.sleep(_LOOK_SECONDS)


def _has_leases(runtime: Path, file: RuntimeFile) -> bool:
    """Ask a pool of another API major whether it has leases; what cannot be read counts as yes."""
    import json

    http = urllib3.PoolManager(num_pools=1, retries=False)
    try:
        answer = http.request(
            "GET",
            f"{file.url}/api/v{file.api}/leases",
            headers={"Authorization": f"Bearer {owner_token(runtime)}"},
            timeout=_HEALTH_SECONDS,
        )
        leases = json.loads(answer.data) if answer.status == 200 else None
        return not isinstance(leases, list) or bool(leases)
    except (urllib3.exceptions.HTTPError, ValueError):
        return True
    finally:
        http.clear()


def _spawn(runtime: Path) -> Path:
    """Start the service as nobody's child; return the path of its log."""
    logs = private_directory(runtime / names.LOGS_DIR, variable=names.ENV_RUNTIME_DIR)
    log = logs / "service.log"
    environment = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
    environment[names.ENV_RUNTIME_DIR] = str(runtime)
    command = [sys.executable, "-m", "jupyter_gpupool", "serve", "--embedded"]
    launcher = Path(__file__).with_name("launch.py")
    # The launcher forks and ends at once, so that the service is adopted by init: it must be neither the
    # child of a kernel (whose process tree is counted against a lease) nor a zombie when it ends.
    subprocess.run(  # noqa: S603 - our own interpreter and script
        [sys.executable, "-I", "-S", str(launcher), str(log), *command],
        env=environment,
        cwd=runtime,
        stdin=subprocess.DEVNULL,
        check=True,
        timeout=START_SECONDS,
        start_new_session=True,
    )
    return log


def _await_start(runtime: Path, log: Path) -> RuntimeFile:
    """Wait until the runtime file names a service that answers."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if file := find_running(runtime):
            return file
        if _ended_early(log):
            break
        time.sleep(_LOOK_SECONDS)
    raise PoolUnreachable(
        f"The embedded pool did not start within {START_SECONDS:.0f} s. The last line of {log} is: "
        f"{_last_line(log)}",
        hint="`jupyter gpupool serve --embedded` in a terminal shows why.",
    )


def _ended_early(log: Path) -> bool:
    """Tell whether the service that the launcher started has ended again."""
    try:
        pid = int(log.with_suffix(".pid").read_text())
    except (OSError, ValueError):
        return False
    return start_ticks(pid) is None and not _service_lock_held(log.parent.parent)


def _service_lock_held(runtime: Path) -> bool:
    """Tell whether a service (perhaps started by somebody else) holds its lock: then it will answer soon."""
    import fcntl

    try:
        with (runtime / names.SERVICE_LOCK).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _last_line(log: Path) -> str:
    """Return the last line of a log that says something."""
    try:
        lines = log.read_text(errors="replace").split("\n")
    except OSError:
        lines = []
    return next((f"“{line.strip()[:300]}”." for line in reversed(lines) if line.strip()), "none.")
