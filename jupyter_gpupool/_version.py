"""The version, read from the installed distribution."""

from __future__ import annotations


def version() -> str:
    """Return the installed version, or ``0+unknown`` for a bare source tree."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed("jupyter_gpupool")
    except PackageNotFoundError:
        return "0+unknown"
