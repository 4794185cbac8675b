"""Lists every metric, from the catalogue that agents and service use, and every indicator of health."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable

from comments import sentence

from jupyter_gpupool.backends.nvidia.health.indicators import INDICATORS
from jupyter_gpupool.backends.nvidia.health.rules import APPLICATION_XIDS, HealthRules
from jupyter_gpupool.protocol.telemetry import (
    CATALOGUE,
    DEVICE_PREFIX,
    POOL,
    POOL_DEVICE,
    POOL_LEASE,
    PREFIX,
    Kind,
    Metric,
)


def served_name(prefix: str, metric: Metric) -> str:
    """Return a metric's name as ``/metrics`` has it."""
    return prefix + metric.name + ("_total" if metric.kind is Kind.COUNTER else "")


def _table(prefix: str, metrics: Iterable[Metric], last: str, cell: Callable[[Metric], str]) -> list[str]:
    """Return rows; ``last`` is the title of the last column, ``cell`` what stands there."""
    lines = [f"| metric | type | unit | what it is | {last} |", "| --- | --- | --- | --- | --- |"]
    for metric in metrics:
        name, kind = served_name(prefix, metric), metric.kind.value
        lines += [f"| `{name}` | {kind} | {metric.unit} | {sentence(metric.help)} | {cell(metric)} |"]
    return [*lines, ""]


def _labels(metric: Metric) -> str:
    return ", ".join(f"`{label}`" for label in metric.labels)


def _pace(metric: Metric) -> str:
    return metric.pace.value


def tables() -> str:
    """Return all metrics, by what they concern."""
    lines = ["### Read of a device", ""]
    lines += [*_table(DEVICE_PREFIX, CATALOGUE.values(), "read", _pace)]
    lines += ["### Known of a device", "", *_table(PREFIX, POOL_DEVICE.values(), "labels", _labels)]
    lines += ["### Known of a lease", "", *_table(PREFIX, POOL_LEASE.values(), "labels", _labels)]
    lines += ["### The pool", "", *_table(PREFIX, POOL.values(), "labels", _labels)]
    return "\n".join(lines)


def indicators() -> str:
    """Return the indicators of health, and the numbers that they go by."""
    lines = ["| indicator | what it asks |", "| --- | --- |"]
    for name, indicator in INDICATORS.items():
        summary = (inspect.getdoc(indicator) or "").split("\n\n")[0]
        lines.append(f"| `{name}` | {sentence(summary)} |")
    rules = HealthRules()
    quiet, ignored = rules.quiet_seconds / 60, ", ".join(map(str, sorted(APPLICATION_XIDS)))
    lines += [
        "",
        f"Worse counts after {rules.worse_rounds} bad samples in a row (a lost GPU, a fatal XID and an",
        "uncorrected memory error at once), better after "
        f"{rules.better_rounds} good ones that last {rules.better_seconds:.0f} s.",
        f"A fatal XID fails a device until {quiet:.0f} minutes pass without another.",
        f"Ignored, because programs cause them on good GPUs: XID {ignored}.",
        "",
    ]
    return "\n".join(lines)
