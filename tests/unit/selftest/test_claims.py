"""What comes of a claim, and how it is shown."""

from __future__ import annotations

import io

from rich.console import Console

from jupyter_gpupool.backends.seen import Seen
from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.protocol.codec import encode
from jupyter_gpupool.selftest.claims import Outcome, RungDoc, SelfTestDoc
from jupyter_gpupool.selftest.record import Record
from jupyter_gpupool.selftest.report import print_report, summary


def breaks() -> Seen:
    raise GPUPoolError("The child has ended.")


def made(record: Record) -> SelfTestDoc:
    return SelfTestDoc(
        version="1.0",
        when="2026-12-01T00:00:00Z",
        machine={"system": "Linux"},
        rungs=record.rungs,
        claims=record.claims,
        seconds=2.0,
    )


def test_a_claim_is_proved_failed_or_not_possible_and_one_that_breaks_off_fails_alone() -> None:
    told: list[str] = []
    record = Record(told.append)
    bench = record.on("cuda0", "mps")
    bench.claim("one", "it holds", lambda: Seen(held=True, text="it held"))
    bench.claim("two", "it holds", breaks)
    bench.claim("three", "it holds", lambda: Seen(held=None, text="nobody can tell"))
    bench.impossible("four", "it holds", "there is no GPU")
    assert [claim.outcome for claim in record.claims] == [
        Outcome.PROVED,
        Outcome.FAILED,
        Outcome.NOT_POSSIBLE,
        Outcome.NOT_POSSIBLE,
    ]
    assert record.claims[1].detail == "It broke off: The child has ended."
    assert told == ["cuda0 (mps): it holds"] * 3


def test_the_status_is_1_only_when_a_claim_failed() -> None:
    record = Record(lambda _what: None)
    record.on("cpu").impossible("one", "it holds", "there is none")
    assert made(record).status == 0
    record.on("cpu").claim("two", "it holds", breaks)
    assert made(record).status == 1
    assert summary(made(record)) == "2 claims in 2 s: 0 proved, 1 failed, 1 not possible here."


def test_the_table_shows_what_was_seen_as_it_is() -> None:
    record = Record(lambda _what: None)
    record.rungs.append(RungDoc(device="cuda0", rung="MPS", possible=False, reason="it is not installed"))
    record.on("cuda0", "mps").claim("one", "it holds", lambda: Seen(held=False, text="[enforce fail] at 3"))
    text = io.StringIO()
    print_report(made(record), Console(file=text, width=200))
    shown = text.getvalue()
    assert "[enforce fail] at 3." in shown
    assert "it is not installed" in shown
    assert "cuda0 (mps)" in shown


def test_the_json_has_words_for_outcomes() -> None:
    record = Record(lambda _what: None)
    record.on("cpu").impossible("one", "it holds", "there is none")
    assert b'"outcome":"not possible here"' in encode(made(record))
