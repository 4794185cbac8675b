"""What the sidebar costs the page: a tick of 64 devices and 200 leases, the first paint, and what is loaded.

A real JupyterLab in a real browser; the pool behind its live channel is made up. The browser's own counters
say how long scripts ran (processor time). In the same run, as the peer: messages of the same size that the
page takes and throws away, so that what is left is the sidebar's own work.
"""

from __future__ import annotations

import gzip
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from _common import HERE, CouldNotMeasure, Report, run_benchmark

sys.path.insert(0, str(HERE.parent))
from jupyter_gpupool.protocol import names
from tests.browser.conftest import _CHROMIUMS, FLAGS
from tests.browser.lab import Lab
from tests.browser.made_up import Channel, made_up_pool
from tests.browser.page import LabPage, collect_garbage

DEVICES, LEASES = 64, 200
_NOTEBOOK = "cost.ipynb"
_STATIC = HERE.parent / "jupyter_gpupool" / "labextension" / "static"

#: Notes when JupyterLab says that it is ready, and when the panel has something in it that can be seen. What
#: is drawn while hidden is seen when an attribute of something around it changes.
_WATCH = """
window.gpupoolTimes = {};
const seen = new MutationObserver(() => {
  if (document.querySelector('.jp-GPUPool-section')?.checkVisibility()) {
    seen.disconnect();
    requestAnimationFrame(() => { window.gpupoolTimes.painted ??= performance.now(); });
  }
});
seen.observe(document, { subtree: true, childList: true, attributes: true });
const wait = setInterval(() => {
  if (window.jupyterapp) {
    clearInterval(wait);
    window.jupyterapp.restored.then(() => { window.gpupoolTimes.ready = performance.now(); });
  }
}, 5);
"""


def measure(report: Report) -> None:
    """Measure in a browser of its own."""
    chromium = next((path for name in _CHROMIUMS if (path := shutil.which(name))), None)
    if chromium is None:
        raise CouldNotMeasure("there is no Chromium; install it.")
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory(prefix="gpupool-bench-") as directory:
        folder = Path(directory)
        world = {
            names.ENV_RUNTIME_DIR: str(folder / "run"),
            names.ENV_DATA_DIR: str(folder / "data"),
            names.ENV_LOCK_DIR: str(folder / "lock"),
            "IPYTHONDIR": str(folder / "ipython"),
        }
        with Lab(folder, dict(os.environ) | world) as lab, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
            page = LabPage(browser.new_page(viewport={"width": 1280, "height": 900}), lab)
            lab.add_notebook(_NOTEBOOK)
            channel = Channel(page.page, made_up_pool(DEVICES, LEASES))
            page.open(_NOTEBOOK)
            _ticks(report, page, channel, ticks=10 if report.quick else 60)
            _first_paint(report, page)
            browser.close()
            lab.shut_down_all()
    size = sum(len(gzip.compress(path.read_bytes())) for path in _STATIC.glob("*.js"))
    report.add("everything that the page can load of it, gzipped", size / 1000, "kB", "< 300")


def _ticks(report: Report, page: LabPage, channel: Channel, *, ticks: int) -> None:
    """Tell the page a new snapshot each second, then the same amount of what it ignores."""
    session = page.page.context.new_cdp_session(page.page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    docs = [made_up_pool(DEVICES, LEASES, tick=number) for number in range(1, 2 * ticks)]

    def counted() -> dict[str, Any]:
        collect_garbage(session, page.page)
        return {it["name"]: it["value"] for it in session.send("Performance.getMetrics")["metrics"]}

    def run(say: Any) -> float:
        before = counted()["ScriptDuration"]
        for doc in docs[:ticks]:
            say(doc)
            page.page.wait_for_timeout(1000)
        return float(counted()["ScriptDuration"] - before) / ticks * 1000

    run(channel.say)  # what is compiled at the first time is not a tick's
    first = counted()
    told = run(channel.say)
    last = counted()
    ignored = run(channel.say_ignored)
    idle = run(lambda doc: None)
    report.add("a tick with 64 devices and 200 leases, scripts", told - ignored, "ms", "< 8")
    report.add("peer: a message of that size arrives and is parsed", ignored - idle, "ms")
    report.add("JupyterLab itself in the same time, without a tick", idle, "ms")
    report.ratio("tick / arrival of its message", told - ignored, max(0.01, ignored - idle))
    report.add(
        "listeners that a tick leaves",
        (last["JSEventListeners"] - first["JSEventListeners"]) / ticks,
        "",
        "< 1",
    )
    grown = (last["JSHeapUsedSize"] - first["JSHeapUsedSize"]) / ticks / 1000
    report.add("heap that a tick leaves", grown, "kB", "< 20")


def _first_paint(report: Report, page: LabPage) -> None:
    """Load the page with the panel open, as it was left."""
    page.page.add_init_script(_WATCH)
    page.page.goto(page.lab.url("lab"), wait_until="domcontentloaded")
    page.page.wait_for_function("() => window.gpupoolTimes?.ready && window.gpupoolTimes?.painted")
    times = page.page.evaluate("() => window.gpupoolTimes")
    report.add(
        "first paint of the panel after JupyterLab is ready", times["painted"] - times["ready"], "ms", "< 300"
    )


if __name__ == "__main__":
    sys.exit(run_benchmark("What the sidebar costs the page", measure))
