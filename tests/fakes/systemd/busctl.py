"""A stand-in for busctl and the manager behind it: an executable that keeps units in a file.

It moves processes by writing the file that takes the place of /proc/PID/cgroup. Environment: FAKE_SYSTEMD, a
directory with ``units.json``, ``proc/`` and a log of all calls; ``refuse`` in it makes every call fail.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

INFINITY = 2**64 - 1


def main(arguments: list[str]) -> int:
    home = Path(os.environ["FAKE_SYSTEMD"])
    with (home / "log").open("a") as log:
        log.write(json.dumps(arguments) + "\n")
    if (home / "refuse").exists():
        print("Interactive authentication required.", file=sys.stderr)
        return 1
    units: dict[str, dict[str, Any]] = json.loads((home / "units.json").read_text() or "{}")
    bus, _pager, verb, service, *rest = arguments
    assert bus in {"--user", "--system"}
    assert service == "org.freedesktop.systemd1"
    status = call(home, units, rest) if verb == "call" else show(units, rest)
    (home / "units.json").write_text(json.dumps(units))
    return status


def call(home: Path, units: dict[str, dict[str, Any]], rest: list[str]) -> int:
    _path, interface, method, signature, unit, mode, count, *words = rest
    assert interface == "org.freedesktop.systemd1.Manager"
    if method == "StartTransientUnit":
        assert (signature, mode) == ("ssa(sv)a(sa(sv))", "fail")
        if unit in units:
            print(f"Unit {unit} was already loaded.", file=sys.stderr)
            return 1
        units[unit] = {}
        left = properties(units[unit], int(count), words)
        assert left == ["0"]
        for pid in units[unit].pop("PIDs"):
            (home / "proc" / pid / "cgroup").write_text(f"0::/app.slice/{unit}\n")
        return 0
    assert (method, signature, mode) == ("SetUnitProperties", "sba(sv)", "true")
    if unit not in units:
        print(f"Unit {unit} not loaded.", file=sys.stderr)
        return 1
    assert properties(units[unit], int(count), words) == []
    return 0


def properties(unit: dict[str, Any], count: int, words: list[str]) -> list[str]:
    for _ in range(count):
        name, kind, *words = words
        if kind == "au":
            length, *words = words
            unit[name], words = words[: int(length)], words[int(length) :]
        else:
            value, *words = words
            assert kind == "s" or 0 < int(value) <= INFINITY
            unit[name] = value
    return words


def show(units: dict[str, dict[str, Any]], rest: list[str]) -> int:
    path, interface, *names = rest
    assert interface == "org.freedesktop.systemd1.Scope"
    for unit, values in units.items():
        escaped = "".join(c if c.isascii() and c.isalnum() else f"_{ord(c):02x}" for c in unit)
        if path == f"/org/freedesktop/systemd1/unit/{escaped}":
            for name in names:
                print("t", values[name])
            return 0
    print("Unknown object.", file=sys.stderr)
    return 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
