"""What people may choose when they start a server: read from anybody, refused with what is offered."""

from __future__ import annotations

from typing import Any

import pytest

from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.hub.offers import BadChoice, Offers, Wish

OFFERS = Offers(shares=("0", "0.25", "1/2"), default="0.25", kinds=("cuda", "cpu"), most_wait_minutes=10)


def test_what_was_not_said_is_the_default() -> None:
    assert OFFERS.read({}) == Wish(compute_milli=250, kind=DeviceKind.CUDA, wait_seconds=300.0)


def test_what_was_said_counts_and_what_is_of_others_is_left_alone() -> None:
    wish = OFFERS.read(
        {"gpupool_share": "1/2", "gpupool_kind": "cpu", "gpupool_wait": 3, "profile": "big", "image": ["x"]}
    )
    assert wish == Wish(compute_milli=500, kind=DeviceKind.CPU, wait_seconds=180.0)
    assert OFFERS.read({"gpupool_share": "0"}) is None


@pytest.mark.parametrize(
    "share", ["1", "0.250", "0.25\n", " 0.25", "0.25; rm -rf /", "", None, [], {}, True, "٠"]
)
def test_a_share_that_is_not_offered_is_refused_with_those_that_are(share: Any) -> None:
    with pytest.raises(BadChoice, match=r"Choose one of 0, 0\.25, 1/2\."):
        OFFERS.read({"gpupool_share": share})


@pytest.mark.parametrize(
    "wait", ["11", "-1", "5\n", "5 ", "0x5", "1e1", "٥", "5.0", "", None, "99999999999999"]
)
def test_a_wait_that_is_too_long_or_no_number_is_refused(wait: Any) -> None:
    with pytest.raises(BadChoice, match="0 to 10 minutes"):
        OFFERS.read({"gpupool_wait": wait})


@pytest.mark.parametrize("kind", ["cuda ", "CUDA", "gpu", 1])
def test_a_kind_that_is_not_offered_is_refused(kind: Any) -> None:
    with pytest.raises(BadChoice, match="cuda, cpu"):
        OFFERS.read({"gpupool_kind": kind})


def test_a_form_is_taken_as_it_is_and_nothing_else_of_it() -> None:
    fields = {"gpupool_share": ["1/2", "1"], "gpupool_wait": [b"7"], "other": ["x"], "gpupool_kind": []}
    assert OFFERS.from_form(fields) == {"gpupool_share": "1/2", "gpupool_wait": "7"}


def test_offers_that_contradict_themselves_are_refused_at_the_start() -> None:
    for wrong in ({"default": "0.3"}, {"kinds": ("tpu",)}, {"default_wait_minutes": 99}):
        with pytest.raises(BadChoice, match=r"hub\.Offers"):
            Offers(**wrong)


def test_the_form_says_so_when_there_is_no_pool_and_still_offers() -> None:
    text = OFFERS.form(None, [], problem="The pool does not <answer>.")
    assert "The pool does not &lt;answer&gt;." in text
    assert '<option value="0.25" selected>0.25</option>' in text
