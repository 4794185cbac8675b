"""Which workers ``%gpupool scale`` last gave a kernel, so that the kernel has them again after a restart.

Rules of this module: one small file for each kernel, in the runtime directory, says what was asked for and by
which process; a kernel pays for looking whether it is there, once. What cannot be read or written is not
there. What is done with it stands in `jupyter_gpupool.sessions`, which is imported only then.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

#: In the runtime directory: what was asked for, by kernel.
SCALED_FOLDER = "scaled"
#: Variable in which it is carried to another node.
_CARRIED = "_gpupool_scaled"
#: What kernels that are gone for so long have left is removed, seconds.
KEEP_SECONDS = 7 * 86400.0


def scaled_file(shell: Any) -> Path | None:
    """Return the file of a shell's kernel, whether it is there or not; None outside a kernel."""
    from jupyter_gpupool.kernel.snapshots.where import connection_file, kernel_id
    from jupyter_gpupool.protocol.paths import runtime_dir

    found = kernel_id(shell) or connection_file(shell)
    if not found:
        return None
    return runtime_dir() / SCALED_FOLDER / f"{hashlib.sha256(found.encode()).hexdigest()[:32]}.json"


def keep(shell: Any, data: bytes) -> None:
    """Keep what was asked for, and tidy up after kernels that are long gone."""
    from jupyter_gpupool.core.errors import GPUPoolError
    from jupyter_gpupool.protocol import names, paths

    path = scaled_file(shell)
    if path is None:
        return
    with contextlib.suppress(OSError, GPUPoolError):
        paths.make_runtime_dir()
        paths.private_directory(path.parent, variable=names.ENV_RUNTIME_DIR)
        paths.write_private(path, data)
        for other in path.parent.glob("*.json"):
            if other.stat().st_mtime < time.time() - KEEP_SECONDS:
                other.unlink()


def forget(shell: Any) -> None:
    """Keep nothing for this kernel."""
    path = scaled_file(shell)
    if path is not None:
        with contextlib.suppress(OSError):
            path.unlink()


@contextlib.contextmanager
def carried(shell: Any) -> Iterator[None]:
    """Have what was asked for among the variables, so that a snapshot takes it to another node."""
    path = scaled_file(shell)
    data = b""
    if path is not None:
        with contextlib.suppress(OSError):
            data = path.read_bytes()
    if data:
        shell.user_ns[_CARRIED] = data
    try:
        yield
    finally:
        if shell is not None:
            shell.user_ns.pop(_CARRIED, None)


def put_down(shell: Any) -> None:
    """Keep what a snapshot has brought, for `scale_again` to find."""
    data = shell.user_ns.pop(_CARRIED, None)
    if isinstance(data, bytes):
        keep(shell, data)


def scale_again(shell: Any) -> None:
    """Give a kernel that was started again the workers that it had, if it had any."""
    path = scaled_file(shell)
    if path is None or not path.exists():
        return
    from jupyter_gpupool.core.errors import GPUPoolError
    from jupyter_gpupool.protocol import paths

    try:
        paths.make_runtime_dir()  # which is this user's alone, or nothing in it counts
        data = path.read_bytes()
    except (OSError, GPUPoolError):
        return
    import_module("jupyter_gpupool.sessions.again").scale_again(shell, data)
