"""Processes that an agent starts for the owner of a lease: what clients, service and agents say of them.

Rules of this module: what may be secret (standard input, keys, variables) travels in bodies only, and is in
no ``repr``; fields are only added, each with a default.
"""

from __future__ import annotations

from enum import Enum

import msgspec


class ProcessState(Enum):
    """How far a process that was asked for has come."""

    #: It is being started; a kernel also has to say which ports it listens on.
    STARTING = "starting"
    #: It runs.
    RUNNING = "running"
    #: It ran, and has ended.
    ENDED = "ended"
    #: It could not be started, or did not listen.
    FAILED = "failed"
    #: Its node was lost, and its lease is over: it is ended as soon as the node is back.
    LOST = "lost"


#: States after which nothing happens any more.
OVER = frozenset({ProcessState.ENDED, ProcessState.FAILED, ProcessState.LOST})


class KernelPorts(msgspec.Struct, kw_only=True, frozen=True):
    """The ports of a kernel, as its connection file names them; 0 for any that is free."""

    shell_port: int = 0
    iopub_port: int = 0
    stdin_port: int = 0
    control_port: int = 0
    hb_port: int = 0

    @property
    def known(self) -> bool:
        """Whether all of them are."""
        return all(getattr(self, name) for name in self.__struct_fields__)


class KernelConnection(msgspec.Struct, kw_only=True, frozen=True):
    """What a kernel needs for its connection file beside an address; the agent adds that of its node."""

    key: str
    signature_scheme: str = "hmac-sha256"
    kernel_name: str = ""
    #: By which the file is named, as those of a Jupyter server are; letters, digits and ``-``.
    kernel_id: str = ""
    #: Keys of CurveZMQ; empty for a connection that is signed and not encrypted.
    curve_publickey: str = ""
    curve_secretkey: str = ""
    ports: KernelPorts = KernelPorts()

    def __repr__(self) -> str:
        return f"KernelConnection(kernel_name={self.kernel_name!r}, …)"


class LaunchRequest(msgspec.Struct, kw_only=True):
    """Body of ``POST /leases/{id}/processes``: a process for the lease's node."""

    #: Chosen by the client, new for each process: asking again with the same one starts nothing more.
    id: str
    #: ``{connection_file}`` in it becomes the path of that file. A bare ``python`` is the agent's own.
    argv: list[str]
    #: Variables; those that the node does not allow are left out.
    env: dict[str, str] = {}
    #: Where it starts; where that is not on the node, in the home directory.
    cwd: str = ""
    #: What it reads on its standard input, which ends after it.
    stdin: str = ""
    #: For a Jupyter kernel: what goes into its connection file.
    connection: KernelConnection | None = None

    def __repr__(self) -> str:
        return f"LaunchRequest(id={self.id!r}, argv={self.argv!r}, …)"


class LaunchDoc(msgspec.Struct, kw_only=True):
    """A process as the owner of its lease sees it."""

    id: str
    lease_id: str
    node_id: str
    hostname: str
    state: ProcessState
    #: Its number on its node; None before it runs.
    pid: int | None
    #: Its exit status; None when a signal ended it, or nobody knows.
    status: int | None
    #: The signal that ended it, where one did.
    signal: int | None
    #: Why it could not be started, or the last line that it wrote.
    words: str
    #: Address of the node, for connections to a kernel; empty when it is none.
    ip: str
    #: Where a kernel listens; None when it is none, or does not yet.
    ports: KernelPorts | None
    #: Changes whenever anything above does.
    tag: str


class StartOrder(msgspec.Struct, kw_only=True, tag="start"):
    """Start a process for the holder of a lease."""

    lease_id: str
    generation: int
    process_id: str
    owner: str
    argv: list[str]
    env: dict[str, str] = {}
    cwd: str = ""
    stdin: str = ""
    connection: KernelConnection | None = None

    def __repr__(self) -> str:
        return f"StartOrder(lease_id={self.lease_id!r}, process_id={self.process_id!r}, …)"


class SignalOrder(msgspec.Struct, kw_only=True, tag="signal"):
    """Send a signal to a process; 0 ends it: asked first, then made to."""

    process_id: str
    number: int


class ProcessReport(msgspec.Struct, kw_only=True, tag="process"):
    """How a process is now."""

    lease_id: str
    generation: int
    process_id: str
    state: ProcessState
    pid: int | None = None
    status: int | None = None
    signal: int | None = None
    words: str = ""
    ip: str = ""
    ports: KernelPorts | None = None
