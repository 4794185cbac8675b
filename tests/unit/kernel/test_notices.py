"""A notice is said once, where the person looks."""

from __future__ import annotations

import io
import sys

from IPython.core.events import EventManager, available_events

from jupyter_gpupool.kernel.notices import NoticeBoard, SaidOnce, tell


class Shell:
    """What of a shell a board uses: its real events."""

    def __init__(self) -> None:
        self.events = EventManager(self, available_events)

    def cell(self, run=lambda: None) -> None:
        self.events.trigger("pre_run_cell", None)
        run()
        self.events.trigger("post_run_cell", None)

    @property
    def callbacks(self) -> int:
        return sum(len(self.events.callbacks[name]) for name in ("pre_run_cell", "post_run_cell"))


def test_a_notice_goes_to_the_cell_that_runs_and_else_waits_for_the_next(capsys):
    shell = Shell()
    board = NoticeBoard(shell, running=True)
    board.open()
    board.say("One.")
    assert capsys.readouterr().err == "gpupool: One.\n"
    shell.events.trigger("post_run_cell", None)
    board.say("Two.")
    assert capsys.readouterr().err == ""
    shell.cell()
    assert capsys.readouterr().err == "gpupool: Two.\n"
    shell.cell(lambda: board.say("Three."))
    assert capsys.readouterr().err == "gpupool: Three.\n"


def test_a_board_leaves_nothing_in_the_shell_once_everything_was_said(capsys):
    shell = Shell()
    before = shell.callbacks
    board = NoticeBoard(shell)
    board.open()
    board.open()
    assert shell.callbacks == before + 2
    board.say("The end.")
    board.close()
    shell.cell()
    assert capsys.readouterr().err == "gpupool: The end.\n"
    assert shell.callbacks == before
    board.close()


def test_without_a_notebook_it_is_said_at_once(capsys):
    board = NoticeBoard(None)
    board.open()
    board.say("Now.")
    board.close()
    assert capsys.readouterr().err == "gpupool: Now.\n"


def test_a_stream_that_is_closed_or_not_there_takes_nothing(monkeypatch):
    closed = io.StringIO()
    closed.close()
    for stream in (closed, None):
        monkeypatch.setattr(sys, "stderr", stream)
        tell("Nobody reads this.")


def test_a_notice_is_new_once_and_again_only_after_it_was_away_for_a_while():
    now = 0.0
    said = SaidOnce(["It uses 90 % of its memory."], clock=lambda: now)
    assert said.new(["It uses 93 % of its memory."]) == []
    assert said.new(["It uses 93 % of its memory.", "cuda0 is failing."]) == ["cuda0 is failing."]
    now = 500.0
    assert said.new(["It uses 95 % of its memory."]) == []
    now = 510.0
    assert said.new(["cuda0 is failing."]) == []
    assert said.new([]) == []
    now = 600.0
    assert said.new(["cuda0 is failing."]) == ["cuda0 is failing."]
