"""The notebook's shell, if there is one.

Rule of this module: it looks, and imports nothing.
"""

from __future__ import annotations

import sys


def running_shell() -> object | None:
    """Return the IPython shell of this process; None where there is none."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None
