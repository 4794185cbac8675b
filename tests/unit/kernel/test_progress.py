"""The live line says for what, at which position and how long; and how the wait ended."""

from __future__ import annotations

import io

from jupyter_gpupool.core.leases import LeaseState
from jupyter_gpupool.kernel.progress import PlainLines, TerminalLine, WaitingLine, describe
from tests.support.fake_pool import lease_doc

WAITS = lease_doc(state=LeaseState.QUEUED, position=2, reason="Waiting for 0.5 of cpu: 1 ahead of you.")


def test_a_line_has_the_reason_and_the_position():
    assert describe(WAITS) == "Waiting for 0.5 of cpu: 1 ahead of you (position 2)"
    assert "agent" in describe(lease_doc(state=LeaseState.ATTACHING))


def test_a_terminal_has_one_line_that_is_written_over():
    screen = io.StringIO()
    line: WaitingLine = TerminalLine(screen, columns=100)
    line.show(WAITS, 75.0)
    line.show(WAITS, 76.0)
    line.end("Granted after 1 min 17 s.")
    first, second, last = screen.getvalue().split("\r")[1:]
    assert first == "Waiting for 0.5 of cpu: 1 ahead of you (position 2): 1 min 15 s. Ctrl-C cancels."
    assert "1 min 16 s" in second
    assert last == "Granted after 1 min 17 s.".ljust(len(second)) + "\n"


def test_a_long_reason_is_cut_so_that_the_line_does_not_wrap():
    screen = io.StringIO()
    TerminalLine(screen, columns=50).show(WAITS, 75.0)
    (line,) = screen.getvalue().split("\r")[1:]
    assert len(line) == 49
    assert line.endswith("…: 1 min 15 s. Ctrl-C cancels.")


def test_a_log_gets_a_line_only_when_something_changed():
    log = io.StringIO()
    line: WaitingLine = PlainLines(log)
    for elapsed in (1.0, 2.0):
        line.show(WAITS, elapsed)
    line.end("Cancelled after 3 s.")
    assert log.getvalue().split("\n") == [
        "gpupool: Waiting for 0.5 of cpu: 1 ahead of you (position 2).",
        "gpupool: Cancelled after 3 s.",
        "",
    ]


def test_a_wait_that_showed_nothing_ends_silently():
    for kind in (TerminalLine, PlainLines):
        screen = io.StringIO()
        kind(screen).end("Granted after 0 s.")
        assert screen.getvalue() == ""
