"""What a snapshot may be called.

Rule of this module: names are text for people, and never become names of files.
"""

from __future__ import annotations

import re
import unicodedata

from jupyter_gpupool.core.errors import InvalidValue

#: Longest name, in characters.
MAX_NAME = 200
_ID = re.compile(r"[0-9a-f]{22}")


def is_id(text: str) -> bool:
    """Say whether a text looks like the id of a snapshot."""
    return _ID.fullmatch(text) is not None


def tidied(name: str) -> str:
    """Return a name in the one form that names are compared in."""
    return unicodedata.normalize("NFC", name).strip()


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
