"""The files of some machines, as they were seen on real ones."""

from __future__ import annotations

MEMINFO = "MemTotal:       16777216 kB\nMemFree:         1048576 kB\nMemAvailable:    8388608 kB\n"

V2_MOUNT = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
V1_MOUNTS = (
    "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
)
#: Both versions, but version 2 without any controller that matters.
HYBRID_MOUNTS = V1_MOUNTS + "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"

_SLICE = "user.slice/user-1000.slice/user@1000.service"


def v2(own: str = f"/{_SLICE}/app.slice/lab.scope", **limits: str) -> dict[str, str]:
    """Return a laptop with systemd and version 2; ``limits`` are files of our own group, "__" for "."."""
    files = {
        "proc/meminfo": MEMINFO,
        "proc/self/mountinfo": V2_MOUNT,
        "proc/self/cgroup": f"0::{own}\n",
        "proc/4711/cgroup": f"0::{own}\n",
        "sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory pids\n",
    }
    for name, value in limits.items():
        files[f"sys/fs/cgroup{own.rstrip('/')}/{name.replace('__', '.')}"] = value
    return files


def delegated(**limits: str) -> dict[str, str]:
    """Return a laptop whose user session is delegated to its user; ``limits`` are files of the scope."""
    files = v2(**limits)
    for directory in (f"{_SLICE}/app.slice", _SLICE):
        files[f"sys/fs/cgroup/{directory}/cgroup.controllers"] = "cpu memory pids\n"
        files[f"sys/fs/cgroup/{directory}/cgroup.subtree_control"] = "cpu memory pids\n"
        files[f"sys/fs/cgroup/{directory}/cgroup.procs"] = ""
    files[f"sys/fs/cgroup/{_SLICE}/app.slice/lab.scope/cgroup.procs"] = "4711\n"
    return files


def v1(**files: str) -> dict[str, str]:
    """Return an older machine with version 1 only; ``files`` by path below /sys/fs/cgroup, "__" for "/"."""
    return {
        "proc/meminfo": MEMINFO,
        "proc/self/mountinfo": V1_MOUNTS,
        "proc/self/cgroup": "3:memory:/docker/abc\n2:cpuset:/\n1:cpu,cpuacct:/docker/abc\n",
        "proc/4711/cgroup": "3:memory:/docker/abc\n2:cpuset:/\n1:cpu,cpuacct:/docker/abc\n",
        "sys/fs/cgroup/cpu,cpuacct/docker/abc/tasks": "",
        **{f"sys/fs/cgroup/{name}": text for name, text in files.items()},
    }
