"""What a snapshot may be called.

Rule of this module: names are text for people, and never become names of files.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.state.errors import NoSuchSnapshot

#: Longest name, in characters.
MAX_NAME = 200
_ID = re.compile(r"[0-9a-f]{22}")


def is_id(text: str) -> bool:
    """Say whether a text looks like the id of a snapshot."""
    return _ID.fullmatch(text) is not None


def tidied(name: str) -> str:
    """Return a name in the one form that names are compared in."""
    return unicodedata.normalize("NFC", name).strip()


def no_such(which: str, known: Sequence[str]) -> NoSuchSnapshot:
    """Return the error that says that there is no snapshot of a name, with those that are near."""
    import difflib

    names = list(dict.fromkeys(known))
    near = difflib.get_close_matches(which, names, n=3) or names[:3]
    if not near:
        return NoSuchSnapshot(f"There is no snapshot {which!r}: none was saved yet.")
    listed = ", ".join(repr(name) for name in near)
    return NoSuchSnapshot(f"There is no snapshot {which!r}.", hint=f"There is {listed}.")


def checked_name(name: str) -> str:
    """Return a name in the one form it is compared in.

    Raises
    ------
    InvalidValue
        If it is empty, too long, holds control characters or looks like an id.
    """
    tidy = tidied(name)
    if not tidy:
        raise InvalidValue("A snapshot's name is empty.", hint="Give it a name, or leave it out.")
    if len(tidy) > MAX_NAME:
        raise InvalidValue(
            f"A snapshot's name has {len(tidy)} characters, and may have {MAX_NAME}.",
            hint="Use a shorter name, and write the rest as a note (-m).",
        )
    if any(unicodedata.category(char) in {"Cc", "Cs", "Zl", "Zp"} for char in tidy):
        raise InvalidValue(
            f"A snapshot's name holds a character that cannot be shown: {tidy!r}.",
            hint="Use letters, digits, signs and spaces.",
        )
    if is_id(tidy):
        raise InvalidValue(f"{tidy} looks like the id of a snapshot.", hint="Use another name.")
    return tidy
