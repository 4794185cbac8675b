"""What a section of the process is.

Rules of this module: `take` changes nothing; `put` returns how to take it back, and one thing of a section
that cannot be put back costs itself and is told.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from jupyter_gpupool.state.model import Finding, FindingKind

#: Reports something about the process.
Tell = Callable[[Finding], None]
#: Takes back what was put.
Undo = Callable[[], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """One kind of what a process is besides its variables.

    Attributes
    ----------
    name : str
        What it is called in lists and reports.
    take : callable
        Returns what to save: plain values, or objects that the stream saves with the variables.
    put : callable
        Puts that back into this process, and returns how to take it back.
    first : bool
        Whether it has to be there before the variables are made: they may need it to be found.
    """

    name: str
    take: Callable[[Tell], Any]
    put: Callable[[Any, Tell], Undo]
    first: bool = False


def finding(
    section: str, kind: FindingKind, path: str, type_name: str, reason: str, hint: str = ""
) -> Finding:
    """Make a finding about a section.

    Parameters
    ----------
    section : str
        Its name.
    kind : FindingKind
        What there is to say.
    path, type_name : str
        The thing in it, as Python, and what it is.
    reason, hint : str
        As in `Finding`.
    """
    return Finding(
        kind=kind, variable=f"({section})", path=path, type_name=type_name, reason=reason, hint=hint
    )


#: Stands for an entry that is not there.
_MISSING = object()


class Changes:
    """Changes to this process that can be taken back, the last one first.

    Parameters
    ----------
    section : str
        Whose changes they are.
    tell : callable
        Is told what could not be put back.
    """

    def __init__(self, section: str, tell: Tell) -> None:
        self._section, self._tell = section, tell
        self._stack = ExitStack()

    def make(self, path: str, change: Callable[[], object], back: Callable[[], object]) -> bool:
        """Make one change; where it fails that is told, and there is nothing to take back.

        Returns
        -------
        bool
            Whether it was made.
        """
        try:
            change()
        except MemoryError:
            raise
        except Exception as error:
            self.failed(path, f"it cannot be put back here: {type(error).__name__}: {error}")
            return False
        self._stack.callback(back)
        return True

    def put(self, table: dict[Any, Any], key: Any, value: Any, path: str) -> None:
        """Put an entry into a table."""
        before = table.get(key, _MISSING)

        def back() -> None:
            if before is _MISSING:
                table.pop(key, None)
            else:
                table[key] = before

        self.make(path, lambda: table.__setitem__(key, value), back)

    def failed(self, path: str, reason: str, hint: str = "") -> None:
        """Tell of something that could not be put back."""
        self._tell(finding(self._section, FindingKind.NOT_SAVED, path, "", reason, hint))

    def undo(self) -> None:
        """Take all of them back."""
        self._stack.close()
