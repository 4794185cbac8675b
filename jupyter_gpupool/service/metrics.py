"""What ``/metrics`` shows.

Rule of this module: a registry of its own, made in the composition root; gauges are set when they are read.
"""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from jupyter_gpupool.core.leases import LeaseState

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)


class Metrics:
    """Counters and gauges of one pool service."""

    #: The content type of `render`.
    content_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        registry = self._registry
        self._leases = Gauge("jupyter_gpupool_leases", "Live leases", ["state"], registry=registry)
        self._devices = Gauge("jupyter_gpupool_devices", "Devices", ["offered"], registry=registry)
        self._compute = Gauge(
            "jupyter_gpupool_compute_devices", "Compute, in devices", ["kind", "what"], registry=registry
        )
        self._up = Gauge(
            "jupyter_gpupool_journal_writable", "1 while grants can be written", registry=registry
        )
        self._commits = Histogram(
            "jupyter_gpupool_journal_commit_seconds",
            "Duration of one transaction",
            buckets=_SECONDS,
            registry=registry,
        )
        self._transitions = Counter(
            "jupyter_gpupool_transitions", "Transitions written down", registry=registry
        )
        self._requests = Counter(
            "jupyter_gpupool_http_requests", "Answers", ["method", "status"], registry=registry
        )
        self._answers: dict[tuple[str, int], Counter] = {}

    def committed(self, transitions: int, seconds: float) -> None:
        """Count one transaction of the journal."""
        self._commits.observe(seconds)
        self._transitions.inc(transitions)

    def answered(self, method: str, status: int) -> None:
        """Count one HTTP answer."""
        counter = self._answers.get((method, status))
        if counter is None:
            counter = self._answers[method, status] = self._requests.labels(method, str(status))
        counter.inc()

    def render(
        self,
        *,
        states: Iterable[LeaseState],
        offered: Iterable[bool],
        compute: Iterable[tuple[str, int, int]],
        writable: bool,
    ) -> bytes:
        """Set the gauges and write everything in the text format.

        Parameters
        ----------
        states : iterable of LeaseState
            The state of each live lease.
        offered : iterable of bool
            Of each device, whether it is offered.
        compute : iterable of (kind, free, total)
            Of each device, its kind and thousandths of compute.
        writable : bool
            Whether the journal can be written.
        """
        counts: dict[LeaseState, int] = dict.fromkeys(
            (state for state in LeaseState if state is not LeaseState.ENDED), 0
        )
        for state in states:
            counts[state] += 1
        for state, count in counts.items():
            self._leases.labels(state.value).set(count)
        flags = list(offered)
        self._devices.labels("true").set(flags.count(True))
        self._devices.labels("false").set(flags.count(False))
        self._compute.clear()
        for kind, free, total in compute:
            self._compute.labels(kind, "free").inc(free / 1000)
            self._compute.labels(kind, "total").inc(total / 1000)
        self._up.set(1 if writable else 0)
        return generate_latest(self._registry)
