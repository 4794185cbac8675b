"""Saving and restoring, for programs: what the magics do.

Rule of this module: synchronous; what it gives back shows itself in a notebook, and has everything as values.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.kernel.snapshots import engine
from jupyter_gpupool.kernel.snapshots.engine import chosen
from jupyter_gpupool.kernel.snapshots.policy import Policy, parse
from jupyter_gpupool.kernel.snapshots.results import Difference, Freed, Inside, Restored, Saved, SnapshotList
from jupyter_gpupool.kernel.snapshots.session import this_session


def checkpoint(
    name: str = "",
    *,
    note: str = "",
    only: str | Sequence[str] | None = None,
    skip: str | Sequence[str] | None = None,
) -> Saved:
    """Save the state of this process: variables, functions and classes, random streams, options.

    Parameters
    ----------
    name : str
        How to call it; a name stands for the latest snapshot that has it. Empty: it is called after the time.
    note : str
        What it is, for the list.
    only, skip : str or sequence of str, optional
        Only these variables, or all but these: ``"a,b"`` or one by one.

    Returns
    -------
    Saved
        What was saved, and what was not, and why.

    Raises
    ------
    StateError, InvalidValue
        If nothing could be saved, or it was stopped; what was saved before is there.
    """
    return this_session().checkpoint(name, note=note, only=chosen(only), skip=chosen(skip))


def restore(
    name: str = "",
    *,
    only: str | Sequence[str] | None = None,
    prefix: str = "",
    map_device: str | Mapping[str, str] | None = None,
    lazy: bool = False,
    trust: bool = False,
) -> Restored:
    """Bring a saved state back into this process; what was made since is gone then.

    Parameters
    ----------
    name : str
        A snapshot, by its name or id. Empty: the latest of this notebook.
    only : str or sequence of str, optional
        Only these variables; all others stay as they are.
    prefix : str
        Put before every name, so that nothing that is there changes.
    map_device : str or mapping of str to str, optional
        Where to put what was on a device: ``"cuda:0=cpu"`` or ``{"cuda:0": "cpu"}``.
    lazy : bool
        Read large arrays when they are first used.
    trust : bool
        Restore also what was not saved with your key: it runs whatever it holds.

    Returns
    -------
    Restored
        What came back, and what did not, and why.

    Raises
    ------
    StateError, InvalidValue
        If it could not be restored, or it was stopped: everything is as it was then.
    """
    return this_session().restore(
        name,
        only=chosen(only),
        prefix=prefix,
        map_device=_devices(map_device),
        lazy=lazy,
        trust=trust,
    )


def _devices(text: str | Mapping[str, str] | None) -> dict[str, str] | None:
    """Read where to put what was on a device."""
    if text is None:
        return None
    if not isinstance(text, str):
        return dict(text)
    found: dict[str, str] = {}
    for part in filter(None, (it.strip() for it in text.split(","))):
        before, equals, after = (it.strip() for it in part.partition("="))
        if not (before and equals and after):
            raise InvalidValue(f"“{part}” does not say which device becomes which.", hint="Write cuda:0=cpu.")
        found[before] = after
    return found


def snapshots(*, automatic: bool = True) -> SnapshotList:
    """List what was saved, newest first.

    Parameters
    ----------
    automatic : bool
        Whether those that nobody asked for are shown, too.
    """
    store = this_session().store
    return SnapshotList(manifests=tuple(store.list()), damaged=store.damaged(), automatic=automatic)


def inspect(name: str) -> Inside:
    """Show what is in a snapshot, whoever saved it, without running anything of it."""
    return Inside(inspection=engine.inspect(this_session().store, name))


def diff(first: str, second: str) -> Difference:
    """Say which variables differ between two snapshots."""
    one, other, difference = engine.diff(this_session().store, first, second)
    return Difference(first=one.manifest, second=other.manifest, difference=difference)


def forget(name: str) -> list[str]:
    """Remove a snapshot (by a name: all that have it), and return the ids of what is gone.

    What only it needed is given back by `collect`, or with a later save.
    """
    session = this_session()
    gone = session.store.forget(name)
    session.keeper.owe()
    session.keeper.tell_pool()
    return [manifest.id for manifest in gone]


def rerun(name: str) -> None:
    """Run the last cell again that bound a name; it repeats whatever else that cell did.

    Raises
    ------
    InvalidValue
        If this kernel knows of none.
    """
    from jupyter_gpupool.kernel.snapshots.rerun import rerun as run_again

    run_again(this_session().shell, name)


def collect() -> Freed:
    """Let old automatic snapshots go, and give back what no snapshot needs any more."""
    session, began = this_session(), time.perf_counter()
    done, gone = session.keeper.collect()
    seconds = time.perf_counter() - began
    return Freed(freed_bytes=done.freed_bytes, forgotten=gone, seconds=seconds, reason=done.reason)


def saves_by_itself() -> bool:
    """Tell whether this kernel is saved by itself now: by default not before it uses pool or snapshots."""
    return this_session().follows


def autosave(*words: str) -> Policy:
    """Say when this process's state is saved by itself; without words, return how it is set.

    Parameters
    ----------
    *words : str
        ``"off"``, or ``"every 10m"``, ``"after 30s"``, ``"before shutdown"``, ``"before preemption"``,
        ``"share 5%"``; what is not named stays as it is.

    Raises
    ------
    InvalidValue
        If it cannot be understood.
    """
    session = this_session()
    if words and session.shell is None:
        raise InvalidValue(
            "There are no cells in a script to save after.",
            hint="Call gpupool.checkpoint() where it matters.",
        )
    if words:
        session.chosen = True
        session.follow(parse(words, session.policy))
    return session.policy
