"""Which versions a snapshot was taken with, and what differs here.

Rules of this module: versions come from what is installed, without importing anything; a difference is a
warning, and only what is known to break is refused.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterable
from functools import cache

from jupyter_gpupool.state.errors import IncompatibleSnapshot
from jupyter_gpupool.state.model import FORMAT, Environment, Manifest


@cache
def _distributions() -> dict[str, list[str]]:
    from importlib import metadata

    found: dict[str, list[str]] = {}
    for module, names in metadata.packages_distributions().items():
        found[module] = sorted(set(names))
    return found


@cache
def _version(distribution: str) -> str | None:
    from importlib import metadata

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def environment(modules: Iterable[str]) -> Environment:
    """Describe this process, with the distributions of some top-level modules."""
    return Environment(
        python=platform.python_version(),
        platform=f"{sys.platform} {platform.machine()}",
        packages=versions(modules),
    )


def versions(modules: Iterable[str]) -> dict[str, str]:
    """Return the versions of the distributions that some top-level modules come from."""
    found: dict[str, str] = {}
    for module in sorted(set(modules) - set(sys.stdlib_module_names)):
        own = getattr(sys.modules.get(module), "__version__", None)
        if isinstance(own, str):
            found[module] = str(own)  # torch's is a class of its own
    return found


def differences(saved: Environment) -> list[str]:
    """Say, one sentence each, what is another version here than where a snapshot was taken."""
    said = []
    if saved.python != platform.python_version():
        said.append(f"It was saved by Python {saved.python}, and this is {platform.python_version()}.")
    for package, version in saved.packages.items():
        here = installed(package)
        if here is None:
            said.append(f"It was saved with {package} {version}, which is not installed here.")
        elif here != version:
            said.append(f"It was saved with {package} {version}, and {here} is here.")
    return said


def installed(module: str) -> str | None:
    """Return the version of a top-level module, without importing it."""
    own = getattr(sys.modules.get(module), "__version__", None)
    if isinstance(own, str):
        return str(own)
    found = _version(module)
    if found is not None:
        return found
    versions_of = (_version(distribution) for distribution in _distributions().get(module, ()))
    return next((version for version in versions_of if version is not None), None)


def check(manifest: Manifest) -> list[str]:
    """Say what differs here; refuse what cannot be read.

    Raises
    ------
    IncompatibleSnapshot
        If the snapshot was written in a format of a later version, or by another major version of Python.
    """
    if manifest.format > FORMAT:
        raise IncompatibleSnapshot(
            f"The snapshot {manifest.name or manifest.id} has format {manifest.format}, and this version of "
            f"jupyter_gpupool reads up to {FORMAT}.",
            hint="Install a newer jupyter_gpupool.",
        )
    saved = manifest.environment
    if saved.python.partition(".")[0] != str(sys.version_info.major):
        raise IncompatibleSnapshot(
            f"The snapshot {manifest.name or manifest.id} was saved by Python {saved.python}, and this is "
            f"{platform.python_version()}.",
            hint="Restore it with the Python that saved it.",
        )
    return differences(saved)
