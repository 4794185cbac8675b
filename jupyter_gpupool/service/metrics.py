"""What ``/metrics`` shows.

Rules of this module: a registry of its own, made in the composition root; gauges are set when they are read;
names, help and labels are those of `protocol.telemetry`.
"""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from jupyter_gpupool.core.leases import LeaseState
from jupyter_gpupool.protocol.telemetry import POOL, PREFIX, Metric

#: Bounds of waits, seconds: from at once to a day.
_WAITS = (0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 1800.0, 3600.0, 3 * 3600.0, 8 * 3600.0, 86400.0)
_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)


def help_text(metric: Metric) -> str:
    """Return a metric's help as ``/metrics`` has it."""
    text = metric.help[:1].upper() + metric.help[1:]
    return f"{text}, {metric.unit}" if metric.unit else text


class Metrics:
    """Counters and gauges of one pool service."""

    #: The content type of `render`.
    content_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._leases = self._gauge("leases")
        self._devices = self._gauge("devices")
        self._compute = self._gauge("compute_devices")
        self._up = self._gauge("journal_writable")
        self._nodes = self._gauge("nodes")
        self._lag = self._gauge("journal_lag_seconds")
        self._drained = self._gauge("nodes_drained")
        self._commits = self._histogram("journal_commit_seconds", _SECONDS)
        self._waits = self._histogram("wait_seconds", _WAITS)
        self._transitions = self._counter("transitions")
        self._requests = self._counter("http_requests")
        self._answers: dict[tuple[str, int], Counter] = {}

    def _gauge(self, name: str) -> Gauge:
        metric = POOL[name]
        return Gauge(PREFIX + name, help_text(metric), metric.labels, registry=self._registry)

    def _histogram(self, name: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(PREFIX + name, help_text(POOL[name]), buckets=buckets, registry=self._registry)

    def _counter(self, name: str) -> Counter:
        metric = POOL[name]
        return Counter(PREFIX + name, help_text(metric), metric.labels, registry=self._registry)

    def committed(self, transitions: int, seconds: float) -> None:
        """Count one transaction of the journal."""
        self._commits.observe(seconds)
        self._transitions.inc(transitions)

    def granted(self, wait_seconds: float) -> None:
        """Count one grant, by how long its request waited."""
        self._waits.observe(wait_seconds)

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
        connected: Iterable[bool] = (),
        drained: int = 0,
        lag_seconds: float = 0.0,
        measured: bytes = b"",
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
        connected : iterable of bool
            Of each node, whether its agent is connected.
        drained : int
            How many nodes are drained.
        lag_seconds : float
            For how long the oldest decision waits to be written down.
        measured : bytes
            Series of devices and leases, see `Measured.text`.
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
        up = list(connected)
        self._nodes.labels("true").set(up.count(True))
        self._nodes.labels("false").set(up.count(False))
        self._drained.set(drained)
        self._lag.set(lag_seconds)
        self._compute.clear()
        for kind, free, total in compute:
            self._compute.labels(kind, "free").inc(free / 1000)
            self._compute.labels(kind, "total").inc(total / 1000)
        self._up.set(1 if writable else 0)
        return generate_latest(self._registry) + measured
