"""Shared libraries that tests build from C: once per machine and source, whichever process comes first."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

_FLAGS = (
    *("-shared", "-fPIC", "-O1", "-std=gnu11", "-Wl,-Bsymbolic"),  # two fakes in a process share no symbols
    *("-Wall", "-Wextra", "-Werror", "-Wno-format-truncation"),
)


def cache() -> Path:
    """Return the directory of what was compiled: this user's own, which others can read but not change."""
    path = Path(tempfile.gettempdir()) / f"gpupool-test-libraries-{os.getuid()}"
    path.mkdir(mode=0o755, exist_ok=True)
    found = path.lstat()
    private = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022
    assert private, f"{path} is not a directory that only we can change; remove it"
    return path


def compiled(soname: str, sources: Sequence[Path], *, beside: Sequence[Path] = ()) -> Path:
    """Return the path of a shared library, compiled when its sources are new.

    Parameters
    ----------
    soname : str
        Its name and its file's name ("libcuda.so.1").
    sources : sequence of Path
        C files; headers count into the key and are not compiled.
    beside : sequence of Path
        Libraries that it needs, found by their own path at run time.

    Returns
    -------
    Path
        The library, alone in its directory, which serves as LD_LIBRARY_PATH. Skips the test where there is no
        compiler, and fails in continuous integration.
    """
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        assert not os.environ.get("CI"), "there is no C compiler for the fake drivers; install gcc, libc6-dev"
        pytest.skip("no C compiler is here to build the fake libraries")
    digest = hashlib.sha256(" ".join([soname, *_FLAGS, *map(str, beside)]).encode())
    for source in sorted(sources):
        digest.update(source.read_bytes())
    folder = cache() / f"{soname}-{digest.hexdigest()[:16]}"
    library = folder / soname
    with (cache() / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not library.exists():
            _compile(compiler, soname, sources, beside, folder)
    return library


def _compile(
    compiler: str, soname: str, sources: Sequence[Path], beside: Sequence[Path], folder: Path
) -> None:
    folder.mkdir(exist_ok=True)
    draft = folder / f".{soname}.new"
    units = [str(path) for path in sources if path.suffix == ".c"]
    needs = [part for path in beside for part in (str(path), f"-Wl,-rpath,{path.parent}")]
    subprocess.run(
        [compiler, *_FLAGS, f"-Wl,-soname,{soname}", "-o", str(draft), *units, *needs, "-ldl", "-lpthread"],
        check=True,
        timeout=60,
    )
    draft.rename(folder / soname)  # whole or not at all
