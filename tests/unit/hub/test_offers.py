"""What a spawn form offers: read, shown and chosen, letter for letter."""

from __future__ import annotations

from typing import Any

import pytest

from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.hub.offers import (
    BadChoice,
    BadOffer,
    Choice,
    Standing,
    choose,
    form,
    from_form,
    read_offers,
)
from jupyter_gpupool.protocol.usage import QuotaDoc

OFFERS = read_offers(["0.25", {"name": "big <b>", "share": "2", "memory": "40GiB", "title": "Two & more"}])


def test_offers_are_read_as_an_administrator_writes_them() -> None:
    quarter, big = OFFERS
    assert (quarter.name, quarter.title, quarter.compute_milli) == ("0.25", "0.25 of a GPU", 250)
    assert (big.count, big.compute_milli, big.memory_bytes) == (2, 1000, 40 * 2**30)
    (cpu,) = read_offers([{"share": "0.5", "kind": "cpu", "memory": "2GiB"}])
    assert (cpu.kind, cpu.title) == (DeviceKind.CPU, "0.5 of a CPU, 2.0 GiB")


@pytest.mark.parametrize(
    "offers",
    [["0"], ["-1"], ["nan"], [""], [{"memory": "1GiB"}], [{"share": "1", "gpus": 1}], ["0.25", "0.25"],
     [{"share": "1", "name": "none"}], [{"share": "1", "kind": "tpu"}], [{"share": "1", "memory": "much"}]],
)  # fmt: skip
def test_an_offer_that_cannot_be_read_is_named(offers: list[Any]) -> None:
    with pytest.raises(BadOffer):
        read_offers(offers)


def test_a_choice_is_one_that_is_offered() -> None:
    assert choose({}, OFFERS, 30) == Choice(offer=None, wait_minutes=0)
    assert choose({"gpupool": {"share": "none", "wait_minutes": 0}}, OFFERS, 30).offer is None
    assert choose({"gpupool": {"share": "0.25"}}, OFFERS, 30) == Choice(offer=OFFERS[0], wait_minutes=10)
    assert choose({"gpupool": {"share": "0.25"}}, OFFERS, 3).wait_minutes == 3


@pytest.mark.parametrize(
    "told",
    ["0.25", 5, [], {"share": "0.250"}, {"share": "0.25\n"}, {"share": 0.25}, {"share": None},
     {"shares": "1"}, {"share": "0.25", "wait_minutes": 31}, {"share": "0.25", "wait_minutes": -1},
     {"share": "0.25", "wait_minutes": "5"}, {"share": "0.25", "wait_minutes": 1.5},
     {"share": "0.25", "wait_minutes": float("nan")}, {"share": "0.25", "wait_minutes": True}],
)  # fmt: skip
def test_what_is_not_offered_is_refused_and_what_is_is_told(told: object) -> None:
    with pytest.raises(BadChoice) as caught:
        choose({"gpupool": told}, OFFERS, 30)
    assert "Allowed: share: none, 0.25, big <b>; wait_minutes: 0 to 30." in str(caught.value)


def test_a_form_is_read_and_what_is_odd_in_it_stays_odd() -> None:
    assert from_form({"gpupool_share": ["0.25"], "gpupool_wait_minutes": ["5"]}) == {
        "share": "0.25",
        "wait_minutes": 5,
    }
    odd = from_form({"gpupool_share": ["0.25", "none"], "gpupool_wait_minutes": ["٣"]})
    assert odd == {"share": ["0.25", "none"], "wait_minutes": "٣"}
    with pytest.raises(BadChoice):
        choose({"gpupool": odd}, OFFERS, 30)
    assert from_form({"image": ["x"]}) == {}


def test_the_form_says_what_the_quota_bars_and_escapes_what_it_shows() -> None:
    quota = QuotaDoc(what="compute", limit=1.0, used=0.5, left=0.5, kind=DeviceKind.CUDA)
    text = form(OFFERS, 30, Standing(quotas=[quota]))
    assert "Two &amp; more — more than your quota leaves you now" in text
    assert 'value="big &lt;b&gt;" disabled' in text
    assert "0.25 of a GPU — no such device is in the pool now" in text
    assert "The pool does not answer now." in form(OFFERS, 30, None)
