"""The kernel provisioner: `LocalProvisioner`, plus what a kernel needs to reach the pool.

Rules of this module: it waits for nothing but, at a restart, the pool's word (bounded); whatever fails here
leaves the kernel's start just as it would be without us; a lease ends in ``cleanup(restart=False)`` and when
restarts failed, never in ``kill``, which also comes before a restart. Before a kernel that holds a GPU is
signalled, the pool takes its processes off it (bounded).

A kernel gets a token of its own at each start. It is made from the owner's token without asking the pool, so
a kernel that starts before the pool is up has one too.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from jupyter_client.provisioning.local_provisioner import LocalProvisioner

from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.leases import EndReason
from jupyter_gpupool.protocol import names
from jupyter_gpupool.protocol.tokens import KERNEL_PREFIX, KernelClaim, mint_kernel_token
from jupyter_gpupool.server.environments import Environment, look
from jupyter_gpupool.server.quiesce import quiesce_kernel
from jupyter_gpupool.server.release import release_kernel
from jupyter_gpupool.server.settings import PARTS_KEY, ServerParts

#: Makes an ipykernel load our magics.
EXTENSION_ARGUMENT = "--ext=jupyter_gpupool"


class PoolProvisioner(LocalProvisioner):
    """Runs kernels as the local provisioner does, and lets them use the pool.

    The same object serves all restarts of one kernel.
    """

    _environment: Environment | None = None
    _generation = 0
    #: True from the moment the kernel has a token: then it may have a lease.
    _may_hold = False
    _watched = False
    _ending: asyncio.Task[None] | None = None
    #: True once the present process was made safe to signal, or that failed: once is enough.
    _quiesced = False

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Prepare the launch, and add our variables and argument to it."""
        launch = await super().pre_launch(**kwargs)
        parts = find_parts(self)
        if parts is None:
            return launch
        try:
            # The newest snapshot may be older than a lease that was granted just before the kernel died.
            held = await parts.link.leases_of(self.kernel_id) if self._may_hold else []
            equipped = self._equipped(launch, parts, held)
            equipped["env"].pop(names.ENV_SLICE, None)
            if parts.slice is not None:
                equipped["env"].update(await parts.slice.variables())
            return equipped
        except Exception:  # a kernel must start whatever is wrong with us
            self.log.warning("jupyter_gpupool: kernel %s starts without it.", self.kernel_id, exc_info=True)
            return launch

    async def post_launch(self, **kwargs: Any) -> None:
        """List the kernel, and watch for the end of its restarts."""
        await super().post_launch(**kwargs)
        self._quiesced = False
        parts = find_parts(self)
        if parts is None or self._environment is None:
            return
        parts.kernels.started(self.kernel_id, self._environment, str(self.kernel_spec.language))
        if not self._watched and self.parent is not None:
            # The restarter lives as long as the kernel's manager, over all restarts: once is enough.
            self.parent.add_restart_callback(self._given_up, "dead")
            self._watched = True

    async def terminate(self, restart: bool = False) -> None:
        """Ask the process to end, once that is safe for others on its GPU."""
        await self._quiesce()
        await super().terminate(restart=restart)

    async def kill(self, restart: bool = False) -> None:
        """End the process, once that is safe for others on its GPU."""
        await self._quiesce()
        await super().kill(restart=restart)

    async def _quiesce(self) -> None:
        parts = find_parts(self)
        if parts is None or self._quiesced or parts.link.connection is None:
            return
        own = self._may_hold and parts.link.holds(self.kernel_id, DeviceKind.CUDA)
        servers = parts.slice if parts.slice is not None and parts.slice.holds(DeviceKind.CUDA) else None
        if not (own or servers) or await self.poll() is not None:
            return
        self._quiesced = True
        if own:
            await quiesce_kernel(parts.link.connection, self.kernel_id, log=self.log)
        if servers is not None and self.process is not None:
            await servers.quiesce(self.process.pid)

    async def cleanup(self, restart: bool = False) -> None:
        """Clean up after the process, and end the kernel's leases when it does not come back."""
        await super().cleanup(restart=restart)
        if not restart:
            await self._end(EndReason.KERNEL_SHUTDOWN)

    def _given_up(self) -> None:
        """Note that the server gave up restarting the kernel: no ``cleanup`` follows then."""
        self._ending = asyncio.get_running_loop().create_task(self._end(EndReason.KERNEL_DEAD))

    async def _end(self, reason: EndReason) -> None:
        parts = find_parts(self)
        if parts is None:
            return
        parts.kernels.ended(self.kernel_id)
        may_hold, self._may_hold = self._may_hold, False
        if may_hold and parts.release_on_shutdown and parts.link.connection is not None:
            await release_kernel(parts.link.connection, self.kernel_id, reason, log=self.log)

    def _equipped(self, launch: dict[str, Any], parts: ServerParts, held: list[str]) -> dict[str, Any]:
        """Return the launch with our variables and argument; ``launch`` itself stays as it is."""
        command, env = list(launch["cmd"]), dict(launch["env"])
        self._environment = look(command, env)
        if self._environment.installed and EXTENSION_ARGUMENT not in command:
            command.append(EXTENSION_ARGUMENT)
        for name, value in parts.snapshots.items():
            if value:
                env.setdefault(name, value)
        # A kernelspec that names a pool means it: then nothing of ours goes in.
        if not {names.ENV_URL, names.ENV_TOKEN} & self.kernel_spec.env.keys():
            self._introduce(env, parts, held)
        return {**launch, "cmd": command, "env": env}

    def _introduce(self, env: dict[str, str], parts: ServerParts, held: list[str]) -> None:
        """Put into ``env`` where the pool is, who the kernel is, and what it holds."""
        env.pop(names.ENV_REATTACH, None)
        if not parts.link.may_start:
            env[names.ENV_AUTOSTART] = "0"
        identity = parts.link.identity()
        if identity is None:
            if parts.link.configured_url:  # or the kernel would look for, or start, another pool
                env[names.ENV_URL] = parts.link.configured_url
            return
        if identity.token.startswith(KERNEL_PREFIX):
            return
        # Grows with each start, also over servers that run one kernel id after the other.
        self._generation = max(self._generation + 1, int(time.time()))
        claim = KernelClaim(owner=identity.owner, kernel_id=self.kernel_id, generation=self._generation)
        env.pop(names.ENV_URL, None)
        if identity.url:
            env[names.ENV_URL] = identity.url
        env[names.ENV_TOKEN] = mint_kernel_token(identity.token, claim)
        if held:
            env[names.ENV_REATTACH] = ",".join(held)
        self._may_hold = True


def find_parts(configurable: Any) -> ServerParts | None:
    """Find the extension's parts by way of the parents: kernel manager, its manager, the server.

    None outside of a Jupyter server, or in one where our extension is not loaded.
    """
    while configurable is not None:
        settings = getattr(getattr(configurable, "web_app", None), "settings", None)
        if isinstance(settings, dict) and isinstance(parts := settings.get(PARTS_KEY), ServerParts):
            return parts
        configurable = getattr(configurable, "parent", None)
    return None
