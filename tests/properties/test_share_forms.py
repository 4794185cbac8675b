"""Whatever is written, it is read exactly or refused; what is shown can be read again."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.core.shares import (
    format_compute,
    parse_compute,
    parse_duration,
    parse_memory,
    proportional_memory,
)

MILLIS = st.integers(1, 1000)
ANYTHING = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
#: Text that looks nearly right.
NEARLY = st.text("0123456789./%mGiBkKMT -+eE", max_size=20)


@given(MILLIS)
def test_what_is_written_is_read_again(milli: int) -> None:
    assert parse_compute(format_compute(milli)) == milli


@given(MILLIS)
def test_all_forms_of_one_share_mean_the_same(milli: int) -> None:
    forms: list[Any] = [
        f"{milli}m",
        f"{milli}/1000",
        f"{milli / 10:.1f}%",
        f"{milli / 1000:.3f}",
        milli / 1000,
    ]
    assert {parse_compute(form) for form in forms} == {milli}


@given(st.integers(1, 999_999), st.integers(1, 999_999))
def test_a_fraction_is_never_rounded_up(above: int, below: int) -> None:
    share = Fraction(above, below)
    if Fraction(1, 1000) <= share <= 1:
        milli = parse_compute(f"{above}/{below}")
        assert 0 <= share - Fraction(milli, 1000) < Fraction(1, 1000)
    else:
        assert refused(parse_compute, f"{above}/{below}")


@given(ANYTHING | NEARLY)
def test_anything_is_a_share_or_is_refused(written: Any) -> None:
    assert refused(parse_compute, written) or 1 <= parse_compute(written) <= 1000


@given(ANYTHING | NEARLY)
def test_anything_is_a_memory_size_or_is_refused(written: Any) -> None:
    assert refused(parse_memory, written) or 1 <= parse_memory(written) < 2**60


@given(ANYTHING | st.text("0123456789.dhms -", max_size=16))
def test_anything_is_a_duration_or_is_refused(written: Any) -> None:
    assert refused(parse_duration, written) or 0 < parse_duration(written) <= 366 * 86400


@given(st.lists(MILLIS, max_size=20), st.integers(1, 2**50))
def test_default_memory_of_shares_that_fit_fits(shares: list[int], memory_bytes: int) -> None:
    if sum(shares) <= 1000:
        assert sum(proportional_memory(it, memory_bytes) for it in shares) <= memory_bytes


def refused(parse: Any, written: Any) -> bool:
    """Whether a parser refuses something, as it should: by its own error."""
    try:
        parse(written)
    except InvalidValue:
        return True
    return False
