"""The commands of ``%gpupool`` as a table, and the parser that is made from it.

Rule of this module: what can be typed stands here once; the help, the completion and the parser are made
from it. Values stay text: what they mean is decided where they are used, so that there is one message.
"""

from __future__ import annotations

import argparse
import difflib
import re
from dataclasses import dataclass
from typing import Any, NoReturn

from IPython.core.error import UsageError
from IPython.core.magic_arguments import MagicArgumentParser
from IPython.utils.process import arg_split

from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.leases import Priority


class HelpShown(Exception):
    """Raised after a help text was printed: there is nothing left to do."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Option:
    """One option of a command.

    Attributes
    ----------
    flag, metavar, help : str
        As argparse has them; without a metavar it is a switch.
    choices : tuple of str
        The only values; empty for any.
    examples : tuple of str
        Values that completion offers.
    group : str
        Options of one group exclude each other.
    """

    flag: str
    help: str
    metavar: str = ""
    choices: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    group: str = ""


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
    options : tuple of Option
        Its options.
    """

    name: str
    help: str
    share: bool = False
    gang: bool = False
    lease: bool = False
    options: tuple[Option, ...] = ()


_KINDS = tuple(kind.value for kind in DeviceKind)
_PRIORITIES = tuple(priority.value for priority in Priority)
_MEMORY = Option(
    flag="--memory",
    metavar="SIZE",
    help="memory, as 8GiB; without it the same fraction as of compute",
    examples=("512MiB", "2GiB", "8GiB"),
)
_KIND = Option(flag="--kind", metavar="KIND", help="device kind: " + " or ".join(_KINDS), choices=_KINDS)
_REQUEST = (
    _MEMORY,
    _KIND,
    Option(flag="--device", metavar="NAME", help="one device, as `gpupool devices` names it"),
    Option(
        flag="--wait",
        metavar="TIME",
        help="wait for room at most this long, as 2m; without it for ever",
        examples=("30s", "2m", "1h"),
        group="waiting",
    ),
    Option(flag="--no-wait", help="take it now or not at all", group="waiting"),
    Option(
        flag="--for",
        metavar="TIME",
        help="give it back by itself after this long, as 2h",
        examples=("30m", "2h", "8h"),
    ),
    Option(
        flag="--priority",
        metavar="CLASS",
        help="how urgent it is, as far as the quota allows: " + ", ".join(_PRIORITIES),
        choices=_PRIORITIES,
    ),
    Option(flag="--at-most", help="take less where the quota allows no more"),
    Option(flag="--spread", help="several devices may be on several nodes; without it they are on one"),
)
SHARES = ("0.25", "0.5", "0.75", "1", "2")
COUNTS = ("x2", "x4", "x8")
_COUNT = re.compile(r"[x×]\d.*", re.ASCII | re.IGNORECASE)

COMMANDS: dict[str, Command] = {
    command.name: command
    for command in (
        Command(
            name="request",
            help="ask for a share of a device, or of several",
            share=True,
            gang=True,
            options=_REQUEST,
        ),
        Command(name="resize", help="change the size of the lease", share=True, options=(_MEMORY, _KIND)),
        Command(name="release", help="give the lease back", options=(_KIND,)),
        Command(
            name="pin",
            help="keep the lease while it is idle, too, as far as the quota allows",
            options=(_KIND,),
        ),
        Command(name="unpin", help="let the lease be taken back again", options=(_KIND,)),
        Command(
            name="why",
            help="say what a request waits for, and how long probably, or what happens to the lease next",
            lease=True,
            options=(_KIND,),
        ),
        Command(name="devices", help="list the devices of the pool"),
        Command(name="usage", help="list what has been used"),
    )
}
#: ``%%gpupool SHARE [options]``: a request for one cell.
CELL = Command(name="", help="hold a lease while this cell runs", share=True, gang=True, options=_REQUEST)

_DESCRIPTION = "Show the pool and your leases; with a command, ask for a share of a device and manage it."


class _Parser(MagicArgumentParser):  # type: ignore[misc]
    """argparse for magics: help is printed and returns, mistakes are one sentence."""

    def __init__(self, *args: Any, **options: Any) -> None:
        options.setdefault("add_help", True)
        super().__init__(*args, **options)

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}. `%{self.prog} --help` shows how.")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        raise HelpShown


def _fill(parser: argparse.ArgumentParser, command: Command) -> None:
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
    groups: dict[str, Any] = {}
    for option in command.options:
        target: Any = parser
        if option.group:
            if option.group not in groups:
                groups[option.group] = parser.add_mutually_exclusive_group()
            target = groups[option.group]
        if option.metavar:
            target.add_argument(option.flag, metavar=option.metavar, help=option.help)
        else:
            target.add_argument(option.flag, action="store_true", help=option.help)


def line_parser() -> argparse.ArgumentParser:
    """Make the parser of ``%gpupool``."""
    parser = _Parser(prog="gpupool", description=_DESCRIPTION)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)
    for command in COMMANDS.values():
        text = command.help[:1].upper() + command.help[1:] + "."
        _fill(commands.add_parser(command.name, help=command.help, description=text), command)
    return parser


def cell_parser() -> argparse.ArgumentParser:
    """Make the parser of ``%%gpupool``."""
    parser = _Parser(prog="%gpupool", description="Hold a lease while this cell runs, also if it fails.")
    _fill(parser, CELL)
    return parser


def parse(parser: argparse.ArgumentParser, line: str) -> argparse.Namespace:
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
    if rest:
        command = f" {arguments.command}" if getattr(arguments, "command", None) else ""
        raise UsageError(f"“{rest[0]}” is not understood here. `%{parser.prog}{command} --help` shows how.")
    return arguments


def parse_line(line: str) -> argparse.Namespace:
    """Parse ``%gpupool LINE``; an unknown command is answered with the closest ones."""
    first = line.split(maxsplit=1)[0] if line.strip() else ""
    if first and not first.startswith("-") and first not in COMMANDS:
        raise UsageError(unknown_command(first))
    return parse(line_parser(), line)


def unknown_command(word: str) -> str:
    """Say that there is no such command, and what may have been meant."""
    known = ", ".join(COMMANDS)
    if word[:1].isdigit() or word.startswith("."):
        meant = f" Did you mean `%gpupool request {word}`?"
    elif close := difflib.get_close_matches(word.lower(), COMMANDS, n=1, cutoff=0.5):
        meant = f" Did you mean `%gpupool {close[0]}`?"
    else:
        meant = ""
    return f"There is no command “{word}”.{meant} The commands are {known}."


def help_text() -> str:
    """Return the help of the magic, for ``%gpupool?``."""
    parts = [line_parser().format_help(), "Commands in detail:"]
    for command in COMMANDS.values():
        switches = " ".join(
            f"[{option.flag} {option.metavar}]" if option.metavar else f"[{option.flag}]"
            for option in command.options
        )
        share = (" SHARE" if command.share else "") + (" [xN]" if command.gang else "")
        share += " [ID]" if command.lease else ""
        parts.append(f"  %gpupool {command.name}{share} {switches}".rstrip())
    parts.append(
        "\n`%%gpupool SHARE [xN] [options]` as the first line of a cell holds a lease for that cell only."
    )
    return "\n".join(parts)
