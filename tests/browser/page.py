"""A browser page on JupyterLab, in the words of a person who uses it.

Rule of this module: every wait is on something that can be seen, and bounded.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from playwright.sync_api import CDPSession, ConsoleMessage, Error, Locator, Page, expect

from tests.browser.lab import Lab

#: Everything that is waited for on the page comes within this time, milliseconds.
PATIENCE_MS = 45_000
#: A cell may take longer: it imports torch on half a core.
_CELL_MS = 150_000
_ROOT = Path(__file__).parents[2]
_RESULTS = _ROOT / "test-results"
#: "1" writes the screenshots for the documentation, too.
_DOCS_VARIABLE = "GPUPOOL_DOCS_IMAGES"
_IMAGES = _ROOT / "docs" / "images"

#: A notebook shows "idle" before it has a kernel, and drops what is run then: ask JupyterLab itself.
_IS_READY = """path => {
  const shown = window.jupyterapp?.shell.currentWidget;
  const kernel = shown?.context?.path === path && shown.sessionContext?.session?.kernel;
  return kernel && kernel.connectionStatus === 'connected' && ['idle', 'busy'].includes(kernel.status);
}"""

#: What is thrown without us, too, and is ours only if our code is in the stack: React where somebody else has
#: moved its nodes; Notebook 7.6 while it starts.
_NOT_OURS = (
    "Failed to execute 'removeChild' on 'Node'",
    "Cannot read properties of undefined (reading 'schema')",
)

expect.set_options(timeout=PATIENCE_MS)


def collect_garbage(session: CDPSession, page: Page) -> None:
    """Let a page let go of what nobody uses: what is freed late goes with the second collection."""
    for _ in range(2):
        session.send("HeapProfiler.collectGarbage")
        page.evaluate("() => new Promise(done => requestAnimationFrame(() => setTimeout(done)))")


class LabPage:
    """JupyterLab in a browser.

    Parameters
    ----------
    page : Page
        The browser's page.
    lab : Lab
        The server.
    """

    def __init__(self, page: Page, lab: Lab) -> None:
        self.page = page
        self.lab = lab
        #: What the page threw, and the errors that our code wrote to its console.
        self.errors: list[str] = []
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", self._note_error)
        page.on("console", self._note_message)

    def _note_error(self, error: Error) -> None:
        if not (str(error).startswith(_NOT_OURS) and "gpupool" not in (error.stack or "")):
            self.errors.append(f"{error}\n{error.stack}")

    def _note_message(self, message: ConsoleMessage) -> None:
        if message.type == "error" and "gpupool" in message.text.lower():
            self.errors.append(message.text)

    # --- JupyterLab ---

    def open(self, notebook: str) -> None:
        """Load JupyterLab with one notebook, and show the pool."""
        self.page.goto(self.lab.url(f"lab/tree/{notebook}?reset"), wait_until="domcontentloaded")
        self.is_ready(notebook)
        self.command("gpupool:open")
        expect(self.phase).to_have_text("connected")

    def open_beside(self, notebook: str) -> None:
        """Open another notebook as a tab, or bring its tab to the front."""
        self.command("docmanager:open", {"path": notebook})
        self.is_ready(notebook)

    def is_ready(self, notebook: str) -> None:
        """Wait until a notebook is in front, and its kernel waits for code (or runs some)."""
        self.page.wait_for_function(_IS_READY, arg=notebook)

    def command(self, name: str, arguments: dict[str, object] | None = None) -> None:
        """Run a command of JupyterLab and wait until it is done."""
        self.page.wait_for_function("() => window.jupyterapp?.restored.then(() => true)")
        self.page.evaluate(
            "async ([name, args]) => { await window.jupyterapp.commands.execute(name, args); }",
            [name, arguments or {}],
        )

    def theme(self, name: str) -> None:
        """Change the theme."""
        self.command("apputils:change-theme", {"theme": name})
        is_light = "false" if "Dark" in name else "true"
        expect(self.page.locator("body")).to_have_attribute("data-jp-theme-light", is_light)

    def screenshot(self, name: str, *, docs: bool = False) -> None:
        """Save what is seen; ``docs`` marks those that the documentation shows."""
        folders = [_RESULTS] + ([_IMAGES] if docs and os.environ.get(_DOCS_VARIABLE) == "1" else [])
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
            self.page.screenshot(path=folder / f"{name}.png", animations="disabled")

    # --- the notebook in front ---

    @property
    def notebook(self) -> Locator:
        """The notebook in front."""
        return self.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")

    def cells(self) -> Locator:
        """Find the code cells of the notebook in front."""
        return self.notebook.locator(".jp-CodeCell")

    def start(self, code: str) -> Locator:
        """Type code into the last cell, start it, and return that cell."""
        index = self.cells().count() - 1
        cell = self.cells().nth(index)
        cell.locator(".cm-content").click()
        self.page.keyboard.insert_text(code)
        self.page.keyboard.press("Shift+Enter")
        return cell

    def run(self, code: str) -> Locator:
        """Type code into the last cell, run it to its end, and return that cell's output."""
        return self.finished(self.start(code))

    def run_cell(self, source: str) -> Locator:
        """Run the first code cell whose source has (or, as a pattern, is) this, and return its output."""
        editor = self.page.locator(".cm-content", has_text=re.compile(source))
        cell = self.cells().filter(has=editor).first
        cell.locator(".cm-content").click()
        self.page.keyboard.press("Shift+Enter")
        return self.finished(cell)

    def finished(self, cell: Locator) -> Locator:
        """Wait for the end of a cell, and return its output."""
        done = re.compile(r"\[\d+\]:")
        expect(cell.locator(".jp-InputPrompt")).to_have_text(done, timeout=_CELL_MS)
        return self.output(cell)

    def output(self, cell: Locator) -> Locator:
        """Find the output of a cell."""
        return cell.locator(".jp-Cell-outputArea")

    def stop(self) -> None:
        """Press the stop button of the notebook in front."""
        self.notebook.locator(".jp-Toolbar [data-command='notebook:interrupt-kernel']").click()

    # --- the sidebar ---

    @property
    def panel(self) -> Locator:
        """The pool's panel."""
        return self.page.get_by_role("region", name="GPU pool")

    @property
    def phase(self) -> Locator:
        """The word in the panel's head that says how the page stands with the pool."""
        return self.panel.locator(".jp-GPUPool-phase")

    def device(self, name: str) -> Locator:
        """Find the card of a device."""
        return self.panel.get_by_role("article", name=name, exact=True)

    def lease_of(self, notebook: str) -> Locator:
        """Find the lease that a notebook holds."""
        return self.panel.locator(".jp-GPUPool-leases > li").filter(has_text=notebook)

    def request_of(self, notebook: str) -> Locator:
        """Find the request with which a notebook waits."""
        return self.panel.locator(".jp-GPUPool-queue > li").filter(has_text=notebook)
