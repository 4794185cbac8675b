"""Indicators of memory errors: ECC, replaced rows (Ampere and newer), retired pages (before).

Rule of this module: pure functions; counters are judged by their growth, except where the maker judges them
by their height.
"""

from __future__ import annotations

from collections.abc import Sequence

from jupyter_gpupool.backends.nvidia.health.rules import HealthRules
from jupyter_gpupool.backends.nvidia.health.vitals import (
    FINE,
    Finding,
    Vitals,
    degraded,
    duration,
    failed,
    flag,
    increase,
)


def ecc_uncorrected(now: Vitals, past: Sequence[Vitals], rules: HealthRules) -> Finding:
    """Whether memory errors that could not be corrected happened lately."""
    if increase(now, past, "ecc_uncorrected_volatile", rules.quiet_seconds) <= 0:
        return FINE
    return failed(
        "A memory error could not be corrected: results since then may be wrong. It comes back after "
        f"{duration(rules.quiet_seconds)} without another.",
        at_once=True,
    )


def ecc_corrected(now: Vitals, past: Sequence[Vitals], rules: HealthRules) -> Finding:
    """Whether corrected memory errors are too frequent."""
    if increase(now, past, "ecc_corrected_volatile", rules.quiet_seconds) < rules.corrected_errors:
        return FINE
    return degraded(
        f"More than {rules.corrected_errors} memory errors were corrected within "
        f"{duration(rules.quiet_seconds)}: plan to have it looked at."
    )


def ecc_lifetime(now: Vitals, past: Sequence[Vitals], rules: HealthRules) -> Finding:
    """Whether it has had more uncorrected memory errors in its life than a good one has."""
    if now.values.get("ecc_uncorrected_aggregate", 0) < rules.lifetime_errors:
        return FINE
    return degraded(
        f"It has had {rules.lifetime_errors} or more uncorrected memory errors in its life: ask its maker."
    )


def row_remap_failed(now: Vitals, past: Sequence[Vitals], rules: HealthRules) -> Finding:
    """Whether a bad row of memory could not be replaced."""
    if not flag(now, "remapped_rows_failed"):
        return FINE
    return failed("A bad row of its memory could not be replaced: have the GPU exchanged.")


def row_remap_pending(now: Vitals, past: Sequence[Vitals], rules: HealthRules) -> Finding:
    """Whether a bad row waits for a reset to be replaced."""
    if not flag(now, "remapped_rows_pending"):
        return FINE
    return degraded("A bad row of its memory is replaced at the next reset: reset it when it is free.")


def retired_pages(now: Vitals, past: Sequence[Vitals], rules: HealthRules) -> Finding:
    """Whether so many pages were retired that its maker exchanges it."""
    count = now.values.get("retired_pages_single_bit", 0) + now.values.get("retired_pages_double_bit", 0)
    if count >= rules.retired_pages:
        return failed(f"{rules.retired_pages} or more pages of its memory are retired: have it exchanged.")
    many = max(1, rules.retired_pages // 2)
    if count >= many:
        return degraded(f"{many} or more pages of its memory are retired: plan to have it exchanged.")
    return FINE


def retired_pages_pending(now: Vitals, past: Sequence[Vitals], rules: HealthRules) -> Finding:
    """Whether a bad page waits for a reset to be retired."""
    if not flag(now, "retired_pages_pending"):
        return FINE
    return degraded("A bad page of its memory is retired at the next reset: reset it when it is free.")
