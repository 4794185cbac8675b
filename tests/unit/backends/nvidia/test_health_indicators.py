"""Each indicator as a table: what is read, and what it says of it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from jupyter_gpupool.backends.nvidia.health.indicators import INDICATORS
from jupyter_gpupool.backends.nvidia.health.rules import ANNOUNCING_XIDS, APPLICATION_XIDS, HealthRules
from jupyter_gpupool.backends.nvidia.health.vitals import FINE, Finding, Vitals, Xid
from jupyter_gpupool.core.devices import Health
from jupyter_gpupool.protocol.telemetry import CATALOGUE

HEALTHY, DEGRADED, FAILED = Health.HEALTHY, Health.DEGRADED, Health.FAILED
RULES = HealthRules()
#: What a good GPU under load reads.
GOOD = {
    "utilization_percent": 99.0,
    "temperature_celsius": 64.0,
    "temperature_slowdown_celsius": 90.0,
    "temperature_shutdown_celsius": 95.0,
    "memory_temperature_celsius": 70.0,
    "memory_temperature_limit_celsius": 95.0,
    "fan_percent": 40.0,
    "clocks_power_cap": 1.0,
    "power_limit_watts": 400.0,
    "power_limit_default_watts": 400.0,
    "pcie_generation": 4.0,
    "pcie_generation_limit": 4.0,
    "pcie_width_lanes": 16.0,
    "pcie_width_limit_lanes": 16.0,
    "pcie_replays": 3.0,
    "ecc_corrected_volatile": 1.0,
    "ecc_uncorrected_volatile": 0.0,
    "ecc_uncorrected_aggregate": 1.0,
    "remapped_rows_pending": 0.0,
    "remapped_rows_failed": 0.0,
    "retired_pages_single_bit": 2.0,
    "retired_pages_double_bit": 0.0,
    "retired_pages_pending": 0.0,
    "nvlink_links": 12.0,
    "nvlink_replays": 0.0,
    "recovery_action": 0.0,
    "fabric_state": 3.0,
    "fabric_status": 0.0,
}


def ask(name: str, changed: Mapping[str, float], earlier: Mapping[str, float] | None = None) -> Finding:
    """Ask an indicator about a good GPU on which some readings are others than 30 s ago."""
    then = Vitals(seconds=970, values=GOOD | dict(earlier or {}))
    return INDICATORS[name](Vitals(seconds=1000, values=GOOD | dict(changed)), [then], RULES)


def test_there_are_at_least_eighteen_indicators() -> None:
    assert len(INDICATORS) >= 18


@pytest.mark.parametrize("name", INDICATORS)
def test_a_good_gpu_is_healthy_by_each_indicator(name: str) -> None:
    assert ask(name, {}) == FINE


@pytest.mark.parametrize("name", INDICATORS)
def test_a_gpu_that_tells_nothing_is_not_accused(name: str) -> None:
    assert INDICATORS[name](Vitals(seconds=0, values={}), [], RULES) == FINE


def test_the_readings_of_this_table_are_in_the_catalogue() -> None:
    assert not GOOD.keys() - CATALOGUE.keys()


@pytest.mark.parametrize(
    ("name", "changed", "health", "words"),
    [
        ("ecc_uncorrected", {"ecc_uncorrected_volatile": 1}, FAILED, "could not be corrected"),
        ("ecc_corrected", {"ecc_corrected_volatile": 1001}, DEGRADED, "1000 memory errors"),
        ("ecc_corrected", {"ecc_corrected_volatile": 900}, HEALTHY, ""),
        ("ecc_lifetime", {"ecc_uncorrected_aggregate": 10}, DEGRADED, "in its life"),
        ("row_remap_failed", {"remapped_rows_failed": 1}, FAILED, "have the GPU exchanged"),
        ("row_remap_pending", {"remapped_rows_pending": 1}, DEGRADED, "next reset"),
        ("retired_pages", {"retired_pages_double_bit": 58}, FAILED, "60 or more pages"),
        ("retired_pages", {"retired_pages_single_bit": 30}, DEGRADED, "30 or more pages"),
        ("retired_pages_pending", {"retired_pages_pending": 1}, DEGRADED, "next reset"),
        ("temperature", {"temperature_celsius": 90}, DEGRADED, "90 °C"),
        ("temperature", {"temperature_celsius": 95}, FAILED, "95 °C"),
        ("memory_temperature", {"memory_temperature_celsius": 96}, DEGRADED, "95 °C"),
        ("fan", {"fan_percent": 0, "temperature_celsius": 85}, DEGRADED, "fan stands still"),
        ("fan", {"fan_percent": 0}, HEALTHY, ""),
        ("thermal_slowdown", {"clocks_thermal_hardware": 1}, DEGRADED, "The hardware"),
        ("thermal_slowdown", {"clocks_thermal_software": 1}, DEGRADED, "The driver"),
        ("power_brake", {"clocks_power_brake": 1}, DEGRADED, "power brake"),
        ("hardware_slowdown", {"clocks_slowdown": 1}, DEGRADED, "by half"),
        ("hardware_slowdown", {"clocks_slowdown": 1, "clocks_power_brake": 1}, HEALTHY, ""),
        ("power_cap", {"power_limit_watts": 250}, DEGRADED, "250 W"),
        ("power_cap", {"power_limit_watts": 250, "clocks_power_cap": 0}, HEALTHY, ""),
        ("pcie_replays", {"pcie_replays": 103}, DEGRADED, "100 or more"),
        ("pcie_replays", {"pcie_replays": 50}, HEALTHY, ""),
        ("pcie_width", {"pcie_width_lanes": 8}, DEGRADED, "width 8 where 16"),
        ("pcie_width", {"pcie_width_lanes": 8, "utilization_percent": 0}, HEALTHY, ""),
        ("pcie_generation", {"pcie_generation": 1}, DEGRADED, "generation 1 where 4"),
        ("pcie_generation", {"pcie_generation": 1, "utilization_percent": 0}, HEALTHY, ""),
        ("nvlink_errors", {"nvlink_replays": 60, "nvlink_crc_errors": 60}, HEALTHY, ""),
        ("nvlink_errors", {"nvlink_replays": 101}, DEGRADED, "100 or more"),
        ("nvlink_down", {"nvlink_links": 11}, DEGRADED, "11 of 12"),
        ("recovery_action", {"recovery_action": 1}, FAILED, "a reset of the GPU"),
        ("recovery_action", {"recovery_action": 2}, FAILED, "a reboot"),
        ("recovery_action", {"recovery_action": 3}, DEGRADED, "peer-to-peer"),
        ("recovery_action", {"recovery_action": 99}, FAILED, "99"),
        ("fabric", {"fabric_state": 1}, DEGRADED, "nvidia-fabricmanager"),
        ("fabric", {"fabric_status": 999}, FAILED, "could not join"),
        ("fabric", {"fabric_bandwidth_degraded": 1}, DEGRADED, "less bandwidth"),
    ],
)
def test_each_indicator_says_what_is_wrong(
    name: str, changed: dict[str, float], health: Health, words: str
) -> None:
    found = ask(name, changed)
    assert found.health is health
    assert words in found.sentence
    assert bool(found.sentence) is (health is not HEALTHY)


def test_a_lost_gpu_fails_at_once_and_says_why() -> None:
    found = INDICATORS["lost"](Vitals(seconds=0, values={}, lost="the GPU is lost"), [], RULES)
    assert (found.health, found.at_once) == (FAILED, True)
    assert "the GPU is lost" in found.sentence


def seen(*xids: Xid, rules: HealthRules = RULES) -> Finding:
    return INDICATORS["xid"](Vitals(seconds=1000, values=GOOD, xids=xids), [], rules)


@pytest.mark.parametrize("number", sorted(APPLICATION_XIDS))
def test_an_xid_that_programs_cause_is_ignored(number: int) -> None:
    assert seen(Xid(number=number, seconds=999)) == FINE


@pytest.mark.parametrize("number", sorted(ANNOUNCING_XIDS))
def test_an_xid_that_only_announces_degrades(number: int) -> None:
    assert seen(Xid(number=number, seconds=999)).health is DEGRADED


def test_any_other_xid_fails_the_gpu_at_once() -> None:
    found = seen(Xid(number=79, seconds=999), Xid(number=43, seconds=999))
    assert (found.health, found.at_once) == (FAILED, True)
    assert "XID 79 (it fell off the bus)" in found.sentence
    assert seen(Xid(number=4711, seconds=999)).health is FAILED


def test_an_administrator_may_ignore_more_xids() -> None:
    assert seen(Xid(number=79, seconds=999), rules=HealthRules(ignored_xids=(79,))) == FINE


def test_an_xid_is_forgotten_when_it_has_been_quiet() -> None:
    assert seen(Xid(number=79, seconds=1000 - RULES.quiet_seconds)) == FINE


def test_a_counter_that_begins_afresh_is_no_error() -> None:
    assert ask("pcie_replays", {"pcie_replays": 5}, earlier={"pcie_replays": 100000}) == FINE
