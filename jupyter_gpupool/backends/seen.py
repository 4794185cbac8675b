"""What was seen when a limit was exceeded.

Rule of this module: that something could not be told is never taken for a proof, nor for a failure.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """What a limit did.

    Attributes
    ----------
    held : bool or None
        Whether it held; None when that could not be told.
    text : str
        What was seen, one sentence without capital and full stop.
    """

    held: bool | None
    text: str

    @property
    def sentence(self) -> str:
        """Return what was seen, as a sentence."""
        return f"{self.text[:1].upper()}{self.text[1:].rstrip('.')}."
