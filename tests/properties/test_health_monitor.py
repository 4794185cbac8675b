"""Whatever a GPU reads: its health does not flap, and it always comes back."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_gpupool.backends.nvidia.health.monitor import Monitor, Track
from jupyter_gpupool.backends.nvidia.health.rules import HealthRules
from jupyter_gpupool.backends.nvidia.health.vitals import FINE, Finding, Vitals, Xid
from jupyter_gpupool.core.devices import Health

RANK = {Health.HEALTHY: 0, Health.DEGRADED: 1, Health.FAILED: 2}
FINDINGS = st.builds(
    lambda health, at_once: FINE if health is Health.HEALTHY else Finding(health, health.value, at_once),
    st.sampled_from(Health),
    st.booleans(),
)
RULES = st.builds(
    HealthRules,
    worse_rounds=st.integers(1, 5),
    better_rounds=st.integers(1, 8),
    better_seconds=st.floats(0, 60),
    quiet_seconds=st.floats(0, 900),
)
PAUSES = st.floats(0.1, 20)
ROUNDS = st.lists(st.tuples(PAUSES, FINDINGS), max_size=80)
VALUES = st.dictionaries(
    st.sampled_from(
        [
            "temperature_celsius",
            "temperature_slowdown_celsius",
            "recovery_action",
            "remapped_rows_failed",
            "ecc_uncorrected_volatile",
            "pcie_replays",
            "nvlink_links",
            "utilization_percent",
            "fabric_state",
        ]
    ),
    st.floats(0, 1000),
)


@given(RULES, ROUNDS)
def test_getting_better_always_takes_its_time_and_getting_worse_its_rounds(
    rules: HealthRules, rounds: list[tuple[float, Finding]]
) -> None:
    track, seconds, bad, good, good_since = Track(), 0.0, 0, 0, 0.0
    for pause, found in rounds:
        seconds += pause
        before = RANK[track.held.health]
        rank = RANK[found.health]
        bad = bad + 1 if rank > before else 0
        good_since = good_since if rank < before and good else seconds
        good = good + 1 if rank < before else 0
        track.see(found, seconds, rules)
        after = RANK[track.held.health]
        if after > before:
            assert found.at_once or bad >= rules.worse_rounds
            bad = 0
        if after < before:
            assert good >= rules.better_rounds
            assert seconds - good_since >= rules.better_seconds
            good = 0
        assert bad < rules.worse_rounds, "bad for long enough, and not called so"


@given(RULES, ROUNDS)
def test_health_changes_for_the_better_at_most_once_in_the_time_that_it_takes(
    rules: HealthRules, rounds: list[tuple[float, Finding]]
) -> None:
    track, seconds, improved = Track(), 0.0, []
    for pause, found in rounds:
        seconds += pause
        before = RANK[track.held.health]
        track.see(found, seconds, rules)
        if RANK[track.held.health] < before:
            improved.append(seconds)
    assert all(later - earlier >= rules.better_seconds for earlier, later in pairwise(improved))


@settings(max_examples=60)
@given(
    RULES,
    st.lists(
        st.tuples(PAUSES, VALUES, st.sampled_from(["", "the GPU is lost"]), st.integers(0, 150)), max_size=30
    ),
)
def test_a_gpu_that_is_good_again_is_always_healthy_again(
    rules: HealthRules, rounds: list[tuple[float, dict[str, float], str, int]]
) -> None:
    monitor, seconds, xids = Monitor(rules), 0.0, list[Xid]()
    for pause, values, lost, xid in rounds:
        seconds += pause
        xids.append(Xid(number=xid, seconds=seconds))
        monitor.see(Vitals(seconds=seconds, values=values, lost=lost, xids=tuple(xids)))
        assert bool(monitor.reason) is (monitor.health is not Health.HEALTHY)
    until = seconds + rules.quiet_seconds + rules.better_seconds + 60 + 5 * (rules.better_rounds + 3)
    while seconds < until:
        seconds += 5
        monitor.see(Vitals(seconds=seconds, values={"nvlink_links": 1000.0}, xids=tuple(xids)))
    assert monitor.health is Health.HEALTHY
    assert monitor.reason == ""
