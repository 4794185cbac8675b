"""The commands that run a pool: its service, the agent of a node, and their end.

Rule of this module: settings are read here once, and passed on as values.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from traitlets import Bool, Enum, Int, Unicode

from jupyter_gpupool.cli.base import AGENT_ALIASES, COMMON_ALIASES, COMMON_FLAGS, Command
from jupyter_gpupool.cluster.settings import PoolAgent, load_rules
from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.protocol.join import AGENT_PORT, ENV_JOIN_TOKEN, check_node_name
from jupyter_gpupool.protocol.paths import data_dir, make_runtime_dir, runtime_dir
from jupyter_gpupool.service.logs import LogFormat
from jupyter_gpupool.service.settings import PoolService


def _log_lines() -> Any:
    """Make the trait that says how log lines are written."""
    formats = [it.value for it in LogFormat]
    return Enum(formats, "text", help="How log lines are written: text, or a JSON document each.").tag(
        config=True
    )


class ServeApp(Command):
    """Run a pool service in this terminal (or, with --embedded, for this user's notebooks)."""

    name = "jupyter-gpupool-serve"
    description = __doc__
    examples = """
    jupyter gpupool serve                                      # the devices of this machine
    jupyter gpupool serve --emulate "8xA100-80GB,2xH100-80GB"  # emulated ones
    jupyter gpupool serve --listen 10.0.0.1                    # for other machines, too: with TLS
    jupyter gpupool serve --sharing timeslice --unmanaged warn # rules for them
    """
    classes: ClassVar[Any] = [PoolService, PoolAgent]
    aliases: ClassVar[Any] = {
        **COMMON_ALIASES,
        **AGENT_ALIASES,
        "ip": "PoolService.ip",
        "port": "PoolService.port",
        "listen": "PoolService.listen",
        "log-lines": "ServeApp.log_lines",
    }
    flags: ClassVar[Any] = {
        **COMMON_FLAGS,
        "embedded": (
            {"ServeApp": {"embedded": True}},
            "End when no lease and no client is left for a while.",
        ),
        "emulate-beside": ({"PoolService": {"emulate_beside": True}}, PoolService.emulate_beside.help),
        "hub": ({"PoolService": {"hub": True}}, PoolService.hub.help),
    }
    log_lines = _log_lines()
    embedded = Bool(False, help="A user's own pool: it ends when nobody needs it.").tag(config=True)

    def run(self) -> int:
        """Serve until SIGTERM or Ctrl-C."""
        import asyncio

        from jupyter_gpupool.backends.shed import shed_inherited_limits
        from jupyter_gpupool.service.lifecycle import ServiceRuns
        from jupyter_gpupool.service.main import run_service

        shed_inherited_limits()
        self.log_to_stderr(self.log_lines)
        rules = PoolAgent(parent=self).rules()
        settings = PoolService(parent=self).settings(embedded=self.embedded, rules=rules)
        try:
            return asyncio.run(run_service(settings))
        except ServiceRuns as error:
            return self._second(settings.runtime, error)

    def _second(self, runtime: Path, error: GPUPoolError) -> int:
        """Say which service runs already; for an embedded one that is as good as having started."""
        import time

        from jupyter_gpupool.client.embedded import START_SECONDS, find_running

        until = time.monotonic() + START_SECONDS
        while (winner := find_running(runtime)) is None:
            if time.monotonic() > until:
                raise error
            time.sleep(0.1)
        self.log.warning(
            "A pool runs already: %s (pid %d, version %s).", winner.url, winner.pid, winner.version
        )
        return 0 if self.embedded else 1


class AgentApp(Command):
    """Run the agent of this machine: of its own pool (which starts it by itself), or of one elsewhere."""

    name = "jupyter-gpupool-agent"
    description = __doc__
    examples = """
    jupyter gpupool agent https://pool:8750 --join-token-file FILE  # join the pool, and serve it
    jupyter gpupool agent https://pool:8750                         # once it has joined
    """
    aliases: ClassVar[Any] = {
        **COMMON_ALIASES,
        **AGENT_ALIASES,
        "rules": "AgentApp.passed_rules",
        "join-token-file": "AgentApp.join_token_file",
        "node": "AgentApp.node",
        "log-lines": "AgentApp.log_lines",
        "host": "AgentApp.host",
        "port": "AgentApp.port",
    }
    flags: ClassVar[Any] = {
        **COMMON_FLAGS,
        "embedded": ({"AgentApp": {"embedded": True}}, "It belongs to a user's own pool."),
        "emulate-beside": ({"PoolService": {"emulate_beside": True}}, PoolService.emulate_beside.help),
    }
    classes: ClassVar[Any] = [PoolService, PoolAgent]
    embedded = Bool(False, help="It belongs to a user's own pool.").tag(config=True)
    passed_rules = Unicode(
        "", help="Everything of PoolAgent as JSON, as a pool service passes it on; it overrides the rest."
    ).tag(config=True)

    log_lines = _log_lines()
    join_token_file = Unicode(
        "", help=f"File with the join token, - for standard input; empty to look in ${ENV_JOIN_TOKEN}."
    ).tag(config=True)
    node = Unicode("", help="What this node is called; empty for the name of the machine.").tag(config=True)
    host = Unicode(
        "", help="Address to take the pool's orders on; empty for the one that it is reached from."
    ).tag(config=True)
    port = Int(
        AGENT_PORT, min=0, max=65535, help="Port to take the orders of a pool elsewhere on; 0 for any."
    ).tag(config=True)

    def run(self) -> int:
        """Attach, watch and detach holders until there is nothing to do."""
        import asyncio

        from jupyter_gpupool.cluster.agent import AgentSettings, run_agent

        self.log_to_stderr(self.log_lines)
        service = PoolService(parent=self)
        passed = self.passed_rules
        elsewhere = self._joined(self.extra_args[0]) if self.extra_args else {}
        settings = AgentSettings(
            runtime=runtime_dir(),
            emulate=service.emulate,
            emulate_beside=service.emulate_beside,
            rules=load_rules(passed) if passed else PoolAgent(parent=self).rules(),
            **elsewhere,
        )
        return asyncio.run(run_agent(settings))

    def _joined(self, url: str) -> dict[str, Any]:
        """Join the pool at a URL, unless that was done before; return what an agent has to know of it."""
        import socket

        from jupyter_gpupool.cluster import joined, joining
        from jupyter_gpupool.cluster.identity import node_id

        name = check_node_name(self.node) if self.node else ""
        address = joining.read_address(url)
        pool = joined.JoinedPool(data_dir() / joined.FOLDER, make_runtime_dir() / "dask")
        token = joining.obtain_token("" if pool.record else self.join_token_file)
        called = name or check_node_name(socket.gethostname())
        joining.ensure_joined(pool, address, token, node_id=node_id(name), node_name=called)
        host = self.host or joining.address_towards(address)
        return {"pool": pool, "node_name": name, "host": host, "port": self.port}


class StopApp(Command):
    """Stop the pool of this user. Leases keep it from stopping; --force ends them first."""

    name = "jupyter-gpupool-stop"
    description = __doc__
    flags: ClassVar[Any] = {
        **COMMON_FLAGS,
        "force": ({"StopApp": {"force": True}}, "End all leases first."),
    }
    force = Bool(False, help="End all leases first.").tag(config=True)

    def run(self) -> int:
        """Stop it, and wait until it has ended."""
        from jupyter_gpupool.service.stopping import stop_pool

        print(stop_pool(runtime_dir(), force=self.force))  # noqa: T201 - this is a command
        return 0
