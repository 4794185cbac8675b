"""The one door from the notebook to the engine of snapshots.

Rules of this module: nothing of the engine is imported before it is used; what the engine is told of this
place (notebook, kernel, owner) is put together here.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jupyter_gpupool.kernel.snapshots.keys import keys
from jupyter_gpupool.kernel.snapshots.settings import Settings
from jupyter_gpupool.protocol import names
from jupyter_gpupool.protocol.paths import is_local
from jupyter_gpupool.protocol.tokens import read_claim
from jupyter_gpupool.state.background import begin

if TYPE_CHECKING:
    from jupyter_gpupool.state.looking import Difference, Inspection
    from jupyter_gpupool.state.report import Report
    from jupyter_gpupool.state.saving import Staged
    from jupyter_gpupool.state.snapshot import Snapshot
    from jupyter_gpupool.state.store.store import Store


def is_near(settings: Settings) -> bool:
    """Tell whether the store is on this machine."""
    return is_local(settings.store)


def open_store(settings: Settings) -> Store:
    """Open the store of this process's owner.

    Raises
    ------
    StateError
        If it cannot be used.
    """
    from jupyter_gpupool.state.store.opening import open_store

    # In a store that many use, a folder is called after who the pool says that this is; on this machine it is
    # called after the user, with a pool and without one.
    claim = None if is_near(settings) else read_claim(os.environ.get(names.ENV_TOKEN, ""))
    owner = claim.owner if claim is not None else ""
    return open_store(settings.store, owner=owner, keys=keys(), quota_bytes=settings.quota_bytes)


def get_ready() -> None:
    """Import what saving and restoring need, here and in the engine."""
    from jupyter_gpupool.kernel.snapshots import api as commands
    from jupyter_gpupool.kernel.snapshots import index, leftovers, session, words
    from jupyter_gpupool.state import api
    from jupyter_gpupool.state.store import retention, verifying

    _ = commands, index, leftovers, session, words, retention, verifying
    api.warm()


def get_ready_soon() -> None:
    """Import what saving and restoring need while nobody waits for it: in a thread."""
    begin(_get_ready_if_it_goes_on, "imports")


def _get_ready_if_it_goes_on() -> None:
    try:
        get_ready()
    except RuntimeError:
        if threading.main_thread().is_alive():
            raise
        # The process ends meanwhile: modules that are to be told of its end cannot be imported any more.


def capture(namespace: dict[str, Any], **how: Any) -> Snapshot:
    """Save a namespace; see `jupyter_gpupool.state.capture`."""
    from jupyter_gpupool.state import api

    return api.capture(namespace, **how)


def stage(namespace: dict[str, Any], **how: Any) -> Staged:
    """Look at a namespace now, to be written later; see `jupyter_gpupool.state.stage`."""
    from jupyter_gpupool.state import api

    return api.stage(namespace, **how)


def restore(store: Store, which: str, namespace: dict[str, Any], **how: Any) -> tuple[Snapshot, Report]:
    """Bring a namespace back; see `jupyter_gpupool.state.restore`."""
    from jupyter_gpupool.state import api

    snapshot = found(store, which)
    return snapshot, api.restore(snapshot, namespace, **how)


def inspect(store: Store, which: str) -> Inspection:
    """Look at a snapshot without running anything of it."""
    from jupyter_gpupool.state import api

    return api.inspect(found(store, which))


def diff(store: Store, first: str, second: str) -> tuple[Snapshot, Snapshot, Difference]:
    """Compare two snapshots without running anything of them."""
    from jupyter_gpupool.state import api

    one, other = found(store, first), found(store, second)
    return one, other, api.diff(one, other)


def found(store: Store, which: str) -> Snapshot:
    """Find a snapshot by its name or id."""
    from jupyter_gpupool.state.snapshot import Snapshot

    return Snapshot(store, store.find(which))


def chosen(text: str | Sequence[str] | None) -> list[str] | None:
    """Read names of variables, as ``a,b`` or one by one; None for all."""
    if text is None:
        return None
    parts = text.split(",") if isinstance(text, str) else list(text)
    return [part.strip() for part in parts if part.strip()]
