"""Starts one process that is nobody's child: run as a script, with the log and the command as arguments.

Rules of this file: it imports nothing of ours (it runs with ``-I -S``), and ends at once. A process under a
lease's limits passes them on to its children, so the limits that the lease put on are taken off first; what
they were before stands in an environment variable that whoever attaches sets.
"""

from __future__ import annotations

import json
import os
import sys

#: How this process was limited before its lease (``names.ENV_BASELINE``).
_BASELINE = "JUPYTER_GPUPOOL_BASELINE"
#: A log longer than this is put aside before a new start, bytes.
_LOG_BYTES = 1_000_000


def restore(environment: dict[str, str]) -> None:
    """Take a lease's limits off this process, and its variables out of ``environment``."""
    baseline = json.loads(environment.pop(_BASELINE, "{}"))
    if "data_bytes" in baseline:
        import resource

        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        resource.setrlimit(resource.RLIMIT_DATA, (baseline["data_bytes"], hard))
    if baseline.get("cores"):
        os.sched_setaffinity(0, baseline["cores"])
    for name, value in baseline.get("environment", {}).items():
        environment.pop(name, None)
        if value is not None:
            environment[name] = value


def main(log: str, command: list[str]) -> None:
    """Fork; the child becomes ``command``, with its output in ``log``, the parent ends."""
    if os.path.exists(log) and os.path.getsize(log) > _LOG_BYTES:  # noqa: PTH110, PTH202 - kept small
        os.replace(log, log + ".1")  # noqa: PTH105
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    environment = dict(os.environ)
    restore(environment)
    pid = os.fork()
    if pid:
        with open(os.path.splitext(log)[0] + ".pid", "w") as file:  # noqa: PTH122, PTH123
            file.write(str(pid))
        return
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.execve(command[0], command, environment)  # noqa: S606 - our own command


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
