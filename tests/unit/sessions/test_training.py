"""How many workers a training has, and when."""

from __future__ import annotations

import pytest

from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.sessions.training import Rank, by_progress, precision, segments


def test_it_doubles_first_then_keeps_the_base_and_halves_at_the_end() -> None:
    policy = by_progress(4)
    assert [policy(epoch, 10) for epoch in range(10)] == [8, 8, 8, 4, 4, 4, 4, 4, 2, 2]
    assert [by_progress(1)(epoch, 5) for epoch in range(5)] == [2, 2, 1, 1, 1]


def test_the_number_changes_between_runs_of_epochs_only() -> None:
    assert list(segments(by_progress(2), 10)) == [(range(3), 4), (range(3, 8), 2), (range(8, 10), 1)]
    assert list(segments(lambda *_: 3, 4)) == [(range(4), 3)]
    assert list(segments(by_progress(2), 1)) == [(range(1), 4)]
    assert list(Rank(0, 2, 3, 5).epochs) == [3, 4, 5]


def test_a_training_needs_a_worker() -> None:
    with pytest.raises(InvalidValue, match="0 workers"):
        by_progress(0)


@pytest.mark.parametrize(
    ("capability", "expected"),
    [(None, "float32"), ((6, 1), "float32"), ((7, 5), "float16"), ((8, 0), "bfloat16"), ((9, 0), "bfloat16")],
)
def test_mixed_precision_follows_the_devices_capability(
    capability: tuple[int, int] | None, expected: str
) -> None:
    assert precision(capability) == expected


def test_no_run_of_epochs_is_longer_than_what_may_be_lost() -> None:
    found = [(list(run), number) for run, number in segments(by_progress(2), 10, 2)]
    assert found == [([0, 1], 4), ([2], 4), ([3, 4], 2), ([5, 6], 2), ([7], 2), ([8, 9], 1)]
