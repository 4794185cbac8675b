"""Checks of the pool: its directories, its port, who answers, and in which version.

Rule of this module: a pool that does not run is not wrong, it starts when it is needed; one that cannot is.
"""

from __future__ import annotations

import stat

from jupyter_gpupool.cli.doctor.scene import Finding, Scene, Verdict, found_by
from jupyter_gpupool.protocol import names

#: State of a listening socket in /proc/net/tcp.
_LISTENS = "0A"


def runtime_directory(scene: Scene) -> Finding:
    """Look for wrong permissions of the runtime directory."""
    path = scene.runtime
    try:
        status = path.lstat()
    except FileNotFoundError:
        return found_by("runtime directory", Verdict.FINE, f"{path} is made when it is needed.")
    except OSError as error:
        return found_by(
            "runtime directory",
            Verdict.WRONG,
            f"{path} cannot be looked at: {error.strerror}.",
            f"Set {names.ENV_RUNTIME_DIR} to a directory of your own.",
        )
    if not stat.S_ISDIR(status.st_mode):
        return found_by(
            "runtime directory",
            Verdict.WRONG,
            f"{path} is not a plain directory.",
            f"Remove it, or set {names.ENV_RUNTIME_DIR} to another.",
        )
    if status.st_uid != scene.uid:
        return found_by(
            "runtime directory",
            Verdict.WRONG,
            f"{path} belongs to uid {status.st_uid}, not to uid {scene.uid}.",
            f"Have it removed, or set {names.ENV_RUNTIME_DIR} to another.",
        )
    if stat.S_IMODE(status.st_mode) & 0o077:
        mode = f"{stat.S_IMODE(status.st_mode):o}"
        return found_by(
            "runtime directory",
            Verdict.WRONG,
            f"Others may enter {path} (mode {mode}), where the pool's keys are.",
            f"`chmod 700 {path}`",
        )
    return found_by("runtime directory", Verdict.FINE, f"{path} is private.")


def service(scene: Scene) -> Finding:
    """Look for a pool that does not answer, or cannot write."""
    if scene.health is None:
        configured = scene.environment.get(names.ENV_URL)
        if configured:
            return found_by(
                "pool",
                Verdict.WRONG,
                f"The pool that {names.ENV_URL} names does not answer: {scene.unreachable}",
                f"Start it, or unset {names.ENV_URL} to use a pool of this machine.",
            )
        if scene.environment.get(names.ENV_AUTOSTART) == "0":
            return found_by(
                "pool",
                Verdict.WRONG,
                f"No pool runs, and {names.ENV_AUTOSTART}=0 keeps notebooks from starting one.",
                f"Run `jupyter gpupool serve`, or unset {names.ENV_AUTOSTART}.",
            )
        return found_by("pool", Verdict.FINE, "No pool runs; the first notebook that asks starts one.")
    if scene.health.status != "ok":
        return found_by(
            "pool",
            Verdict.WRONG,
            f"The pool answers, but its state is {scene.health.status}: nothing is granted.",
            "Look at the disk that the journal lies on: it is full, or cannot be written.",
        )
    lost = [node.hostname for node in scene.nodes if not node.connected]
    if lost:
        return found_by(
            "pool",
            Verdict.WRONG,
            f"The agent of {', '.join(lost)} is not connected: its devices are not offered.",
            "Start it there: `jupyter gpupool agent` (or its service), and look at its log.",
        )
    return found_by("pool", Verdict.FINE, f"It answers, with {len(scene.nodes)} node(s) connected.")


def versions(scene: Scene) -> Finding:
    """Look for versions that differ between the pool, its agents and what is installed here."""
    if scene.health is None:
        return found_by("versions", Verdict.FINE, f"Installed here is {scene.version}; no pool runs.")
    if scene.health.api != names.API_MAJOR:
        return found_by(
            "versions",
            Verdict.WRONG,
            f"The pool ({scene.health.version}) speaks API {scene.health.api}, this one {names.API_MAJOR}.",
            "Install the same version on both sides, then run `jupyter gpupool stop`.",
        )
    agents = {node.hostname: node.version for node in scene.nodes if node.version}
    differ = [f"the agent of {host} is {it}" for host, it in agents.items() if it != scene.health.version]
    if scene.health.version != scene.version:
        differ.append(f"installed here is {scene.version}")
    if differ:
        return found_by(
            "versions",
            Verdict.MIND,
            f"The pool is {scene.health.version}, but {'; '.join(differ)}.",
            "Install the same version everywhere; `jupyter gpupool stop` lets the new one start.",
        )
    return found_by("versions", Verdict.FINE, f"Everything that answers is {scene.version}.")


def port(scene: Scene) -> Finding:
    """Look for a port that is configured, and taken by something else."""
    if scene.port and scene.health is None and scene.port in _listening(scene):
        return found_by(
            "port",
            Verdict.WRONG,
            f"PoolService.port is {scene.port}, where another program listens.",
            "Choose another, or 0 for any; `ss -ltnp` says who has it.",
        )
    said = f"PoolService.port {scene.port} can be used." if scene.port else "The pool takes any free port."
    return found_by("port", Verdict.FINE, said)


def _listening(scene: Scene) -> set[int]:
    """Return the TCP ports on which something listens."""
    found = set()
    for name in ("tcp", "tcp6"):
        for line in scene.text(f"/proc/net/{name}").splitlines()[1:]:
            fields = line.split()
            if len(fields) > 3 and fields[3] == _LISTENS:
                found.add(int(fields[1].rpartition(":")[2], 16))
    return found
