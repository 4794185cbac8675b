"""Usage that fades: halved with each half-life, in integers.

Rule of this module: the same numbers on every machine. Powers of one half come from tables of 64-bit fixed
point that are made by integer square roots; a step is wrong by less than a unit or two.
"""

from __future__ import annotations

from math import isqrt

#: Fixed point of the tables.
_BITS = 64
_ONE = 1 << _BITS
#: How finely half-lives are divided: 2**32 steps, as four digits of 8 bits.
_DIGIT, _DIGITS = 8, 4
#: 1 / ln 2 in fixed point.
_PER_LN2 = 26613026195688644983


def _tables() -> tuple[tuple[int, ...], ...]:
    """Return 2**(-digit * 2**-place) for each digit of each place, largest place first."""
    roots, root = [], _ONE >> 1
    for _ in range(_DIGIT * _DIGITS):
        root = isqrt(root << _BITS)
        roots.append(root)
    tables = []
    for place in range(_DIGITS):
        smallest = roots[_DIGIT * (place + 1) - 1]
        powers = [_ONE]
        for _ in range(2**_DIGIT - 1):
            powers.append(powers[-1] * smallest >> _BITS)
        tables.append(tuple(powers))
    return tuple(tables)


_TABLES = _tables()


def _left(elapsed_ms: int, half_life_ms: int) -> tuple[int, int]:
    """Return what is left of one unit after a while: a factor in fixed point, and whole halvings."""
    steps = (elapsed_ms << (_DIGIT * _DIGITS)) // half_life_ms
    factor = _ONE
    for place, table in enumerate(_TABLES):
        digit = steps >> (_DIGIT * (_DIGITS - 1 - place)) & (2**_DIGIT - 1)
        if digit:
            factor = factor * table[digit] >> _BITS
    return factor, steps >> (_DIGIT * _DIGITS)


def faded(used_milli_ms: int, rate_milli: int, elapsed_ms: int, half_life_ms: int) -> int:
    """Return usage after a while in which it faded, and some compute was held all the time.

    Parameters
    ----------
    used_milli_ms : int
        Usage at the beginning: thousandths of a device x milliseconds.
    rate_milli : int
        Compute that is held, thousandths of devices.
    elapsed_ms : int
        The while, milliseconds.
    half_life_ms : int
        After which half of it is left, milliseconds.
    """
    if elapsed_ms <= 0 or not (used_milli_ms or rate_milli):
        return used_milli_ms
    factor, halvings = _left(elapsed_ms, half_life_ms)
    left = used_milli_ms * factor >> (_BITS + halvings)
    if rate_milli:
        gone = _ONE - (factor >> halvings)
        left += rate_milli * half_life_ms * gone * _PER_LN2 >> (2 * _BITS)
    return left
