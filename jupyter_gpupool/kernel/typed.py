"""How magics are typed: commands and options as values, and the parser that is made from them.

Rule of this module: it knows the forms, not the commands. Mistakes are one sentence with the next step.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NoReturn

from IPython.core.error import UsageError
from IPython.core.magic_arguments import MagicArgumentParser
from IPython.utils.process import arg_split


class HelpShown(Exception):
    """Raised after a help text was printed: there is nothing left to do."""


class Offer(Enum):
    """What completion looks up."""

    DEVICES = "devices"
    """Names of devices of the pool."""
    SNAPSHOTS = "snapshots"
    """Names of snapshots."""
    VARIABLES = "variables"
    """Names of variables, with commas between them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Option:
    """One option of a command.

    Attributes
    ----------
    flag, metavar, help : str
        As argparse has them; without a metavar it is a switch.
    short : str
        A second flag of one letter; empty for none.
    choices : tuple of str
        The only values; empty for any.
    examples : tuple of str
        Values that completion offers.
    offer : Offer or None
        Values that completion looks up.
    group : str
        Options of one group exclude each other.
    """

    flag: str
    help: str
    metavar: str = ""
    short: str = ""
    choices: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    offer: Offer | None = None
    group: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Words:
    """What a command takes beside its options.

    Attributes
    ----------
    metavar, help : str
        As they are shown.
    least, most : int
        How many words.
    examples : tuple of str
        Words that completion offers.
    offer : Offer or None
        Words that completion looks up.
    after : dict of str to tuple of str or Offer
        What may come right after a word, in place of those.
    """

    metavar: str
    help: str
    least: int = 0
    most: int = 1
    examples: tuple[str, ...] = ()
    offer: Offer | None = None
    after: dict[str, tuple[str, ...] | Offer] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """One command.

    Attributes
    ----------
    name, help : str
        What is typed, and what it does.
    share : bool
        True if it takes a share.
    gang : bool
        True if that may be of several devices.
    lease : bool
        True if it may name a lease.
    words : Words or None
        What else it takes.
    options : tuple of Option
        Its options.
    """

    name: str
    help: str
    share: bool = False
    gang: bool = False
    lease: bool = False
    words: Words | None = None
    options: tuple[Option, ...] = ()


_COUNT = re.compile(r"[x×]\d.*", re.ASCII | re.IGNORECASE)


class Parser(MagicArgumentParser):  # type: ignore[misc]
    """argparse for magics: help is printed and returns, mistakes are one sentence."""

    def __init__(self, *args: Any, **options: Any) -> None:
        options.setdefault("add_help", True)
        super().__init__(*args, **options)

    def error(self, message: str) -> NoReturn:
        """Say what is wrong in one sentence."""
        raise UsageError(f"{message}. `%{self.prog} --help` shows how.")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """End nothing but the line."""
        raise HelpShown


def fill(parser: argparse.ArgumentParser, command: Command) -> None:
    """Add what a command takes."""
    if command.share:
        whole = "; or whole devices: 2" if command.gang else ""
        parser.add_argument(
            "share", metavar="SHARE", help=f"part of a device: 0.25, 1/4, 25%% or 250m{whole}"
        )
    if command.gang:
        parser.add_argument(
            "count", metavar="xN", nargs="?", help="of so many devices, all or none of them: x4"
        )
    if command.lease:
        parser.add_argument(
            "lease", metavar="ID", nargs="?", help="a lease or request of yours; or how its id ends"
        )
    if command.words is not None:
        parser.add_argument("words", metavar=command.words.metavar, nargs="*", help=command.words.help)
    groups: dict[str, Any] = {}
    for option in command.options:
        target: Any = parser
        if option.group:
            if option.group not in groups:
                groups[option.group] = parser.add_mutually_exclusive_group()
            target = groups[option.group]
        flags = [flag for flag in (option.short, option.flag) if flag]
        if option.metavar:
            target.add_argument(*flags, metavar=option.metavar, help=option.help)
        else:
            target.add_argument(*flags, action="store_true", help=option.help)


def parse(
    parser: argparse.ArgumentParser, line: str, commands: dict[str, Command] | None = None
) -> argparse.Namespace:
    """Parse what follows the magic's name.

    Raises
    ------
    UsageError
        With one sentence, when it cannot be understood.
    HelpShown
        When help was asked for, and printed.
    """
    try:
        words = arg_split(line, posix=True)
    except ValueError as error:
        raise UsageError(f"This line cannot be read: {str(error)[:1].lower()}{str(error)[1:]}.") from None
    arguments, rest = parser.parse_known_args(words)
    count = getattr(arguments, "count", "")
    if rest and count is None and _COUNT.fullmatch(rest[0]):
        arguments.count = rest.pop(0)  # argparse looks for it right after the share only
    elif count and not _COUNT.fullmatch(count):
        rest.insert(0, count)
    taken = (commands or {}).get(getattr(arguments, "command", None) or "")
    if taken is not None and taken.words is not None:
        rest = _take_words(arguments, taken, taken.words, rest)
    if rest:
        command = f" {arguments.command}" if getattr(arguments, "command", None) else ""
        raise UsageError(f"“{rest[0]}” is not understood here. `%{parser.prog}{command} --help` shows how.")
    return arguments


def _take_words(arguments: argparse.Namespace, command: Command, words: Words, rest: list[str]) -> list[str]:
    """Add the words that came after options, which argparse leaves over, and count them."""
    found = [*arguments.words, *(word for word in rest if not word.startswith("-"))]
    how = f"`%gpupool {command.name} --help` shows how."
    if len(found) < words.least:
        raise UsageError(f"`%gpupool {command.name}` needs {words.metavar}. {how}")
    if len(found) > words.most:
        raise UsageError(f"“{found[words.most]}” is not understood here. {how}")
    arguments.words = found
    return [word for word in rest if word.startswith("-")]
