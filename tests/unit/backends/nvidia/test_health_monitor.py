"""A GPU's health over time: when it gets worse, and that it comes back by itself."""

from __future__ import annotations

from jupyter_gpupool.backends.nvidia.health.monitor import Monitor
from jupyter_gpupool.backends.nvidia.health.rules import HealthRules
from jupyter_gpupool.backends.nvidia.health.vitals import Vitals, Xid
from jupyter_gpupool.core.devices import Health

HEALTHY, DEGRADED, FAILED = Health.HEALTHY, Health.DEGRADED, Health.FAILED
LIMITS = {"temperature_slowdown_celsius": 90.0, "temperature_shutdown_celsius": 95.0}


class Watched:
    """A GPU whose readings a test scripts, one round a second."""

    def __init__(self, rules: HealthRules | None = None) -> None:
        self.monitor = Monitor(rules or HealthRules())
        self.seconds = 1000.0
        self.xids: list[Xid] = []

    def rounds(self, count: int, *, lost: str = "", **values: float) -> list[Health]:
        """Pass rounds with these readings; returns the health after each."""
        healths = []
        for _ in range(count):
            self.seconds += 1
            self.monitor.see(
                Vitals(seconds=self.seconds, values=LIMITS | values, lost=lost, xids=tuple(self.xids))
            )
            healths.append(self.monitor.health)
        return healths


def test_one_hot_reading_changes_nothing_and_three_do() -> None:
    gpu = Watched()
    assert gpu.rounds(2, temperature_celsius=91) == [HEALTHY, HEALTHY]
    assert gpu.rounds(1, temperature_celsius=50) == [HEALTHY]
    assert gpu.rounds(3, temperature_celsius=91) == [HEALTHY, HEALTHY, DEGRADED]
    assert "90 °C" in gpu.monitor.reason


def test_it_comes_back_after_half_a_minute_of_good_readings() -> None:
    gpu = Watched()
    gpu.rounds(3, temperature_celsius=91)
    assert set(gpu.rounds(30, temperature_celsius=50)) == {DEGRADED}
    assert gpu.rounds(1, temperature_celsius=50) == [HEALTHY]
    assert gpu.monitor.reason == ""
    assert gpu.monitor.findings == {}


def test_a_reading_around_its_threshold_does_not_flap() -> None:
    gpu = Watched()
    gpu.rounds(3, temperature_celsius=91)
    for _ in range(100):
        assert gpu.rounds(20, temperature_celsius=89)[-1] is DEGRADED
        assert gpu.rounds(1, temperature_celsius=91) == [DEGRADED]


def test_rounds_that_are_bad_to_different_degrees_count_as_the_mildest() -> None:
    gpu = Watched()
    gpu.rounds(1, temperature_celsius=96)
    gpu.rounds(1, temperature_celsius=91)
    assert gpu.rounds(1, temperature_celsius=96) == [DEGRADED]


def test_a_lost_gpu_fails_at_once_and_comes_back() -> None:
    gpu = Watched()
    gpu.rounds(5, temperature_celsius=50)
    assert gpu.rounds(2, lost="the GPU is lost") == [FAILED, FAILED]
    assert "the GPU is lost" in gpu.monitor.reason
    assert gpu.rounds(31, temperature_celsius=50)[-1] is HEALTHY


def test_what_was_wrong_before_a_gpu_was_lost_is_not_forgotten_meanwhile() -> None:
    gpu = Watched()
    gpu.rounds(3, remapped_rows_failed=1)
    gpu.rounds(100, lost="the driver is not loaded")
    assert gpu.rounds(35, remapped_rows_failed=1)[-1] is FAILED
    assert "exchanged" in gpu.monitor.reason
    assert "does not answer" not in gpu.monitor.reason


def test_a_fatal_xid_fails_it_until_it_has_been_quiet() -> None:
    gpu = Watched(HealthRules(quiet_seconds=120))
    gpu.xids.append(Xid(number=79, seconds=gpu.seconds))
    assert gpu.rounds(1) == [FAILED]
    assert set(gpu.rounds(140)) == {FAILED}
    assert gpu.rounds(12)[-1] is HEALTHY


def test_after_a_fatal_xid_it_waits_for_the_drivers_action_too() -> None:
    gpu = Watched(HealthRules(quiet_seconds=60))
    gpu.xids.append(Xid(number=95, seconds=gpu.seconds))
    assert gpu.rounds(300, recovery_action=1)[-1] is FAILED
    assert gpu.monitor.reason == "The driver asks for a reset of the GPU."
    assert gpu.rounds(31, recovery_action=0)[-1] is HEALTHY


def test_an_uncorrected_memory_error_fails_it_for_the_quiet_time_only() -> None:
    gpu = Watched(HealthRules(quiet_seconds=300))
    gpu.rounds(60, ecc_uncorrected_volatile=2)
    assert gpu.rounds(1, ecc_uncorrected_volatile=3) == [FAILED]
    assert gpu.rounds(250, ecc_uncorrected_volatile=3)[-1] is FAILED
    assert gpu.rounds(120, ecc_uncorrected_volatile=3)[-1] is HEALTHY


def test_a_link_that_stays_down_stays_reported() -> None:
    gpu = Watched(HealthRules(quiet_seconds=60))
    gpu.rounds(5, nvlink_links=12)
    assert gpu.rounds(1000, nvlink_links=11)[-1] is DEGRADED
    assert gpu.rounds(31, nvlink_links=12)[-1] is HEALTHY


def test_the_worst_is_said_first() -> None:
    gpu = Watched()
    gpu.rounds(3, clocks_power_brake=1, remapped_rows_failed=1)
    assert gpu.monitor.health is FAILED
    assert gpu.monitor.reason.startswith("A bad row")
    assert "power brake" in gpu.monitor.reason
    assert set(gpu.monitor.findings) == {"row_remap_failed", "power_brake"}
