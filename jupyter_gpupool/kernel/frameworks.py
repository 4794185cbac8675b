"""Which frameworks are installed here, and in which versions: the rules of a node may ask for it.

Rule of this module: nothing is imported for the sake of it; the metadata of installed distributions says it.
"""

from __future__ import annotations

import functools
import sys

#: Framework, as the rules of a node name it -> distributions that bring it, the usual one first.
DISTRIBUTIONS: dict[str, tuple[str, ...]] = {
    "pytorch": ("torch",),
    "tensorflow": ("tensorflow", "tensorflow-gpu", "tf-nightly"),
    "jax": ("jax",),
    "cupy": ("cupy-cuda13x", "cupy-cuda12x", "cupy-cuda11x", "cupy"),
    "rmm": ("rmm-cu13", "rmm-cu12", "rmm-cu11", "rmm"),
    "numba": ("numba",),
    "mxnet": ("mxnet",),
}


def installed() -> dict[str, str]:
    """Return the installed frameworks with their versions; looked up once for each search path."""
    return dict(_installed(tuple(sys.path)))


@functools.lru_cache(maxsize=4)
def _installed(search_path: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Look the distributions up."""
    found = ((name, _version(distributions)) for name, distributions in DISTRIBUTIONS.items())
    return tuple((name, version) for name, version in found if version)


def _version(distributions: tuple[str, ...]) -> str:
    """Return the version of the first of these distributions that is installed; empty without any."""
    from importlib import metadata

    for distribution in distributions:
        try:
            return metadata.version(distribution) or ""
        except metadata.PackageNotFoundError:
            continue
    return ""
