"""What a request for a process may contain.

Rule of this module: what is refused is named, never shown: a wrong field may hold a secret.
"""

from __future__ import annotations

import re

from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.protocol.launches import LaunchRequest

#: Most arguments, and most variables.
MOST_WORDS = 500
#: Longest argument, variable or path, characters.
MOST_TEXT = 16_384
#: The last of the signals that have names.
MOST_SIGNAL = 31
_ID = re.compile(r"[A-Za-z0-9-]{8,64}")
_KERNEL_ID = re.compile(r"[A-Za-z0-9-]{0,80}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")


def launch_request(wanted: LaunchRequest) -> LaunchRequest:
    """Check the body of a request for a process."""
    if not _ID.fullmatch(wanted.id):
        raise InvalidValue("id cannot be used.", hint="Give 8 to 64 letters, digits and “-”, such as a UUID.")
    if not 1 <= len(wanted.argv) <= MOST_WORDS or not wanted.argv[0]:
        raise InvalidValue("argv cannot be used.", hint=f"Give a program, and at most {MOST_WORDS} words.")
    if len(wanted.env) > MOST_WORDS or not all(_NAME.fullmatch(name) for name in wanted.env):
        raise InvalidValue(
            "env cannot be used.", hint=f"Give at most {MOST_WORDS} variables with usual names."
        )
    for name, words in (("argv", wanted.argv), ("env", wanted.env.values()), ("cwd", (wanted.cwd,))):
        if any("\0" in word or len(word) > MOST_TEXT for word in words):
            raise InvalidValue(
                f"{name} cannot be used.",
                hint=f"Give at most {MOST_TEXT} characters a word, none of them zero.",
            )
    _check_connection(wanted)
    return wanted


def _check_connection(wanted: LaunchRequest) -> None:
    connection = wanted.connection
    if connection is None:
        return
    if not _KERNEL_ID.fullmatch(connection.kernel_id):
        raise InvalidValue("connection.kernel_id cannot be used.", hint="Give letters, digits and “-”.")
    ports = connection.ports
    if not all(0 <= getattr(ports, name) < 65536 for name in ports.__struct_fields__):
        raise InvalidValue("connection.ports cannot be used.", hint="Give ports, or 0 for any that is free.")


def signal_number(text: str | None) -> int:
    """Read the query ``signal``; without it, and for 0, the process is ended."""
    if text is None:
        return 0
    if text.isascii() and text.isdigit() and len(text) < 3 and int(text) <= MOST_SIGNAL:
        return int(text)
    raise InvalidValue(
        f"“{text[:20]}” is not a signal.", hint="Give its number; 2 interrupts, 15 asks to end."
    )
