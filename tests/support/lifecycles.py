"""Leases that come and go at random while everything is killed: what nothing must be left of.

Rules of this module: the course follows from the seed alone, as far as processes let it; a service or agent
that was killed is started again at once, and the course goes on.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyter_gpupool.backends.procfs import ProcFS
from jupyter_gpupool.protocol.names import ENV_LOCK_DIR, ENV_RUNTIME_DIR
from jupyter_gpupool.protocol.paths import os_user, private_directory
from jupyter_gpupool.protocol.tokens import KernelClaim, mint_kernel_token
from tests.support import whats_there
from tests.support.limits import in_force, lives
from tests.support.node_bench import ROOT
from tests.support.pool_process import PoolProcess, wait_for

#: How many holders there are at once, at most.
_MOST_HOLDERS = 4
#: Within this time after a ticket is shown somebody is killed, seconds.
_KILL_SECONDS = 0.03
#: States of a lease that expects nobody any more.
_OVER = ("ending", "ended")
_SERVICE = (
    "--PoolService.start_agent=False",
    "--PoolService.sweep_seconds=1",
    "--PoolService.agent_grace_seconds=60",
)


def limits_of(pid: int) -> Any:
    """Return everything that a lease may have changed for a process."""
    return in_force(pid), ProcFS().control_groups(pid).get("pids", "")


class Holder:
    """A process that shows tickets; what it answers is read when it is asked for."""

    def __init__(self, command: list[str], environment: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(
            command,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        self.pid = self.process.pid
        self.before = limits_of(self.pid)
        self.children: dict[int, Any] = {}

    def send(self, do: str, **fields: Any) -> None:
        """Give it a command."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps({"do": do, **fields}) + "\n")
            self.process.stdin.flush()

    def answer(self, seconds: float = 20.0) -> str:
        """Return its next line; empty when it ended."""
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], seconds)
        assert ready, f"holder {self.pid} does not answer"
        return self.process.stdout.readline().strip()

    def ask(self, do: str, **fields: Any) -> str:
        """Give it a command and return its answer."""
        self.send(do, **fields)
        return self.answer()

    def spawn(self) -> None:
        """Let it start a child that outlives it."""
        answer = self.ask("spawn")
        if answer and (pid := json.loads(answer).get("pid")):
            self.children[pid] = self.before

    def end(self, how: int = signal.SIGKILL) -> None:
        """End it, and read what it still had to say."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        self.process.communicate(timeout=20)


@dataclass
class Actor:
    """A holder and its lease."""

    holder: Holder
    lease_id: str
    token: str
    claim: KernelClaim | None = None


@dataclass
class Kills:
    """How many of whom may be killed; holders without a limit."""

    agents: int
    services: int
    log: list[str] = field(default_factory=list)


class Lifecycles:
    """A pool, its agent, and holders that come and go.

    Parameters
    ----------
    pool : PoolProcess
        Not started yet.
    command : list of str
        Starts a holder.
    seed : int
        Of the course.
    kills : Kills
        Who may be killed.
    agent : dict
        Fields of `AgentSettings`.
    request : dict
        Fields of every request.
    then : sequence of (str, dict)
        What a holder does once it is attached.
    spawns : bool
        Whether holders can start children.
    """

    def __init__(
        self,
        pool: PoolProcess,
        command: list[str],
        *,
        seed: int,
        kills: Kills,
        agent: Mapping[str, Any] | None = None,
        request: Mapping[str, Any] | None = None,
        then: Sequence[tuple[str, dict[str, Any]]] = (),
        spawns: bool = True,
    ) -> None:
        self.pool = pool
        self.kills = kills
        self.chance = random.Random(seed)
        self.lease_ids: list[str] = []
        #: Processes that outlive their holders, and how they were before any lease.
        self.survivors: dict[int, Any] = {}
        self._command, self._then = command, then
        self._spawn_chance = 0.3 if spawns else 0.0
        self._settings = {"runtime": os.fspath(pool.runtime), "sample_seconds": 0.2, **(agent or {})}
        self._request = {"compute_milli": 50, "memory_bytes": 2**28, "wait_seconds": 20, **(request or {})}
        self._actors: list[Actor] = []
        self._agent: subprocess.Popen[bytes] | None = None
        self._log = pool.runtime.with_name("agent.log")

    # --- service and agent --------------------------------------------------------------------------

    def start(self) -> None:
        """Start the service and its agent."""
        self.pool.arguments += _SERVICE
        private_directory(self.pool.runtime, variable=ENV_RUNTIME_DIR)
        self._launch_agent()  # both take a while to start, so they do it together
        self.pool.start(wait=False)
        wait_for(self.pool._answers, "the service to answer")
        self.pool.wait_joined()

    def _launch_agent(self) -> None:
        with self._log.open("ab") as log:
            self._agent = subprocess.Popen(
                [sys.executable, "-m", "tests.support.agent_process", json.dumps(self._settings)],
                env=self.pool.environment,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill_agent(self) -> None:
        """Kill the agent, and start the next."""
        assert self._agent is not None
        self._agent.kill()
        self._agent.wait(20)
        self._launch_agent()
        self.pool.wait_joined()

    def kill_service(self) -> None:
        """Kill the service, and start it again."""
        self.pool.kill()
        self.pool.start(wait=False)
        wait_for(self.pool._answers, "the service to answer again")
        self.pool.wait_joined()

    @property
    def own_pids(self) -> set[int]:
        """The processes that are to be there."""
        return {self.pool.pid, self._agent.pid if self._agent else 0}

    def log(self) -> str:
        """Return what was done, and what the agents said."""
        return "\n".join([*self.kills.log, self._log.read_text()[-6000:], self.pool.log_tail()])

    # --- the course ---------------------------------------------------------------------------------

    def run(self, count: int) -> None:
        """Go through so many lifecycles, and let every lease end."""
        for number in range(count):
            while len(self._actors) >= _MOST_HOLDERS:
                self._end(self._actors.pop(self.chance.randrange(len(self._actors))))
            self._begin(number)
            if self._actors and self.chance.random() < 0.7:
                self._end(self._actors.pop(self.chance.randrange(len(self._actors))))
        for actor in self._actors:
            self._end(actor)
        self._actors = []
        self.settle()

    def settle(self) -> None:
        """End every lease that is left, and wait until nothing happens any more."""
        for lease_id in self.lease_ids:
            if self.pool.lease(lease_id)["state"] != "ended":
                self.pool.release(lease_id)
        for lease_id in self.lease_ids:
            self.pool.wait_state(lease_id, "ended", 60)

    def _begin(self, number: int) -> None:
        """Start a holder, ask for a lease, attach, and perhaps kill somebody meanwhile."""
        holder = Holder(self._command, self.pool.environment)
        if self.chance.random() < self._spawn_chance:
            holder.spawn()
        claim = None
        if self.chance.random() < 0.4:
            claim = KernelClaim(owner=os_user(), kernel_id=f"kernel-{number}", generation=1)
        token = mint_kernel_token(self.pool.token, claim) if claim else self.pool.token
        doc = self._ask_for_lease(token)
        actor = Actor(holder, doc["id"], token, claim)
        self._actors.append(actor)
        self._attach(actor, doc)

    def _ask_for_lease(self, token: str) -> Any:
        answer = self.pool.ask("POST", "/api/v1/leases", dict(self._request), token=token)
        assert answer.status == 201, answer
        lease_id = answer.body["id"]
        self.lease_ids.append(lease_id)
        return self._attaching(lease_id, token)

    def _attaching(self, lease_id: str, token: str) -> Any:
        """Wait until a lease expects its holder, or has ended."""

        def look() -> Any:
            answer = self.pool.get(f"/api/v1/leases/{lease_id}", token=token)
            assert answer.status == 200, answer
            expected = answer.body["state"] == "attaching" and answer.body["attach"]
            return answer.body if expected or answer.body["state"] in _OVER else None

        return wait_for(look, f"lease {lease_id} to expect its holder")

    def _attach(self, actor: Actor, doc: Any) -> None:
        """Show the ticket; kill somebody at a random moment of that, or nobody."""
        attach = doc["attach"]
        actor.holder.send("attach", path=attach["socket"], ticket=attach["ticket"])
        victim = self._victim()
        if victim:
            threading.Event().wait(self.chance.random() * _KILL_SECONDS)
            self._kill(victim, actor)
        answer = actor.holder.answer() if actor.holder.process.poll() is None else ""
        if not victim:
            answer = self._with_a_newer_ticket(actor, answer)
            assert json.loads(answer)["error"] in (None, ""), answer
            for do, fields in self._then:
                assert json.loads(actor.holder.ask(do, **fields))["error"] == ""
            if self.chance.random() < self._spawn_chance:
                actor.holder.spawn()
            if self.chance.random() < 0.3:
                self._resize(actor)

    def _with_a_newer_ticket(self, actor: Actor, answer: str) -> str:
        """Do as every client does: a ticket of the process before is told for a moment after its end."""
        for _ in range(3):
            error = json.loads(answer)["error"]
            if not error or error["code"] != "stale_ticket":
                break
            attach = self._attaching(actor.lease_id, actor.token)["attach"]
            if not attach:
                break
            actor.holder.send("attach", path=attach["socket"], ticket=attach["ticket"])
            answer = actor.holder.answer()
        return answer

    def _victim(self) -> str:
        """Choose whom to kill, or nobody."""
        number = self.chance.random()
        if number < 0.15 and self.kills.agents:
            self.kills.agents -= 1
            return "agent"
        if 0.15 <= number < 0.22 and self.kills.services:
            self.kills.services -= 1
            return "service"
        return "holder" if 0.22 <= number < 0.35 else ""

    def _kill(self, victim: str, actor: Actor) -> None:
        self.kills.log.append(f"killed the {victim} during {actor.lease_id} of process {actor.holder.pid}")
        kill: dict[str, Callable[[], None]] = {
            "agent": self.kill_agent,
            "service": self.kill_service,
            "holder": lambda: actor.holder.process.kill(),
        }
        kill[victim]()

    def _resize(self, actor: Actor) -> None:
        self.pool.ask(
            "PATCH",
            f"/api/v1/leases/{actor.lease_id}",
            {"compute_milli": self.chance.choice([25, 100])},
            token=actor.token,
        )

    def _end(self, actor: Actor) -> None:
        """End a lease in one of the ways in which they end."""
        how = self.chance.choice(["release", "exit", "kill", "restart", "release and live"])
        holder = actor.holder
        self.survivors.update(holder.children)
        self.kills.log.append(f"{how}: {actor.lease_id} of process {holder.pid}")
        if how == "exit":
            holder.send("exit")
            holder.process.wait(20)
        elif how == "kill":
            holder.process.kill()
        elif how == "restart" and actor.claim and holder.process.poll() is None:
            return self._restart(actor, actor.claim)
        if how.startswith("release") or actor.claim:
            self.pool.release(actor.lease_id)
        if how == "release and live" and holder.process.poll() is None:
            self.pool.wait_state(actor.lease_id, "ended")
            wait_for(lambda: limits_of(holder.pid) == holder.before, f"{holder.pid} to be as it was", 10)
        holder.end()
        return None

    def _restart(self, actor: Actor, claim: KernelClaim) -> None:
        """Kill a kernel's process, and let its next one attach; end that some time later."""
        actor.holder.end()
        newer = KernelClaim(owner=claim.owner, kernel_id=claim.kernel_id, generation=claim.generation + 1)
        token = mint_kernel_token(self.pool.token, newer)
        # a process that was killed while it attached may be found out only now: then the lease has ended
        doc = self._attaching(actor.lease_id, token)
        if doc["state"] in _OVER:
            return
        successor = Actor(Holder(self._command, self.pool.environment), actor.lease_id, token, newer)
        self._attach(successor, doc)
        self.pool.release(actor.lease_id)
        self.survivors.update(successor.holder.children)
        successor.holder.end()

    # --- what is there ------------------------------------------------------------------------------

    def whats_there(self) -> dict[str, set[str]]:
        """List everything that a pool could leave behind."""
        runtime = self.pool.runtime
        lock = Path(self.pool.environment[ENV_LOCK_DIR])
        survivors = {pid for pid in self.survivors if lives(pid)}
        return {
            "processes": whats_there.processes(runtime, besides={*self.own_pids, *survivors}),
            "groups": whats_there.groups(self.lease_ids),
            "files": whats_there.files(runtime, lock),
            "sockets": whats_there.sockets(runtime),
            "limits": {
                f"{pid}: {limits_of(pid)}, not {before}"
                for pid, before in self.survivors.items()
                if lives(pid) and limits_of(pid) != before
            },
        }

    def close(self) -> None:
        """End all that was started."""
        for actor in self._actors:
            self.survivors.update(actor.holder.children)
            actor.holder.end()
        for pid in self.survivors:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if self._agent is not None and self._agent.poll() is None:
            self._agent.kill()
            self._agent.wait(20)
        self.pool.cleanup()
