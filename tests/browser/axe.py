"""What axe finds on a page: whether everybody can read and use it.

Rule of this module: without axe-core a test is skipped with a reason, except where it was promised (``CI``).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.browser.page import LabPage

_AXE = Path(__file__).parents[2] / "labextension" / "node_modules" / "axe-core" / "axe.min.js"
_LOOK = """async ours => {
  const there = ours.filter(selector => document.querySelector(selector)).map(selector => [selector]);
  const found = await window.axe.run({ include: there });
  return found.violations.flatMap(it => it.nodes.map(node => it.id + node.html + node.failureSummary));
}"""


def violations(page: LabPage, ours: Sequence[str]) -> list[str]:
    """Let axe look at these parts of the page; those that are not there are left out."""
    if not _AXE.exists():
        reason = "axe-core is not installed: run npm install in labextension/"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    page.page.evaluate(_AXE.read_text())
    found: list[str] = page.page.evaluate(_LOOK, list(ours))
    return found
