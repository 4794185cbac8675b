"""The file of quotas: what it says, and what is said of mistakes in it."""

from __future__ import annotations

from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.leases import Priority
from jupyter_gpupool.core.quotas import Amount, Quotas
from jupyter_gpupool.service.quota_config import BadQuotas, describe_quotas, read_quotas
from jupyter_gpupool.service.settings import PoolService

#: What docs/scheduling.md shows.
FILE = """\
version: 1
time_zone: Europe/Berlin
each: {limits: {compute: 1, leases: 4}}
groups:
  - name: teaching
    weight: 2
    deserved: {cuda: 4}
  - name: course
    parent: teaching
    limits: {compute: 6, memory: 320GiB, hours_per_week: 500, cpus: 64, memory_host: 512GiB}
    priorities: [low, normal]
    pins: 0
    each: {limits: {compute: {cuda: 0.5}, hours_per_week: 20}}
    owners: [ann, bob]
owners:
  - name: cyd
    weight: 1.5
    pins: 1
"""
HOUR = 1000 * 3_600_000


def written(tmp_path: Path, text: str) -> Path:
    """Write a file of quotas."""
    path = tmp_path / "quotas.yaml"
    path.write_text(text)
    return path


def test_a_file_says_what_owners_and_groups_may_have(tmp_path: Path) -> None:
    quotas = read_quotas(written(tmp_path, FILE))
    assert quotas.time_zone == ZoneInfo("Europe/Berlin")
    teaching, course = quotas.groups
    assert teaching.rules.weight_milli == 2000
    assert teaching.rules.deserved_milli == Amount(cuda=4000)
    assert course.parent == "teaching"
    assert course.rules.limits.compute_milli == Amount.each(6000)
    assert course.rules.limits.memory_bytes == Amount.each(320 * 2**30)
    assert course.rules.limits.week_milli_ms == Amount.each(500 * HOUR)
    assert course.rules.limits.host_cpu_milli == 64_000
    assert course.rules.limits.host_memory_bytes == 512 * 2**30
    assert [name for name, _ in quotas.chain("ann")] == ["", "course", "teaching"]
    assert quotas.rules_of("ann").limits.compute_milli.of(DeviceKind.CUDA) == 500
    assert quotas.rules_of("ann").limits.compute_milli.of(DeviceKind.CPU) is None
    assert quotas.may_use("ann") == ("course", frozenset({Priority.LOW, Priority.NORMAL}))
    assert quotas.rules_of("cyd").weight_milli == 1500
    assert quotas.rules_of("dee").limits.leases == 4


def test_an_empty_file_limits_nothing(tmp_path: Path) -> None:
    assert read_quotas(written(tmp_path, "")).say_nothing
    assert Quotas().say_nothing


@pytest.mark.parametrize(
    ("line", "text", "sentence"),
    [
        (1, "group: []", "“group” is not known; a file of quotas has version"),
        (1, "version: 2", "this version reads 1"),
        (2, "groups:\n  - {name: a, limit: 1}", "“limit” is not known; a group has name"),
        (2, "groups:\n  - {weight: 1}", "it has no “name”"),
        (3, "groups:\n  - name: a\n  - name: a", "a group “a” already, in .*line 2"),
        (2, "groups:\n  - {name: a, parent: b}", "no group “b”; there are a"),
        (3, "groups:\n  - name: a\n    parent: a", "“a” would be inside itself"),
        (2, "groups:\n  - {name: a, parent: b}\n  - {name: b, parent: a}", "“a” would be inside itself"),
        (3, "groups:\n  - {name: a, owners: [ann]}\n  - {name: b, owners: [ann]}", "“ann” is in a group"),
        (2, "owners:\n  - {name: ann, weight: 0}", "“weight” is “0”; it must be a number from 0.001"),
        (2, "owners:\n  - {name: ann, pins: 1.5}", "must be a whole number"),
        (3, "owners:\n  - name: ann\n  - name: ann", "rules for “ann” already"),
        (1, "each: {limits: {compute: many}}", "“compute” is “many”"),
        (1, "each: {limits: {compute: {gpu: 1}}}", "“gpu” is not known; this has cpu, cuda"),
        (1, "each: {limits: {memory: 3}}", "memory"),
        (1, "each: {priorities: [urgent]}", "“urgent” is no priority; there are low, normal, high"),
        (1, "time_zone: Mars/Olympus", "no time zone “Mars/Olympus”"),
        (2, "each:\n  weight: [", "line"),
    ],
)
def test_a_mistake_is_shown_with_its_line(tmp_path: Path, line: int, text: str, sentence: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(BadQuotas, match=sentence) as wrong:
        read_quotas(path)
    assert str(wrong.value).startswith(f"{path}, line {line}")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadQuotas, match="cannot be read: No such file"):
        PoolService(quotas_file=str(tmp_path / "none.yaml")).settings()


def test_settings_reach_the_core(tmp_path: Path) -> None:
    path = written(tmp_path, FILE)
    service = PoolService(quotas_file=str(path), usage_half_life_hours=2, aging_minutes=5, order="fair")
    config = service.pool_config()
    assert (config.half_life_ms, config.aging_ms, config.order) == (7_200_000, 300_000, "fair")
    assert config.quotas.group_of["ann"] == "course"


def test_quotas_are_described_for_who_looks_at_the_configuration(tmp_path: Path) -> None:
    shown = dict(describe_quotas(read_quotas(written(tmp_path, FILE))))
    assert shown["each owner"] == "weight 1, at most 1, at most 4 leases"
    assert shown["group teaching"] == "weight 2, deserves 4 (cuda)"
    assert shown["group course"] == (
        "in group teaching; weight 1, at most 6, memory at most 320.0 GiB, hours a week at most 500, "
        "priorities low normal, at most 0 pinned; owners: ann, bob"
    )
    assert shown["owner cyd"] == "weight 1.5, at most 1 pinned"
