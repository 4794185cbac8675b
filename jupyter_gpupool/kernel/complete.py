"""Tab completion of ``%gpupool``.

Rules of this module: it never starts a pool and never waits long for one; what cannot be had is not offered.
"""

from __future__ import annotations

import re
from typing import Any

from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.kernel.commands import CELL, COMMANDS, COUNTS, SHARES, Command

#: How long asking for device names may take, seconds.
_ASK_SECONDS = 0.5
_MAGIC = re.compile(r"(?:^|=)\s*(%{0,2})gpupool(?:\s+(.*))?$", re.DOTALL)


def completions(line: str) -> list[str]:
    """Return what could come next after ``line`` (everything up to the cursor); the last word is begun."""
    match = _MAGIC.search(line)
    if match is None or match[2] is None:
        return []
    *words, begun = re.split(r"\s+", match[2])
    if match[1] == "%%":
        found = _of_command(CELL, words)
    elif not words:
        found = [*COMMANDS, "--help"]
    else:
        found = _of_command(COMMANDS[words[0]], words[1:]) if words[0] in COMMANDS else []
    return [word for word in found if word.startswith(begun)]


def _of_command(command: Command, words: list[str]) -> list[str]:
    """Return what may come after ``words`` of a command."""
    options = {option.flag: option for option in command.options}
    if words and (option := options.get(words[-1])) is not None and option.metavar:
        if option.flag == "--device":
            return _device_names()
        return [*option.choices, *option.examples]
    taken = {options[word].group or word for word in words if word in options}
    offered = [o.flag for o in command.options if (o.group or o.flag) not in taken]
    bare = [
        word
        for before, word in zip(["", *words], words, strict=False)
        if not word.startswith("-") and not (before in options and options[before].metavar)
    ]
    shares = list(SHARES) if command.share and not bare else []
    if command.gang and len(bare) == 1 and not (bare[0].isdigit() and int(bare[0]) > 1):
        shares = list(COUNTS)
    return [*shares, *offered, "--help"]


def _device_names() -> list[str]:
    """Ask the pool for its devices, if one runs."""
    from jupyter_gpupool.client.discovery import find_pool
    from jupyter_gpupool.client.sync import PoolClient

    try:
        client = PoolClient(find_pool(autostart=False), answer_seconds=_ASK_SECONDS)
        return sorted({device.name for device in client.devices()})
    except GPUPoolError:
        return []


def match(context: Any) -> dict[str, Any]:
    """Answer IPython's completer (its matcher API, version 2)."""
    from IPython.core.completer import SimpleCompletion

    words = completions(context.text_until_cursor.rsplit("\n", 1)[-1])
    found = [SimpleCompletion(text=word, type="param") for word in words if word.startswith(context.token)]
    return {"completions": found, "suppress": bool(found), "ordered": True}
