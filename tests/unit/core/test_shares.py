"""How people write shares, sizes and durations, and the integers they mean."""

from __future__ import annotations

from typing import Any

import pytest

from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.core.shares import (
    format_compute,
    format_duration,
    format_memory,
    parse_compute,
    parse_duration,
    parse_memory,
    parse_shares,
    proportional_memory,
)


@pytest.mark.parametrize(
    ("written", "milli"),
    [
        ("0.25", 250),
        (".25", 250),
        ("1/4", 250),
        ("25%", 250),
        ("25 %", 250),
        ("250m", 250),
        (" 0.25 ", 250),
        (0.25, 250),
        (1, 1000),
        ("1", 1000),
        ("1.0", 1000),
        ("1/1", 1000),
        ("100%", 1000),
        ("1000m", 1000),
        ("0.001", 1),
        ("0.1%", 1),
        ("1m", 1),
        ("33.3%", 333),
        ("1/3", 333),
        ("2/3", 666),
        (0.1 + 0.2, 300),
        (1e-3, 1),
        ("0.9999", 999),
    ],
)
def test_a_share_is_read_exactly_and_rounded_down(written: Any, milli: int) -> None:
    assert parse_compute(written) == milli


@pytest.mark.parametrize(
    "written",
    [
        "",
        "half",
        "0,25",
        "-0.25",
        "+1",
        "0",
        "0%",
        0,
        "0/4",
        "1/0",
        "5/4",
        "1.01",
        "101%",
        "1001m",
        2,
        "0.0009",
        "1e-1",
        "1 / 4",
        "0.25.1",
        "25%%",
        "1/4%",
        "250M",
        "٠.٢٥",
        float("nan"),
        float("inf"),
        -0.5,
        True,
        None,
        [0.25],
        "9" * 100,
    ],
)
def test_what_is_not_a_share_is_refused_with_forms_that_are(written: Any) -> None:
    with pytest.raises(InvalidValue) as caught:
        parse_compute(written)
    for form in ("0.25", "1/4", "25%", "250m"):
        assert form in caught.value.hint
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("written", "size"),
    [
        ("8GiB", 8 * 2**30),
        ("8 GiB", 8 * 2**30),
        ("8gib", 8 * 2**30),
        ("8Gi", 8 * 2**30),
        ("512MiB", 512 * 2**20),
        ("1.5GB", 1_500_000_000),
        ("1kb", 1000),
        ("1KiB", 1024),
        ("0.5TiB", 2**39),
        ("100b", 100),
        (4096, 4096),
        ("1.0000000001 GiB", 2**30),
    ],
)
def test_a_memory_size_is_read_exactly(written: Any, size: int) -> None:
    assert parse_memory(written) == size


@pytest.mark.parametrize(
    "written",
    [
        "",
        "8",
        "8 G",
        "GiB",
        "8GiBs",
        "-8GiB",
        "0GiB",
        0,
        -1,
        2**60,
        "2000000TiB",
        1.5,
        True,
        None,
        "8 GiB GiB",
    ],
)
def test_what_is_not_a_memory_size_is_refused_with_forms_that_are(written: Any) -> None:
    with pytest.raises(InvalidValue, match=r"8GiB, 512MiB or 1\.5GB"):
        parse_memory(written)


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("90s", 90),
        ("2m", 120),
        ("1h30m", 5400),
        ("2d", 172_800),
        ("0.5s", 0.5),
        ("1d2h3m4.5s", 93_784.5),
        (30, 30),
        (0.25, 0.25),
    ],
)
def test_a_duration_is_read(written: Any, seconds: float) -> None:
    assert parse_duration(written) == seconds


@pytest.mark.parametrize(
    "written",
    ["", "soon", "0s", 0, -1, "-1s", "5", "30m1h", "1w", "400d", True, None, float("nan"), float("inf")],
)
def test_what_is_not_a_duration_is_refused_with_forms_that_are(written: Any) -> None:
    with pytest.raises(InvalidValue, match="90s, 2m, 1h30m or 2h"):
        parse_duration(written)


def test_default_memory_is_the_same_fraction_rounded_down() -> None:
    assert proportional_memory(250, 16 * 2**30) == 4 * 2**30
    assert proportional_memory(333, 1000) == 333
    assert proportional_memory(1, 999) == 0
    assert proportional_memory(1000, 123_456_789) == 123_456_789


@pytest.mark.parametrize(
    ("milli", "text"), [(0, "0"), (1, "0.001"), (250, "0.25"), (500, "0.5"), (1000, "1")]
)
def test_compute_is_written_as_people_do(milli: int, text: str) -> None:
    assert format_compute(milli) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (None, "unknown"),
        (0, "0 B"),
        (1023, "1023 B"),
        (2048, "2.0 KiB"),
        (2 * 2**30, "2.0 GiB"),
        (3 * 2**40, "3.0 TiB"),
    ],
)
def test_memory_is_written_as_people_do(size: int | None, text: str) -> None:
    assert format_memory(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "0 s"),
        (8.9, "8 s"),
        (60, "1 min"),
        (239, "3 min 59 s"),
        (1500, "25 min"),
        (7500, "2 h 5 min"),
        (7200, "2 h"),
    ],
)
def test_durations_are_written_as_people_do(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("written", "count", "read"),
    [
        ("0.5", None, (500, 1)),
        ("0.5", "x4", (500, 4)),
        ("0.5", "X4", (500, 4)),
        ("1/2", "×4", (500, 4)),
        (0.5, 4, (500, 4)),
        (0.5, "4", (500, 4)),
        ("1", None, (1000, 1)),
        ("1", "x2", (1000, 2)),
        (1, 1, (1000, 1)),
        ("2", None, (1000, 2)),
        ("2.0", None, (1000, 2)),
        (2, None, (1000, 2)),
        (2.0, None, (1000, 2)),
        ("1024", None, (1000, 1024)),
    ],
)
def test_a_share_may_be_of_several_devices_and_whole_numbers_are_whole_devices(
    written: Any, count: Any, read: tuple[int, int]
) -> None:
    assert parse_shares(written, count) == read


@pytest.mark.parametrize(
    ("written", "count"),
    [
        *(
            (share, None)
            for share in ("0", 0, "-1", -1, "1.5", 1.5, "1e9", 1e9, "1025", "150%", "2000m", "4/2")
        ),
        *(
            (share, None)
            for share in ("NaN", float("nan"), float("inf"), "", True, None, "x4", "two", "9" * 40)
        ),
        *(
            ("0.5", count)
            for count in ("x0", 0, "x-1", -1, "x", "", "x1.5", 1.5, "xx4", "x1e9", True, "x1025")
        ),
        *(("0.5", count) for count in ("x" + "9" * 40, "x٤", "4x")),
        *((share, "x2") for share in ("2", "1.5", "0", "-1")),
    ],
)
def test_what_is_no_share_of_any_number_of_devices_is_refused_with_what_would_do(
    written: Any, count: Any
) -> None:
    with pytest.raises(InvalidValue) as caught:
        parse_shares(written, count)
    assert caught.value.hint
    assert len(str(caught.value)) < 300
