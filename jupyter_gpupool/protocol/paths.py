"""Where the files of one user's pool lie.

Rules of this module: every process computes the same path from the same environment; directories that hold
secrets are private (0700), owned by this user, and not symlinks; every kernel imports it, so that is cheap.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.protocol import names


class UnsafeDirectory(GPUPoolError):
    """Raised when a private directory is not private. Remove it, or name another by the variable shown."""

    code = "unsafe_directory"


def _uid() -> int:
    """Return this process's uid; 0 where the platform has none."""
    return os.getuid() if hasattr(os, "getuid") else 0


def os_user() -> str:
    """Return the name of this process's user, who owns an embedded pool; ``uid-N`` where it has none.

    Environment variables, which anybody can set, say nothing here.
    """
    if not hasattr(os, "getuid"):
        import getpass

        return getpass.getuser()
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid-{os.getuid()}"


def private_directory(path: Path, *, variable: str) -> Path:
    """Create ``path`` with mode 0700 if it is missing, and check that it is private.

    Raises
    ------
    UnsafeDirectory
        If it is a symlink, belongs to somebody else, or others may enter it.
    """
    with contextlib.suppress(FileExistsError):  # what is there is looked at below
        path.mkdir(mode=0o700, parents=True)
    status = path.lstat()
    hint = f"Remove it, or set {variable} to another directory."
    if stat.S_ISLNK(status.st_mode) or not stat.S_ISDIR(status.st_mode):
        raise UnsafeDirectory(f"{path} is not a plain directory.", hint=hint)
    if hasattr(os, "getuid") and status.st_uid != os.getuid():
        raise UnsafeDirectory(f"{path} belongs to uid {status.st_uid}.", hint=hint)
    if hasattr(os, "getuid") and stat.S_IMODE(status.st_mode) & 0o077:
        raise UnsafeDirectory(f"Others may enter {path} (mode {stat.S_IMODE(status.st_mode):o}).", hint=hint)
    return path


def public_directory(path: Path) -> Path:
    """Create ``path`` with mode 0755 if it is missing, and check that only this user can write there.

    Raises
    ------
    UnsafeDirectory
        If it is a symlink, belongs to somebody else, or others may write there.
    """
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o755, parents=True)
        path.chmod(0o755)
    status = path.lstat()
    mode = stat.S_IMODE(status.st_mode)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != _uid() or mode & 0o022:
        raise UnsafeDirectory(
            f"{path} is not a plain directory of uid {_uid()} that only this user can change.",
            hint="Remove it, or set PoolAgent.socket_directory to another.",
        )
    return path


def runtime_dir() -> Path:
    """Return the private runtime directory (not created)."""
    if override := os.environ.get(names.ENV_RUNTIME_DIR):
        return Path(override)
    if base := os.environ.get("XDG_RUNTIME_DIR"):
        return Path(base) / "jupyter_gpupool"
    import tempfile

    return Path(tempfile.gettempdir()) / f"jupyter_gpupool-{_uid()}"


def make_runtime_dir() -> Path:
    """Return the private runtime directory, created and checked."""
    return private_directory(runtime_dir(), variable=names.ENV_RUNTIME_DIR)


def owner_token(runtime: Path) -> str:
    """Return the owner's token of the embedded pool in ``runtime``, made (0600) by whoever asks first.

    It is kept over restarts, so that the kernels' own tokens, which are made from it, stay good.
    """
    import secrets

    path = runtime / names.TOKEN_FILE
    if not path.exists():
        with _draft(path, secrets.token_urlsafe(32).encode()) as draft, contextlib.suppress(FileExistsError):
            os.link(draft, path)  # whole or not at all, and only the first one wins
    return path.read_text().strip()


def write_private(path: Path, data: bytes, *, durable: bool = False) -> None:
    """Replace a file by a private one (0600), at once and whole; where that fails, it is as it was.

    Parameters
    ----------
    path : Path
        The file.
    data : bytes
        What is in it afterwards.
    durable : bool
        Wait until it would survive a power cut: for what cannot be made again.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    with _draft(path, data, durable=durable) as draft:
        draft.replace(path)
    if durable:
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


@contextlib.contextmanager
def _draft(path: Path, data: bytes, *, durable: bool = False) -> Iterator[Path]:
    """Write a private file beside another, under a name that nobody else has; what is left of it goes."""
    import secrets

    draft = path.with_name(f".{path.name}-{os.getpid()}-{secrets.token_hex(4)}")
    handle = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(handle)
        yield draft
    finally:
        draft.unlink(missing_ok=True)


def is_local(url: str) -> bool:
    """Tell whether the address of a store is a directory of this machine; empty means the data directory."""
    return urlsplit(url).scheme in ("", "file", "local")


def socket_path(runtime: Path) -> Path:
    """Return the path of the agent's socket for a runtime directory, short enough for a unix socket.

    Where the natural path is too long, a private directory beside the temporary files, named after the
    runtime directory's hash, takes its place.
    """
    natural = runtime / names.AGENT_SOCKET
    if len(os.fsencode(natural)) <= names.MAX_SOCKET_PATH:
        return natural
    digest = hashlib.sha256(os.fsencode(runtime)).hexdigest()[:16]
    short = Path("/tmp") / f"jgp-{_uid()}-{digest}"  # noqa: S108 - short on purpose, private, checked
    return private_directory(short, variable=names.ENV_RUNTIME_DIR) / names.AGENT_SOCKET


def machine_id() -> str:
    """Return an id of this machine that survives reboots, safe in a file name."""
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        try:
            text = Path(path).read_text().strip()
        except OSError:
            continue
        if text.isalnum():
            return text
    import socket

    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:32]


def data_dir() -> Path:
    """Return this machine's data directory (not created); the journal lies there."""
    if override := os.environ.get(names.ENV_DATA_DIR):
        return Path(override) / machine_id()
    from platformdirs import user_data_path

    return user_data_path("jupyter_gpupool") / machine_id()


def lock_dir() -> Path:
    """Return the directory of the machine-wide device locks: the same for every user."""
    if override := os.environ.get(names.ENV_LOCK_DIR):
        return Path(override)
    base = Path("/run/lock")
    return (base if base.is_dir() else Path("/tmp")) / "jupyter_gpupool"  # noqa: S108 - shared on purpose
