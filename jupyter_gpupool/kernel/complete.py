"""Tab completion of ``%gpupool``.

Rules of this module: it never starts a pool and never waits long for one; what cannot be had is not offered.
"""

from __future__ import annotations

import re
from typing import Any

from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.kernel.asking import asking
from jupyter_gpupool.kernel.commands import CELL, COMMANDS, COUNTS, SHARES
from jupyter_gpupool.kernel.typed import Command, Offer, Option, Words

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
        found = _of_command(CELL, words, begun)
    elif not words:
        found = [*COMMANDS, "--help"]
    else:
        found = _of_command(COMMANDS[words[0]], words[1:], begun) if words[0] in COMMANDS else []
    last = begun.rpartition(",")[2]  # of a,b the last one is begun
    return [word for word in found if word.startswith(begun) or ("," in begun and word.startswith(last))]


def _of_command(command: Command, words: list[str], begun: str) -> list[str]:
    """Return what may come after ``words`` of a command."""
    options = {flag: option for option in command.options for flag in (option.flag, option.short) if flag}
    if words and (option := options.get(words[-1])) is not None and option.metavar:
        if option.offer is not None:
            return _looked_up(option.offer, begun)
        return [*option.choices, *option.examples]
    taken = {options[word].group or options[word].flag for word in words if word in options}
    offered = [o.flag for o in command.options if (o.group or o.flag) not in taken]
    bare = _bare(words, options)
    shares = list(SHARES) if command.share and not bare else []
    if command.gang and len(bare) == 1 and not (bare[0].isdigit() and int(bare[0]) > 1):
        shares = list(COUNTS)
    if command.words is not None and len(bare) < command.words.most:
        shares = _words(command.words, bare, begun)
    return [*shares, *offered, "--help"]


def _bare(words: list[str], options: dict[str, Option]) -> list[str]:
    """Return the words that are neither options nor what these take."""
    return [
        word
        for before, word in zip(["", *words], words, strict=False)
        if not word.startswith("-") and not (before in options and options[before].metavar)
    ]


def _words(words: Words, bare: list[str], begun: str) -> list[str]:
    """Return which words may come after those that are there."""
    after = words.after.get(bare[-1]) if bare else None
    if isinstance(after, Offer):
        return _looked_up(after, begun)
    if after is not None:
        return list(after)
    if begun.startswith("-"):
        return []  # nothing has to be looked up for an option
    return [*words.examples, *(_looked_up(words.offer, begun) if words.offer is not None else [])]


def _looked_up(offer: Offer, begun: str) -> list[str]:
    """Look up what there is."""
    if offer is Offer.DEVICES:
        return _device_names()
    if offer is Offer.SNAPSHOTS:
        from jupyter_gpupool.kernel.snapshots.lookup import snapshot_names

        return snapshot_names()
    from jupyter_gpupool.kernel.snapshots.lookup import variable_names

    taken = set(begun.split(",")[:-1])
    return [name for name in variable_names() if name not in taken]


def _device_names() -> list[str]:
    """Ask the pool for its devices, if one runs."""
    try:
        with asking(_ASK_SECONDS) as client:
            return sorted({device.name for device in client.devices()})
    except GPUPoolError:
        return []


def match(context: Any) -> dict[str, Any]:
    """Answer IPython's completer (its matcher API, version 2)."""
    from IPython.core.completer import SimpleCompletion

    words = completions(context.text_until_cursor.rsplit("\n", 1)[-1])
    found = [SimpleCompletion(text=word, type="param") for word in words if word.startswith(context.token)]
    return {"completions": found, "suppress": bool(found), "ordered": True}
