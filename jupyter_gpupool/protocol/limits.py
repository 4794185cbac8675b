"""How long a text may be that one process sends to another, and how it is made fit to be shown.

Rule of this module: who sends cuts by these limits, and who receives refuses by the same ones.
"""

from __future__ import annotations

#: Longest name, label or key, characters.
TEXT = 200
#: Longest address of a store, and path of a notebook, characters.
ADDRESS = 1000
#: Most snapshots of one store that are spoken of.
SNAPSHOTS = 100


def printable(text: str, most: int = TEXT) -> str:
    """Return a text that can be shown anywhere: cut, and with spaces for what cannot be printed."""
    return "".join(char if char.isprintable() else " " for char in text[:most])
