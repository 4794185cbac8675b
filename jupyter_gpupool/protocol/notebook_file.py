"""What a notebook's file says of the share that its kernel runs with.

Rules of this module: the file is found by what its server told the kernel, on this machine, or not at all;
everything in it but our entry is skipped; a file that cannot be read says nothing; every kernel imports it,
so that is cheap.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

#: Name of our entry in the metadata of kernelspecs, and of notebooks.
METADATA = "gpupool"
#: Variable in which a Jupyter server tells a kernel the path of its notebook.
ENV_NOTEBOOK = "JPY_SESSION_NAME"


def share_metadata(session: str, cwd: str | os.PathLike[str] = "") -> Mapping[str, Any] | None:
    """Return the metadata of a notebook that say which share its kernel runs with; None when none do.

    Parameters
    ----------
    session : str
        What the server tells of the notebook: its path, or one relative to the server's own directory.
    cwd : path
        Where the kernel starts: the directory of the notebook; empty for this process's.

    Returns
    -------
    mapping or None
        Our entry only, whatever stands in it.
    """
    if not session:
        return None
    path = Path(session)
    if not path.is_absolute():
        path = Path(cwd or ".") / path.name  # a kernel starts where its notebook is
    try:
        data = path.read_bytes()
    except OSError:
        return None
    return _entry(data) if f'"{METADATA}"'.encode() in data else None


def _entry(data: bytes) -> Mapping[str, Any] | None:
    """Return our entry of a notebook that may have one."""
    import msgspec

    kind = msgspec.defstruct("Notebook", [("metadata", dict[str, msgspec.Raw], {})])
    try:
        found = msgspec.json.decode(data, type=kind).metadata.get(METADATA)  # type: ignore[attr-defined]
        return None if found is None else {METADATA: msgspec.json.decode(found)}
    except ValueError:  # msgspec's own errors are ValueErrors, too
        return None
