"""The provisioner of kernels that run where their share is: on the node of a lease, this machine or another.

Rules of this module: first the lease, then the kernel on its node; the kernel's ports are the node's to
choose, and stay over restarts on it; a lease is given back when the kernel does not start, and in
``cleanup(restart=False)``; no wait is without a bound but the one for the share, which says for what it
waits. What a person has to know is the text of the exception, which the server shows.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import uuid
from collections.abc import AsyncIterator
from typing import Any, cast

from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.provisioning.provisioner_base import KernelProvisionerBase

from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.core.leases import EndReason
from jupyter_gpupool.protocol import names
from jupyter_gpupool.protocol.launches import KernelConnection, KernelPorts, LaunchDoc, LaunchRequest
from jupyter_gpupool.protocol.notebook_file import ENV_NOTEBOOK, share_metadata
from jupyter_gpupool.protocol.wanted import Wanted, read_wanted
from jupyter_gpupool.server.environments import Environment, is_ipykernel
from jupyter_gpupool.server.node_encryption import curve_keys, why_plain
from jupyter_gpupool.server.node_errors import KernelNotStarted, PoolNotThere
from jupyter_gpupool.server.node_lease import KernelLease
from jupyter_gpupool.server.node_pool import NodeProcess
from jupyter_gpupool.server.provisioner import EXTENSION_ARGUMENT, find_parts
from jupyter_gpupool.server.quiesce import quiesce_kernel
from jupyter_gpupool.server.reconnect import connect_anew
from jupyter_gpupool.server.release import release_kernel
from jupyter_gpupool.server.settings import ServerParts

#: How long a kernel may take to say where it listens, seconds; its node gives up a little earlier.
LISTEN_SECONDS = 120.0
#: How long a signal may take to be passed on, seconds.
SIGNAL_SECONDS = 10.0
#: Where kernels of a pool on one machine listen.
_LOOPBACK = "127.0.0.1"


class NodeProvisioner(KernelProvisionerBase):
    """Runs a kernel on the node of its lease.

    The same object serves all restarts of one kernel.
    """

    _ports = KernelPorts()
    _process: NodeProcess | None = None
    _has_magics = False
    _watched = False
    #: Where it listened when it was started before; None for never.
    _address: tuple[str, KernelPorts] | None = None
    _starts = 0
    _ending: asyncio.Task[None] | None = None
    #: What the kernel says with its first cell.
    _sentence = ""
    #: What the kernel is told of having moved; see `_moves`.
    _moved = ""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._lease = KernelLease(self.kernel_id, self._reason, log=self.log)

    # --- starting -------------------------------------------------------------------------------

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Get the lease, and prepare what is started on its node."""
        extra = kwargs.pop("extra_arguments", [])
        launch = await super().pre_launch(**kwargs)
        parts = self._parts()
        self._starts += 1
        async with self._told():
            wanted = await self._wanted(launch)
            before = self._lease.node_id
            await self._lease.introduce(parts)
            await self._lease.get(wanted, label=str(self.kernel_spec.display_name))
            if self._lease.node_id != before:
                self._ports = KernelPorts()
            self._moved = self._moves()
        command = [*self.kernel_spec.argv, *extra]
        self._has_magics = is_ipykernel(command)
        if self._has_magics and EXTENSION_ARGUMENT not in command:
            command.append(EXTENSION_ARGUMENT)
        return {**launch, "cmd": command}

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        """Start the kernel on the node, and return where it listens."""
        async with self._told():
            doc = await self._started(cmd, kwargs)
            if self._ports.known and _ports_are_taken(doc):
                self.log.warning("The ports of kernel %s are taken by now: it gets others.", self.kernel_id)
                self._ports = KernelPorts()
                doc = await self._started(cmd, kwargs)
            if doc.ports is None:
                raise KernelNotStarted(
                    f"The kernel did not start on node {doc.hostname or doc.node_id}: {doc.words}",
                    hint="The log of that node's agent may say more.",
                )
        self._ports = doc.ports
        if (why := why_plain(self._manager)) and doc.ip != _LOOPBACK:
            self.log.warning(
                "The network between this server and kernel %s on %s can read what they say: %s.",
                *(self.kernel_id, doc.hostname, why),
            )
        self.log.info("Kernel %s runs on %s (process %s)", self.kernel_id, doc.hostname, doc.pid)
        self.connection_info = self._connection_info(doc)
        return self.connection_info

    async def post_launch(self, **kwargs: Any) -> None:
        """List the kernel, and watch for the end of its restarts."""
        parts = self._parts()
        environment = Environment(ipykernel=self._has_magics, interpreter="", installed=self._has_magics)
        parts.kernels.started(self.kernel_id, environment, str(self.kernel_spec.language))
        if not self._watched and self.parent is not None:
            self.parent.add_restart_callback(self._given_up, "dead")
            self._watched = True
        before, self._address = self._address, (str(self.connection_info.get("ip", "")), self._ports)
        if before not in (None, self._address) and self.parent is not None:
            connect_anew(self.parent.parent, self.kernel_id, log=self.log)

    @contextlib.asynccontextmanager
    async def _told(self) -> AsyncIterator[None]:
        """Leave nothing behind when a start fails, and say that the kernel is dead where nobody else does."""
        try:
            yield
        except BaseException as error:
            await self._let_go()
            await self._lease.leave()
            if isinstance(error, GPUPoolError):
                self.log.error("Kernel %s was not started: %s", self.kernel_id, error)
                restarter = getattr(self.parent, "_restarter", None)
                if self._starts > 1 and restarter is not None:
                    restarter._fire_callbacks("dead")
            raise

    def _moves(self) -> str:
        """Say what the kernel is told of having moved: for its first process on its new node "1".

        Later ones, and one whose lease was lost, perhaps on its way, are told to look; empty for no move.
        """
        if self._lease.moved:
            return "1"
        return "before" if self._moved or (self._starts > 1 and not self._lease.kept) else ""

    async def _wanted(self, launch: dict[str, Any]) -> Wanted:
        """Read which share the kernel runs with: what its notebook says, or else its kernelspec."""
        self._sentence = ""
        path, cwd = str(launch["env"].get(ENV_NOTEBOOK, "")), launch.get("cwd") or ""
        if (metadata := await asyncio.to_thread(share_metadata, path, cwd)) is not None:
            try:
                return read_wanted(metadata, "notebook")
            except GPUPoolError as error:
                wanted = read_wanted(self.kernel_spec.metadata)
                self._sentence = f"{error} This kernel runs with {wanted.words}, as its kernelspec says."
                self.log.warning("Kernel %s: %s", self.kernel_id, self._sentence)
                return wanted
        return read_wanted(self.kernel_spec.metadata)

    def _parts(self) -> ServerParts:
        parts = find_parts(self)
        if parts is None:
            raise PoolNotThere(
                "This kernel runs with a share of the pool, and the extension jupyter_gpupool is off.",
                hint="`jupyter server extension enable jupyter_gpupool` switches it on.",
            )
        return parts

    def _reason(self, text: str) -> None:
        """Show why the kernel is not there yet, where the server lists its kernels."""
        if self.parent is not None and self.parent.has_trait("reason"):
            self.parent.reason = text

    async def _started(self, command: list[str], kwargs: dict[str, Any]) -> LaunchDoc:
        """Have the process started, and wait until it listens, or is over."""
        body = LaunchRequest(
            id=str(uuid.uuid4()),
            argv=command,
            env=self._variables(kwargs["env"]),
            cwd=os.fspath(kwargs.get("cwd") or ""),
            connection=self._wanted_connection(),
        )
        pool = self._lease.pool
        process = NodeProcess(pool, await pool.launch(self._lease.id, body), log=self.log)
        await self._let_go()
        self._process = process
        try:
            async with asyncio.timeout(LISTEN_SECONDS):
                return await process.until(lambda doc: doc.ports is not None)
        except TimeoutError:
            raise KernelNotStarted(
                f"The kernel did not say within {LISTEN_SECONDS:g} s where it listens.",
                hint="Its node may be away: `jupyter gpupool status` shows it.",
            ) from None

    def _variables(self, env: dict[str, str]) -> dict[str, str]:
        """Return the kernel's variables: those of its kernelspec, and ours; nothing else of this server."""
        parts = self._parts()
        given = {name: env[name] for name in (ENV_NOTEBOOK, *self.kernel_spec.env) if name in env}
        for name, value in parts.snapshots.items():
            if value:
                given.setdefault(name, value)
        if self._sentence:
            given[names.ENV_SAY] = self._sentence
        if self._moved:
            given[names.ENV_MOVED] = self._moved
        return {
            **given,
            names.ENV_MOVABLE: "1",
            names.ENV_TOKEN: self._lease.token,
            names.ENV_REATTACH: self._lease.id,
            names.ENV_AUTOSTART: "0",
        }

    def _wanted_connection(self) -> KernelConnection:
        """Say how the kernel is spoken to: signed, and encrypted where its kernelspec says that it can."""
        manager = self._manager
        return KernelConnection(
            key=manager.session.key.decode(),
            signature_scheme=manager.session.signature_scheme,
            kernel_name=str(manager.kernel_name),
            kernel_id=self.kernel_id,
            ports=self._ports,
            **curve_keys(manager),
        )

    def _connection_info(self, doc: LaunchDoc) -> KernelConnectionInfo:
        manager = self._manager
        ports = {name: getattr(doc.ports, name) for name in KernelPorts.__struct_fields__}
        info: dict[str, Any] = {
            **ports,
            "ip": doc.ip,
            "transport": "tcp",
            "key": manager.session.key,
            "signature_scheme": manager.session.signature_scheme,
            **curve_keys(manager),
        }
        return cast(KernelConnectionInfo, info)

    @property
    def _manager(self) -> Any:
        """The kernel's manager, which has its keys."""
        return self.parent

    # --- the process ----------------------------------------------------------------------------

    @property
    def has_process(self) -> bool:
        """Whether there is a process, as far as the server has not waited for its end."""
        return self._process is not None

    @property
    def pid(self) -> int | None:
        """The process's number on its node."""
        return self._process.doc.pid if self._process is not None else None

    async def poll(self) -> int | None:
        """Say whether the process lives, by what was heard last: None while it does."""
        return self._process.status if self._process is not None else 0

    async def wait(self) -> int | None:
        """Wait until the process has ended, and let go of it."""
        process = self._process
        if process is None:
            return 0
        await process.until(lambda _: False)
        await self._let_go()
        return process.status

    async def send_signal(self, signum: int) -> None:
        """Send a signal to the process; 0 only asks."""
        if signum and self._process is not None and self._process.status is None:
            await self._signal(signum)

    async def terminate(self, restart: bool = False) -> None:
        """Ask the process to end, once that is safe for others on its device."""
        await self._quiesce()
        await self.send_signal(15)

    async def kill(self, restart: bool = False) -> None:
        """End the process at once, as soon as that is safe for others on its device."""
        await self._quiesce()
        await self.send_signal(9)

    async def _signal(self, number: int) -> None:
        process = self._process
        if process is None:
            return
        try:
            async with asyncio.timeout(SIGNAL_SECONDS):
                await self._lease.pool.signal(process.doc, number)
        except (GPUPoolError, TimeoutError) as error:
            why = str(error) or "the pool is away"
            self.log.warning("Signal %s did not reach kernel %s: %s", number, self.kernel_id, why)

    async def _quiesce(self) -> None:
        parts = self._parts()
        if parts.link.connection is None or await self.poll() is not None:
            return
        if parts.link.holds(self.kernel_id, DeviceKind.CUDA):
            await quiesce_kernel(parts.link.connection, self.kernel_id, log=self.log)

    # --- its end --------------------------------------------------------------------------------

    async def cleanup(self, restart: bool = False) -> None:
        """End the kernel's leases, and with them its process, when it does not come back."""
        if not restart:
            await self._end(EndReason.KERNEL_SHUTDOWN)

    def _given_up(self) -> None:
        """Note that the server gave up restarting the kernel: no ``cleanup`` follows then."""
        self._ending = asyncio.get_running_loop().create_task(self._end(EndReason.KERNEL_DEAD))

    async def _end(self, reason: EndReason) -> None:
        parts = self._parts()
        parts.kernels.ended(self.kernel_id)
        await self._let_go()
        self._lease.close()
        if self._lease.id and parts.link.connection is not None:
            await release_kernel(parts.link.connection, self.kernel_id, reason, log=self.log)
        self._lease.id = ""

    async def _let_go(self) -> None:
        """Follow the process no more."""
        process, self._process = self._process, None
        if process is not None:
            await process.close()


def _ports_are_taken(doc: LaunchDoc) -> bool:
    return doc.ports is None and "in use" in doc.words
