"""The commands of ``%gpupool`` as a table, and the parser that is made from it.

Rule of this module: what can be typed stands here once; the help, the completion and the parser are made
from it. Values stay text: what they mean is decided where they are used, so that there is one message.
"""

from __future__ import annotations

import argparse
import difflib

from IPython.core.error import UsageError

from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.leases import Priority
from jupyter_gpupool.kernel.snapshots.commands import SNAPSHOT_COMMANDS
from jupyter_gpupool.kernel.typed import Command, HelpShown, Offer, Option, Parser, Words, fill, parse

__all__ = [
    "CELL",
    "COMMANDS",
    "COUNTS",
    "SHARES",
    "HelpShown",
    "cell_parser",
    "help_text",
    "line_parser",
    "parse",
    "parse_line",
]


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
    Option(
        flag="--device",
        metavar="NAME",
        help="one device, as `gpupool devices` names it",
        offer=Offer.DEVICES,
    ),
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
    Option(
        flag="--cpus",
        metavar="CORES",
        help="cores of the node beside the share, for all of the devices",
        examples=("1", "4", "8"),
    ),
    Option(
        flag="--host-memory",
        metavar="SIZE",
        help="main memory of the node beside the share, as 16GiB",
        examples=("4GiB", "16GiB"),
    ),
    Option(flag="--model", metavar="WORDS", help="a device of this model, as A100 or 'A100 80GB'"),
    Option(flag="--spread", help="several devices may be on several nodes; without it they are on one"),
)
_MOVE = Option(
    flag="--move",
    help="have it in place of what this kernel has, on another node where this one has no room: the kernel "
    "starts anew there, and its state goes with it",
    group="waiting",
)
#: Of a request, what a worker's lease may have, too.
_WORKERS = (
    Option(
        flag="--share",
        metavar="SHARE",
        help="part of a device for each worker; without it 0.25",
        examples=("0.25", "0.5", "1"),
    ),
    *(
        it
        for it in _REQUEST
        if it.flag in {"--memory", "--kind", "--device", "--priority", "--cpus", "--host-memory", "--model"}
    ),
    Option(
        flag="--protocol",
        metavar="NAME",
        help="how workers speak: tls (without it), or ucx where it is installed",
        choices=("tls", "ucx"),
    ),
)
SHARES = ("0.25", "0.5", "0.75", "1", "2")
COUNTS = ("x2", "x4", "x8")

COMMANDS: dict[str, Command] = {
    command.name: command
    for command in (
        Command(
            name="request",
            help="ask for a share of a device, or of several",
            share=True,
            gang=True,
            options=(*_REQUEST, _MOVE),
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
        Command(
            name="monitor",
            help="show the pool and the lease live, as a widget",
            options=(Option(flag="--small", help="one line only"),),
        ),
        Command(
            name="scale",
            help="have so many Dask workers, each on a lease of its own: 4, or 2:8 to follow the load",
            words=Words(
                metavar="WORKERS",
                help="how many; or the bounds between which they follow the load; 0 gives all of them back",
                least=1,
                examples=("2", "4", "1:4", "0"),
            ),
            options=_WORKERS,
        ),
        *SNAPSHOT_COMMANDS,
    )
}
#: ``%%gpupool SHARE [options]``: a request for one cell.
CELL = Command(name="", help="hold a lease while this cell runs", share=True, gang=True, options=_REQUEST)

_DESCRIPTION = (
    "Show the pool and your leases; with a command, ask for a share of a device and manage it, or save and "
    "restore the state of this kernel."
)


def line_parser() -> argparse.ArgumentParser:
    """Make the parser of ``%gpupool``."""
    parser = Parser(prog="gpupool", description=_DESCRIPTION)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    for command in COMMANDS.values():
        text = command.help[:1].upper() + command.help[1:] + "."
        fill(commands.add_parser(command.name, help=command.help, description=text), command)
    return parser


def cell_parser() -> argparse.ArgumentParser:
    """Make the parser of ``%%gpupool``."""
    parser = Parser(prog="%gpupool", description="Hold a lease while this cell runs, also if it fails.")
    fill(parser, CELL)
    return parser


def parse_line(line: str) -> argparse.Namespace:
    """Parse ``%gpupool LINE``; an unknown command is answered with the closest ones."""
    first = line.split(maxsplit=1)[0] if line.strip() else ""
    if first and not first.startswith("-") and first not in COMMANDS:
        raise UsageError(unknown_command(first))
    return parse(line_parser(), line, COMMANDS)


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
        if command.words is not None:
            share += f" {command.words.metavar}" if command.words.least else f" [{command.words.metavar}]"
        parts.append(f"  %gpupool {command.name}{share} {switches}".rstrip())
    parts.append(
        "\n`%%gpupool SHARE [xN] [options]` as the first line of a cell holds a lease for that cell only."
    )
    return "\n".join(parts)
