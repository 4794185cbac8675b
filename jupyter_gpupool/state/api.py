"""The public functions of snapshots.

Rules of this module: it puts the parts together, and each of them can be used without it; what only one of
the functions needs is imported by that one, for a restore waits for every import.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from jupyter_gpupool.state.ticking import Ticker

if TYPE_CHECKING:
    from jupyter_gpupool.state.looking import Difference, Inspection
    from jupyter_gpupool.state.process.history import History
    from jupyter_gpupool.state.report import Report
    from jupyter_gpupool.state.saving import Staged
    from jupyter_gpupool.state.snapshot import Snapshot
    from jupyter_gpupool.state.store.store import Store
    from jupyter_gpupool.state.store.writing import Label

#: Called with the bytes that are done, all of them, and what is being done.
Progress = Callable[[int, int, str], None]
#: Asked often; True stops what is going on.
Cancel = Callable[[], bool]


def capture(
    namespace: dict[str, Any],
    *,
    store: Store | None = None,
    name: str = "",
    note: str = "",
    notebook: str = "",
    kernel: str = "",
    hostname: str = "",
    only: Collection[str] | None = None,
    skip: Collection[str] | None = None,
    sections: bool = True,
    automatic: bool = False,
    history: History | None = None,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
) -> Snapshot:
    """Save a namespace.

    Parameters
    ----------
    namespace : dict
        The namespace, such as ``globals()`` of a notebook.
    store : Store, optional
        Where to save it; by default that of this user.
    name, note, notebook, kernel, hostname : str, optional
        What is said of it in lists.
    only, skip : collection of str, optional
        Names to save, and names to leave out.
    sections : bool, optional
        Whether what of the process belongs to it is saved too: random numbers, working directory, history.
    automatic : bool, optional
        Whether nobody asked for it by name: such snapshots are let go first.
    history : History, optional
        What was typed and what came out; found by itself in an IPython shell.
    progress : callable, optional
        Called with the bytes that are done, all of them, and what is being done.
    cancel : callable, optional
        Asked often; when it says True, `Cancelled` is raised and nothing is saved.

    Returns
    -------
    Snapshot
        The saved namespace; its report says what could not be saved, and why.

    Raises
    ------
    CaptureFailed
        If nothing could be saved.
    StoreFull, StoreUnavailable
        If the store cannot take it.
    Cancelled
        If ``cancel`` said so.
    """
    from jupyter_gpupool.state.saving import Job

    job = Job(namespace, only=only, skip=skip, sections=sections, history=history)
    label = _label(name, note, notebook, kernel, hostname, automatic)
    return job.save(store or _own_store(), label, Ticker(progress, cancel, "checkpoint"))


def stage(
    namespace: dict[str, Any],
    *,
    store: Store | None = None,
    name: str = "",
    note: str = "",
    notebook: str = "",
    kernel: str = "",
    hostname: str = "",
    sections: bool = True,
    automatic: bool = True,
    history: History | None = None,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
    most_bytes: int | None = None,
) -> Staged:
    """Take a namespace, and write it later: what is new is copied, so that the kernel may go on.

    Parameters
    ----------
    namespace, store, name, note, notebook, kernel, hostname, sections, automatic, history
        As for `capture`.
    progress, cancel
        As for `capture`.
    most_bytes : int, optional
        So many new bytes may be written; what needs more is refused as `StoreFull`.

    Returns
    -------
    Staged
        ``write()`` makes it a snapshot, in any thread; ``discard()`` gives it up.

    Raises
    ------
    CaptureFailed, StoreFull, StoreUnavailable, Cancelled
        As `capture` does.
    """
    from jupyter_gpupool.state.saving import Job

    job = Job(namespace, sections=sections, history=history)
    label = _label(name, note, notebook, kernel, hostname, automatic)
    ticker = Ticker(progress, cancel, "checkpoint")
    return job.stage(store or _own_store(), label, ticker, most_bytes=most_bytes)


def restore(
    snapshot: Snapshot,
    namespace: dict[str, Any],
    *,
    only: Collection[str] | None = None,
    prefix: str = "",
    map_device: Mapping[str, str] | Callable[[str], str] | None = None,
    lazy: bool = False,
    trust: bool = False,
    history: History | None = None,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
    damaged: Callable[[str], None] | None = None,
) -> Report:
    """Put a snapshot back into a namespace.

    Parameters
    ----------
    snapshot : Snapshot
        What was saved.
    namespace : dict
        The live namespace: it becomes that of the snapshot, and names made since are removed.
    only : collection of str, optional
        Names to restore; all others stay as they are.
    prefix : str, optional
        Put before every name; nothing that is there changes, and restored functions see what came with them.
    map_device : mapping or callable, optional
        Where values of a device go: ``{"cuda:0": "cpu"}``.
    lazy : bool, optional
        Map large arrays from the store instead of reading them.
    trust : bool, optional
        Restore it although this owner's key did not sign it: it runs whatever it holds.
    history : History, optional
        As for `capture`.
    progress, cancel : callable, optional
        As for `capture`.
    damaged : callable, optional
        Called by a thread with a sentence, if a file that something was mapped from turns out to be damaged:
        it is compared with its hashes after a lazy restore. By default that is logged.

    Returns
    -------
    Report
        What came back, and what did not.

    Raises
    ------
    RestoreFailed, SnapshotDamaged, NotTrusted, IncompatibleSnapshot, Cancelled
        If it was not restored: the namespace is exactly as it was.
    """
    from jupyter_gpupool.state.graph.putting import Wish
    from jupyter_gpupool.state.restoring import put_back

    wish = Wish(namespace=namespace, only=only, prefix=prefix)
    place = map_device if callable(map_device) or map_device is None else _mapped(map_device)
    ticker = Ticker(progress, cancel, "restore")
    return put_back(
        snapshot, wish, ticker, place=place, lazy=lazy, trust=trust, history=history, damaged=damaged
    )


def diff(first: Snapshot, second: Snapshot) -> Difference:
    """Compare two snapshots by variable, without executing anything of them."""
    from jupyter_gpupool.state.looking import compare

    return compare(first, second)


def inspect(snapshot: Snapshot) -> Inspection:
    """Look at what is in a snapshot, whoever wrote it, without executing anything of it."""
    from jupyter_gpupool.state.looking import look

    return look(snapshot)


def warm() -> None:
    """Import what saving and restoring need, so that neither waits for it. Any thread may call it.

    Whoever saves while the interpreter ends calls it before: nothing can be imported then.
    """
    import concurrent.futures.thread

    from jupyter_gpupool.state import restoring, saving
    from jupyter_gpupool.state.process.modules import installed
    from jupyter_gpupool.state.store import opening, reader, writer

    _ = concurrent.futures.thread, restoring, saving, opening, reader, writer
    saving.registry()
    installed()  # the first look imports how Python was built


def _label(
    name: str, note: str, notebook: str, kernel: str, hostname: str, automatic: bool
) -> Callable[..., Label]:
    """Return a label that still lacks what only the checkpoint knows."""
    from jupyter_gpupool.state.store.writing import Label

    return partial(
        Label,
        name=name,
        note=note,
        notebook=notebook,
        kernel=kernel,
        hostname=hostname,
        automatic=automatic,
    )


def _own_store() -> Store:
    from jupyter_gpupool.state.store.opening import open_store

    return open_store()


def _mapped(devices: Mapping[str, str]) -> Callable[[str], str]:
    return lambda device: devices.get(device, devices.get(device.partition(":")[0], device))
