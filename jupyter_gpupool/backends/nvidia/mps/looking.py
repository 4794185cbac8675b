"""What a survey of the daemon means for one lease.

Rule of this module: it only looks; a holder without a CUDA context is `pending`, one whose context is not
MPS's has nothing, and whoever waits or fails is told for whom and why.
"""

from __future__ import annotations

from jupyter_gpupool.backends._nvml import NVML
from jupyter_gpupool.backends.base import ProcessMark
from jupyter_gpupool.backends.nvidia.gpu import GPU
from jupyter_gpupool.backends.nvidia.mps import isolation, places, words
from jupyter_gpupool.backends.nvidia.mps.ledger import DaemonRecord, Use
from jupyter_gpupool.backends.nvidia.mps.survey import Survey
from jupyter_gpupool.backends.nvidia.processes import device_processes
from jupyter_gpupool.backends.nvidia.rungs.base import Site
from jupyter_gpupool.backends.processtree import ProcessWatch
from jupyter_gpupool.backends.rules import NodeRules
from jupyter_gpupool.protocol.documents import IsolationDoc

#: How old the table of processes may be, seconds.
_TREE_SECONDS = 1.0
#: From which branch of the driver on a server takes 60 clients for each device, and not 48.
_MORE_CLIENTS_BRANCH = 590


def most_clients(driver: str) -> int:
    """Return how many clients a server takes for each device, by the driver's version."""
    branch = driver.partition(".")[0]
    return 60 if branch.isdigit() and int(branch) >= _MORE_CLIENTS_BRANCH else 48


class Looker:
    """Reads surveys for leases.

    Parameters
    ----------
    nvml : NVML
        Where CUDA's processes are seen, MPS's and others.
    rules : NodeRules
        What an administrator decided.
    watch : ProcessWatch
        Who belongs to a holder.
    """

    def __init__(self, nvml: NVML, rules: NodeRules, watch: ProcessWatch) -> None:
        self._nvml = nvml
        self._rules = rules
        self._watch = watch

    def pids(self, holder: ProcessMark, daemon: DaemonRecord) -> set[int]:
        """List the processes of a holder, without those of other holders; itself also when it has ended."""
        apart = [use.holder.pid for use in daemon.leases.values() if use.holder != holder]
        table = self._watch.look(holder, within_seconds=_TREE_SECONDS)
        return {holder.pid, *(mark.pid for mark in table.tree(holder, [], apart))}

    def docs(self, site: Site, daemon: DaemonRecord, use: Use, survey: Survey) -> list[IsolationDoc]:
        """Say what is in force for a holder."""
        if survey.problem:
            return isolation.nothing(words.no_daemon(site.gpu, survey.problem))
        pids = self.pids(site.holder, daemon)
        server = survey.server_of(pids)
        standing = isolation.Standing(
            gpu=site.gpu, rules=self._rules, daemon_uid=places.owner(daemon.place), holder_uid=site.uid
        )
        if server is not None and server.failed:
            return isolation.nothing(self._fault(site, daemon, survey, pids))
        if server is not None:
            return isolation.in_force(use.started or use.numbers, server, standing, use.numbers)
        if outside := self._outside(site.gpu, pids):
            return isolation.nothing(words.without_mps(site.gpu, outside))
        return isolation.pending(use.numbers, standing, self._waiting(site, survey))

    def refusal(self, site: Site, survey: Survey) -> str:
        """Say why CUDA of a holder could not start through the daemon now; empty when it could."""
        if survey.failed is not None and survey.failed.clients:
            return words.failed_clause(site.gpu, survey.failed)
        most = most_clients(site.gpu.driver)
        if any(len(server.clients) >= most for server in survey.servers):
            return words.full(site.gpu, most)
        server = None if self._rules.mps_multiuser else survey.serving_others(site.uid)
        return "" if server is None else words.behind(site.gpu, server)

    def _outside(self, gpu: GPU, pids: set[int]) -> list[int]:
        """List those processes that are on a device without MPS."""
        listed = device_processes(self._nvml, gpu).value or []
        return [one.pid for one in listed if one.pid in pids and not one.via_mps and not one.graphics]

    def _waiting(self, site: Site, survey: Survey) -> str:
        """Say what a holder whose CUDA starts now would wait for; empty for nothing."""
        if survey.failed is not None and survey.failed.clients:
            return words.failed_sentence(site.gpu, survey.failed)
        server = None if self._rules.mps_multiuser else survey.serving_others(site.uid)
        return "" if server is None else words.waiting(site.gpu, server)

    def _fault(self, site: Site, daemon: DaemonRecord, survey: Survey, pids: set[int]) -> str:
        """Say that the server failed, by whose fault, and what helps."""
        clients = 0 if survey.failed is None else len(survey.failed.clients)
        if not survey.culprits:
            return words.fault(site.gpu, "", clients)
        blamed = survey.culprits[0]
        if blamed in pids:
            return words.fault(site.gpu, f"process {blamed} of this lease", clients)
        for lease_id, use in daemon.leases.items():
            if blamed in self.pids(use.holder, daemon):
                return words.fault(site.gpu, f"process {blamed} of {lease_id}", clients)
        return words.fault(site.gpu, f"process {blamed}", clients)
