"""What is explained to a person once, not in every notebook.

Rule of this module: whether something was said is a file in the data directory; where it cannot be written
things are said again.
"""

from __future__ import annotations

from jupyter_gpupool.protocol.paths import data_dir

#: In the data directory: what was said.
SAID_FOLDER = "said"


def first_time(what: str) -> bool:
    """Tell whether something was never said to this user, and note that it is now."""
    path = data_dir() / SAID_FOLDER / what
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600, exist_ok=False)
    except FileExistsError:
        return False
    except OSError:
        return True
    return True
