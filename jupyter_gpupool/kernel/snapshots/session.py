"""What one process knows of its snapshots: the namespace, the store, the policy.

This is the composition root of snapshots in a process. Rules of this module: there is one `Session`
for each operating-system process; a save that was asked for is on the disk when it returns, and whoever wants
to know of it is told afterwards, in a thread.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any

from jupyter_gpupool.core.errors import GPUPoolError, InvalidValue
from jupyter_gpupool.kernel.shell import running_shell
from jupyter_gpupool.kernel.snapshots import engine
from jupyter_gpupool.kernel.snapshots.keeping import Keeper
from jupyter_gpupool.kernel.snapshots.keys import pool_is_near
from jupyter_gpupool.kernel.snapshots.lookup import known_variables
from jupyter_gpupool.kernel.snapshots.memory import history
from jupyter_gpupool.kernel.snapshots.meter import metered
from jupyter_gpupool.kernel.snapshots.policy import Before, Policy
from jupyter_gpupool.kernel.snapshots.results import Restored, Saved
from jupyter_gpupool.kernel.snapshots.room import room_bytes
from jupyter_gpupool.kernel.snapshots.settings import Settings, read
from jupyter_gpupool.kernel.snapshots.where import Where, where

if TYPE_CHECKING:
    from jupyter_gpupool.kernel.snapshots.autosave import Autosaver
    from jupyter_gpupool.kernel.snapshots.farewell import Farewell
    from jupyter_gpupool.state.model import Manifest
    from jupyter_gpupool.state.snapshot import Snapshot
    from jupyter_gpupool.state.store.retention import Retention
    from jupyter_gpupool.state.store.store import Store

#: A pool that has come meanwhile is asked for its key this often at most, seconds.
_LOOK_SECONDS = 60.0
#: Code of the error that says that there is no room.
_FULL = "store_full"


class Session:
    """Saves and restores the namespace of this process.

    Parameters
    ----------
    shell : InteractiveShell or None
        The notebook's shell; None in a script.
    settings : Settings
        What is configured.
    """

    def __init__(self, shell: Any | None, settings: Settings) -> None:
        self.pid = os.getpid()
        self.shell = shell
        self.settings = settings
        self._store: Store | None = None
        self._had_pool = False
        self._looked = float("-inf")
        self._autosaver: Autosaver | None = None
        self._farewell: Farewell | None = None
        self.keeper = Keeper(self)
        #: Whether somebody has said when to save by itself.
        self.chosen = settings.chosen
        #: Id of the snapshot that a kernel before this one left behind, once that was said.
        self.offered = ""
        #: Id of the newest snapshot of this kernel.
        self.newest = ""

    @property
    def namespace(self) -> dict[str, Any]:
        """The user's namespace: the notebook's, or the script's."""
        if self.shell is not None:
            found: dict[str, Any] = self.shell.user_ns
            return found
        return vars(sys.modules["__main__"])

    @property
    def where(self) -> Where:
        """Where this process is."""
        return where(self.shell)

    @property
    def store_is_near(self) -> bool:
        """Whether the store is on this machine."""
        return engine.is_near(self.settings)

    @property
    def store(self) -> Store:
        """The store; opened when it is first used, and anew when a pool has come meanwhile."""
        now = time.monotonic()
        if self._store is not None and not self._had_pool and now - self._looked > _LOOK_SECONDS:
            self._looked = now
            if pool_is_near():
                self._store = None
        if self._store is None:
            self._had_pool, self._looked = pool_is_near(), now
            self._store = engine.open_store(self.settings)
        return self._store

    @property
    def autosaver(self) -> Autosaver:
        """What saves by itself."""
        if self._autosaver is None:
            from jupyter_gpupool.kernel.snapshots.autosave import Autosaver

            self._autosaver = Autosaver(self)
        return self._autosaver

    @property
    def policy(self) -> Policy:
        """When the state is saved by itself."""
        return self.settings.policy if self._autosaver is None else self._autosaver.policy

    def follow(self, policy: Policy, *, running: bool = True) -> None:
        """Save by itself as a policy says, from now on.

        Parameters
        ----------
        policy : Policy
            When.
        running : bool
            Whether a cell runs now.
        """
        self.autosaver.set(policy, running=running)
        if Before.SHUTDOWN in policy.before:
            self.farewell.take_signal()
        elif self._farewell is not None:
            self._farewell.leave_signal()

    def follow_from_now_on(self) -> None:
        """Save by itself from now on, because this kernel uses snapshots; nothing where that is decided."""
        if self.shell is not None and self._autosaver is None:
            self.follow(self.settings.policy)

    @property
    def follows(self) -> bool:
        """Whether anything is saved by itself now."""
        return self._autosaver is not None and not self._autosaver.policy.off

    def room_bytes(self) -> int | None:
        """Return how much an automatic snapshot may write; None where nothing limits that."""
        return room_bytes(self.store.folder, self.settings.leave_free)

    @property
    def farewell(self) -> Farewell:
        """What notices the end of this process."""
        if self._farewell is None:
            from jupyter_gpupool.kernel.snapshots.farewell import Farewell

            self._farewell = Farewell(self)
        return self._farewell

    def retention(self) -> Retention:
        """Return how long snapshots are kept."""
        from jupyter_gpupool.state.store.retention import Retention

        settings = self.settings
        return Retention(
            count=settings.keep_automatic, age_seconds=settings.keep_seconds, bytes=settings.quota_bytes
        )

    # --- saving ---

    def about(self, *, automatic: bool) -> dict[str, Any]:
        """Return what is said of a state that is saved now."""
        here = self.where
        return {
            "store": self.store,
            "notebook": here.notebook,
            "kernel": here.kernel_id,
            "hostname": here.hostname,
            "automatic": automatic,
            "history": history(self.shell),
        }

    def checkpoint(self, name: str, *, note: str, only: list[str] | None, skip: list[str] | None) -> Saved:
        """Save the namespace under a name.

        Raises
        ------
        StateError, InvalidValue
            If nothing can be saved; nothing has changed then.
        """
        if only is not None and skip is not None:
            raise InvalidValue("Both --only and --except were given.", hint="Give one of them.")
        known_variables(self.namespace, [*(only or []), *(skip or [])])
        try:
            snapshot = self._captured(name, note=note, only=only, skip=skip)
        except GPUPoolError as error:
            if error.code != _FULL or not self.keeper.make_room():
                raise
            snapshot = self._captured(name, note=note, only=only, skip=skip)
        whole = only is None and skip is None
        if whole:
            self.newest = snapshot.manifest.id
            if self._autosaver is not None:
                self._autosaver.saved_by_hand()
        self.after_save(snapshot.manifest, whole=whole)
        self.keeper.after_save()
        self.follow_from_now_on()
        return Saved(manifest=snapshot.manifest)

    def _captured(self, name: str, **how: Any) -> Snapshot:
        with metered("Saving") as meter:
            return engine.capture(
                self.namespace,
                name=name or time.strftime("%Y-%m-%d_%H-%M-%S"),
                progress=meter.progress,
                cancel=meter.cancel,
                **how,
                **self.about(automatic=False),
            )

    def after_save(self, manifest: Manifest, *, whole: bool = True) -> None:
        """Leave word of a snapshot for the next kernel."""
        from jupyter_gpupool.kernel.snapshots import leftovers
        from jupyter_gpupool.kernel.snapshots.words import restore_seconds

        notebook = self.where.notebook
        if whole and notebook:
            self.newest = manifest.id
            _ = self.farewell  # a kernel that ends as somebody wants takes its word back
            leftovers.write(
                notebook,
                leftovers.Leftover(
                    snapshot=manifest.id,
                    name=manifest.name,
                    created_ms=manifest.created_ms,
                    total_bytes=manifest.total_bytes,
                    restore_seconds=restore_seconds(manifest.total_bytes),
                    pid=self.pid,
                    started=leftovers.started(self.pid),
                ),
            )

    # --- restoring ---

    def restore(
        self,
        which: str,
        *,
        only: list[str] | None,
        prefix: str,
        map_device: dict[str, str] | None,
        lazy: bool,
        trust: bool,
    ) -> Restored:
        """Bring a saved state back into the namespace.

        Raises
        ------
        StateError, InvalidValue
            If it cannot be; the namespace is as it was then.
        """
        if prefix and not f"{prefix}x".isidentifier():
            raise InvalidValue(
                f"“{prefix}” cannot begin names.", hint="Use letters, digits and _, as in old_."
            )
        chosen = which or self.latest().id
        with metered("Restoring") as meter:
            snapshot, report = engine.restore(
                self.store,
                chosen,
                self.namespace,
                only=only,
                prefix=prefix,
                map_device=map_device,
                lazy=lazy,
                trust=trust,
                history=history(self.shell),
                progress=meter.progress,
                cancel=meter.cancel,
                damaged=self.say_with_next_cell,
            )
        self.offered = ""
        self.keeper.tell_pool()  # what was left behind has been taken up
        self.follow_from_now_on()
        return Restored(manifest=snapshot.manifest, report=report)

    def say_with_next_cell(self, sentence: str) -> None:
        """Say something with the next cell; in a script at once. Any thread may call it."""
        from jupyter_gpupool.kernel.notices import NoticeBoard

        board = NoticeBoard(self.shell)
        board.open()
        board.say(sentence)
        board.close()

    def latest(self) -> Manifest:
        """Return the snapshot that is meant without a name: what was offered, or this notebook's latest.

        Raises
        ------
        NoSuchSnapshot
            If this notebook has none.
        """
        from jupyter_gpupool.state.errors import NoSuchSnapshot

        notebook = self.where.notebook
        for manifest in self.store.list():
            if self.offered == manifest.id or (not self.offered and manifest.notebook == notebook):
                return manifest
        if self.offered:
            self.offered = ""
            return self.latest()
        whose = "of this notebook" if notebook else "that belongs to no notebook"
        raise NoSuchSnapshot(
            f"There is no snapshot {whose}.", hint="`%gpupool snapshots --all` lists those that there are."
        )


_current: Session | None = None


def this_session() -> Session:
    """Return what this process knows of its snapshots."""
    global _current
    if _current is None or _current.pid != os.getpid():
        shell = running_shell()
        _current = Session(shell, read(shell))
    return _current
