"""The monitor: its static form says when it was taken, and the kernel reads only when the page asks."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path

import pytest

from jupyter_gpupool.kernel import monitor as composed
from jupyter_gpupool.kernel.render import pool as pool_rendering
from jupyter_gpupool.protocol.documents import PoolDoc
from jupyter_gpupool.widgets import errors
from jupyter_gpupool.widgets.monitor import PoolMonitor
from jupyter_gpupool.widgets.watch import Watch
from tests.support.fake_pool import lease_doc, pool_doc
from tests.support.waiting import wait_for

_STATIC = Path(errors.__file__).parent / "static"
_VIEW = "application/vnd.jupyter.widget-view+json"


def static(doc: PoolDoc, taken: datetime) -> tuple[str, str]:
    shown = pool_rendering(doc, ["lease_1"])
    return f"at {taken:%H:%M:%S}\n{shown.text}", f"<p>{taken:%H:%M:%S}</p>{shown.markup}"


@pytest.fixture
def watch() -> Watch:
    return Watch(lambda: pool_doc(7, leases=[lease_doc()]), period_seconds=0.01)


@pytest.fixture
def monitor(watch: Watch):
    made = PoolMonitor(pool_doc(leases=[lease_doc()]), lambda: ["lease_1"], watch, static)
    yield made
    made.close()
    wait_for(lambda: not watch.alive, "the thread ends with the monitor")


def test_it_is_a_widget_a_table_and_plain_text_at_once(monitor: PoolMonitor):
    bundle = monitor._repr_mimebundle_()
    assert bundle[_VIEW]["model_id"] == monitor.model_id
    assert re.search(r"<p>\d\d:\d\d:\d\d</p>.*<table", bundle["text/html"], re.S)
    assert re.search(r"at \d\d:\d\d:\d\d\n.*this process", bundle["text/plain"], re.S)


def test_the_kernel_reads_only_while_the_page_asks(monitor: PoolMonitor, watch: Watch):
    assert not watch.alive
    monitor.looking = True
    wait_for(lambda: monitor.pool["revision"] == 7, "the page is told")
    monitor.looking = False
    wait_for(lambda: not watch.alive, "nobody looks any more")


def test_after_a_rest_it_says_so_and_can_be_asked_anew(monitor: PoolMonitor, watch: Watch):
    monitor.rest()
    assert monitor.looking is False
    assert monitor.trouble.startswith("Paused")
    monitor.looking = True
    wait_for(lambda: monitor.trouble == "", "the next reading clears it")


def test_the_static_form_has_the_time_and_works_without_a_kernel(monkeypatch):
    taken = datetime(2026, 3, 4, 5, 6, 7)
    text, markup = composed._static(pool_doc(leases=[lease_doc()]), taken)
    assert text.startswith("The pool at 2026-03-04 05:06:07 UTC")
    assert "2026-03-04 05:06:07 UTC" in markup
    assert "<script" not in markup


def test_without_the_widgets_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(errors, "_NEEDED", ("anywidget", "no_such_widgets"))
    with pytest.raises(errors.WidgetsMissing) as caught:
        errors.require_widgets("The monitor")
    assert str(caught.value).count("no_such_widgets") == 1
    assert "anywidget and" not in str(caught.value)
    assert 'pip install "jupyter_gpupool[widgets]"' in str(caught.value)


def test_colours_are_those_of_the_theme_and_each_has_a_fallback():
    text = (_STATIC / "monitor.css").read_text()
    bare = re.findall(r"var\(--jp-[a-z0-9-]+\)", text)
    assert bare == []
    for declaration in re.findall(r"^\s*(?!--)[a-z-]+:\s*(.*);$", text, re.M):
        assert not re.search(r"#[0-9a-f]{3,8}|rgb\(", re.sub(r"var\(.*", "", declaration)), declaration


def test_what_comes_from_elsewhere_is_text_in_the_page():
    assert "innerHTML" not in (_STATIC / "monitor.js").read_text()
