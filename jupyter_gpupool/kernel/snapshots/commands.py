"""The commands of ``%gpupool`` that save and restore, as a table.

Rule of this module: what can be typed stands here once; values stay text.
"""

from __future__ import annotations

from jupyter_gpupool.kernel.typed import Command, Offer, Option, Words

_REPORT = Option(flag="--report", help="show everything there is to say, not the main points only")
_ONLY = Option(
    flag="--only",
    metavar="NAMES",
    help="only these variables, as a,b",
    offer=Offer.VARIABLES,
)
_ONE_SNAPSHOT = Words(
    metavar="NAME", help="a snapshot, by its name or id", least=1, most=1, offer=Offer.SNAPSHOTS
)

SNAPSHOT_COMMANDS: tuple[Command, ...] = (
    Command(
        name="checkpoint",
        help="save the state of this kernel: variables, functions, random streams, options",
        words=Words(
            metavar="NAME",
            help="how to call it; without one it is called after the time",
            offer=Offer.SNAPSHOTS,
        ),
        options=(
            Option(flag="--note", short="-m", metavar="NOTE", help="what it is, for the list"),
            _ONLY,
            Option(flag="--except", metavar="NAMES", help="all but these variables", offer=Offer.VARIABLES),
            _REPORT,
        ),
    ),
    Command(
        name="restore",
        help="bring a saved state back, into this kernel",
        words=Words(
            metavar="NAME",
            help="a snapshot, by its name or id; without one the latest of this notebook",
            offer=Offer.SNAPSHOTS,
        ),
        options=(
            _ONLY,
            Option(
                flag="--as",
                metavar="PREFIX",
                help="bind the variables under other names: PREFIX and their own",
            ),
            Option(
                flag="--map",
                metavar="FROM=TO",
                help="put what was on one device on another, as cuda:0=cpu; several with commas",
                examples=("cuda:0=cpu", "cuda=cpu"),
            ),
            Option(flag="--lazy", help="read large arrays when they are first used"),
            Option(flag="--trust", help="restore also what was not saved by you: it runs its code"),
            _REPORT,
        ),
    ),
    Command(
        name="snapshots",
        help="list what was saved; `snapshots inspect NAME` shows one without running anything of it",
        words=Words(
            metavar="inspect NAME",
            help="show what is in one",
            most=2,
            examples=("inspect",),
            after={"inspect": Offer.SNAPSHOTS},
        ),
        options=(
            Option(flag="--gc", help="remove what no snapshot needs any more, and old automatic ones"),
            Option(flag="--all", help="also the automatic ones"),
        ),
    ),
    Command(
        name="diff",
        help="say which variables differ between two snapshots",
        words=Words(
            metavar="A B", help="two snapshots, by their names or ids", least=2, most=2, offer=Offer.SNAPSHOTS
        ),
    ),
    Command(
        name="rerun",
        help="run the last cell again that made a variable, such as one that could not be saved",
        words=Words(metavar="VARIABLE", help="its name", least=1, most=1),
    ),
    Command(name="forget", help="remove a snapshot", words=_ONE_SNAPSHOT),
    Command(
        name="autosave",
        help="say when the state is saved by itself, or how it is set",
        words=Words(
            metavar="WHEN",
            help="off; or any of: every 10m, after 30s (after cells that took longer), before shutdown, "
            "before preemption, share 5%% (of the time of this kernel, at most)",
            most=12,
            examples=("off", "every", "after", "before", "share"),
            after={
                "off": (),
                "every": ("5m", "10m", "30m"),
                "after": ("10s", "30s", "2m"),
                "before": ("shutdown", "preemption"),
                "share": ("1%", "5%", "10%"),
            },
        ),
    ),
)
