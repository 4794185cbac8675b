"""What listens on a machine, and which process it is: read from the kernel's own tables.

Rules of this module: a socket is a fact of its network namespace, and is found by its inode in the process
that has it open; one that no process has open is said to be nobody's, never left out.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

#: The tables, with the state in which a socket takes what comes: TCP "listens", UDP is merely "unconnected".
_TABLES = {"tcp": "0A", "tcp6": "0A", "udp": "07", "udp6": "07"}


@dataclass(frozen=True, order=True)
class Listening:
    """One socket that listens.

    Attributes
    ----------
    protocol : str
        ``tcp`` or ``udp``.
    address : str
        Where; an IPv6 address that stands for one of IPv4 is written as that.
    port : int
        Which port.
    pid : int
        Of the process that has it open; 0 if none was found.
    command : str
        That process's command line.
    """

    protocol: str
    address: str
    port: int
    pid: int
    command: str

    @property
    def on_loopback(self) -> bool:
        """Whether nobody elsewhere reaches it."""
        return ipaddress.ip_address(self.address).is_loopback


def listening() -> set[Listening]:
    """Return all that listens in the network namespace of this thread."""
    found = list(_sockets())
    owners = _owners({inode for *_, inode in found})
    made = set()
    for protocol, address, port, inode in found:
        for pid in owners.get(inode) or {0}:
            made.add(Listening(protocol, address, port, pid, _command(pid)))
    return made


def _sockets() -> Iterator[tuple[str, str, int, str]]:
    for table, state in _TABLES.items():
        for line in Path(f"/proc/thread-self/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            address, _, port = fields[1].partition(":")
            if fields[3] == state and int(port, 16):
                yield table.rstrip("6"), _address(address), int(port, 16), fields[9]


def _address(text: str) -> str:
    """Read an address as the kernel prints it: 32 bits at a time, each in the machine's order."""
    words = [int(text[at : at + 8], 16) for at in range(0, len(text), 8)]
    packed = struct.pack(f"={len(words)}I", *words)
    found = ipaddress.ip_address(
        socket.inet_ntop(socket.AF_INET if len(words) == 1 else socket.AF_INET6, packed)
    )
    mapped = getattr(found, "ipv4_mapped", None)
    return str(mapped or found)


def _owners(inodes: set[str]) -> dict[str, set[int]]:
    """Return which processes have these sockets open."""
    owners: dict[str, set[int]] = {}
    for file in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            link = str(file.readlink())
        except OSError:
            continue  # it was closed meanwhile
        if (match := re.fullmatch(r"socket:\[(\d+)\]", link)) and match[1] in inodes:
            owners.setdefault(match[1], set()).add(int(file.parts[2]))
    return owners


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip() if pid else ""
    except OSError:
        return ""
