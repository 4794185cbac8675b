"""Checks of Jupyter: extensions that are off, kernels without us, another provisioner.

Rule of this module: it reads the files that Jupyter reads, in the same order; the first that says something
counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jupyter_gpupool.cli.doctor.scene import Finding, Scene, Verdict, found_by
from jupyter_gpupool.server.environments import look

_PROVISIONER = "gpupool-provisioner"
#: Jupyter's own, which ours takes the place of.
_REPLACEABLE = "local-provisioner"
#: Words that mean the interpreter that Jupyter itself runs in.
_PYTHONS = frozenset({"python", "python3"})
_LAB_NAME = "jupyter-gpupool"


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _server_configs(scene: Scene) -> Iterator[dict[str, Any]]:
    """Yield what configures a server, the strongest first."""
    for folder in scene.configs:
        for name in ("jupyter_server_config.json", "jupyter_notebook_config.json"):
            yield _json(folder / name)
        for path in sorted((folder / "jupyter_server_config.d").glob("*.json")):
            yield _json(path)


def server_extension(scene: Scene) -> Finding:
    """Look for our server extension, not enabled."""
    for config in _server_configs(scene):
        enabled = config.get("ServerApp", {}).get("jpserver_extensions", {}).get("jupyter_gpupool")
        if enabled:
            return found_by("server extension", Verdict.FINE, "It is enabled.")
        if enabled is False:
            return found_by(
                "server extension",
                Verdict.WRONG,
                "It is disabled: no sidebar, and kernels start without us.",
                "`jupyter server extension enable jupyter_gpupool`",
            )
    return found_by(
        "server extension",
        Verdict.WRONG,
        "It is not installed where Jupyter looks.",
        "Install jupyter_gpupool into the environment that Jupyter runs in, or enable it: "
        "`jupyter server extension enable jupyter_gpupool`",
    )


def lab_extension(scene: Scene) -> Finding:
    """Look for the sidebar, not installed or disabled."""
    places = [it / "labextensions" / _LAB_NAME / "package.json" for it in scene.shares]
    if not any(place.exists() for place in places):
        return found_by(
            "sidebar",
            Verdict.MIND,
            "The sidebar is not installed where JupyterLab looks.",
            "Install jupyter_gpupool into the environment that JupyterLab runs in.",
        )
    for folder in scene.configs:
        disabled = _json(folder / "labconfig" / "page_config.json").get("disabledExtensions", {})
        words = (
            {name for name, off in disabled.items() if off} if isinstance(disabled, dict) else set(disabled)
        )
        if any(word.split(":")[0] == _LAB_NAME for word in words):
            return found_by(
                "sidebar", Verdict.MIND, "It is disabled.", f"`jupyter labextension enable {_LAB_NAME}`"
            )
    return found_by("sidebar", Verdict.FINE, "It is installed.")


def provisioner(scene: Scene) -> Finding:
    """Look for another provisioner, so that kernels are not followed by us."""
    chosen = scene.environment.get("JUPYTER_DEFAULT_PROVISIONER_NAME", "")
    where = "JUPYTER_DEFAULT_PROVISIONER_NAME"
    for config in _server_configs(scene) if not chosen else ():
        chosen = config.get("KernelProvisionerFactory", {}).get("default_provisioner_name", "")
        where = "KernelProvisionerFactory.default_provisioner_name"
        if config.get("GPUPoolExtension", {}).get("default_provisioner") is False:
            chosen, where = chosen or _REPLACEABLE, "GPUPoolExtension.default_provisioner"
        if chosen:
            break
    replaced = where != "GPUPoolExtension.default_provisioner" and chosen == _REPLACEABLE
    if not chosen or chosen == _PROVISIONER or replaced:
        return found_by("provisioner", Verdict.FINE, "Kernels keep their leases over a restart.")
    return found_by(
        "provisioner",
        Verdict.MIND,
        f"Kernels run under “{chosen}” ({where}): they lose their leases at a restart.",
        f"Set it to {_PROVISIONER}, or leave it unset; `%load_ext jupyter_gpupool` works all the same.",
    )


def kernels(scene: Scene) -> Finding:
    """Look for kernels whose environment does not have us."""
    lacking: dict[str, str] = {}
    count = 0
    for name, argv, env in _kernelspecs(scene):
        found = look(argv, {**scene.environment, **env})
        count += found.ipykernel
        if command := found.install_command:
            lacking[name] = command
    if lacking:
        return found_by(
            "kernels",
            Verdict.MIND,
            f"Without us run the kernels of {', '.join(sorted(lacking))}: %gpupool is unknown there.",
            " · ".join(f"`{lacking[name]}`" for name in sorted(lacking)),
        )
    return found_by("kernels", Verdict.FINE, f"{count} Python kernel(s) have jupyter_gpupool.")


def _kernelspecs(scene: Scene) -> Iterator[tuple[str, list[str], dict[str, str]]]:
    """Yield name, command and environment of each kernel; the first of a name counts."""
    seen = set()
    for share in scene.shares:
        for path in sorted((share / "kernels").glob("*/kernel.json")):
            spec = _json(path)
            argv = spec.get("argv")
            if path.parent.name not in seen and isinstance(argv, list) and argv:
                seen.add(path.parent.name)
                words = [str(it) for it in argv]
                if scene.interpreter and words[0] in _PYTHONS:
                    words[0] = scene.interpreter
                yield path.parent.name, words, dict(spec.get("env") or {})
