"""Writes docs/_generated/ before each build: what the code says of itself.

Rule of this module: a page that can be computed is never written by hand.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import api_page
import configuration_page
import lease_states
import metrics_page

#: File name -> the function that returns its text.
_PAGES = {
    "lease_states.svg": lease_states.svg,
    "lease_states.md": lease_states.table,
    "environment.md": configuration_page.environment_table,
    "options.md": configuration_page.options,
    "api.md": api_page.operations,
    "metrics.md": metrics_page.tables,
    "indicators.md": metrics_page.indicators,
}


def write_pages(app: Any) -> None:
    """Write every page whose text has changed (an untouched file is not built again)."""
    folder = Path(app.srcdir) / "_generated"
    folder.mkdir(exist_ok=True)
    for name, text in _PAGES.items():
        path, content = folder / name, text()
        if not path.exists() or path.read_text() != content:
            path.write_text(content)


def setup(app: Any) -> dict[str, bool]:
    """Tell Sphinx when to call us."""
    app.connect("builder-inited", write_pages)
    return {"parallel_read_safe": True}
