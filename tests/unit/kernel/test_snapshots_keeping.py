"""Old automatic snapshots go by themselves, and so do their bytes: seldom, and beside nobody who writes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jupyter_gpupool import state
from jupyter_gpupool.kernel.snapshots.keeping import COLLECT_SECONDS, FIRST_SECONDS, Keeper
from jupyter_gpupool.protocol import names
from jupyter_gpupool.state.store.retention import Retention
from jupyter_gpupool.state.store.store import Store

BLOB = 400_000


@pytest.fixture
def open_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Store]:
    monkeypatch.setenv(names.ENV_DATA_DIR, str(tmp_path / "data"))
    monkeypatch.setenv(names.ENV_RUNTIME_DIR, str(tmp_path / "run"))
    return lambda: state.open_store(str(tmp_path / "store"))


class Kernel:
    """One kernel with a store, whose clock stands until it is put on."""

    def __init__(self, store: Store, keep: int = 2) -> None:
        self.now, self.store = 0.0, store
        session: Any = SimpleNamespace(store=store, retention=lambda: Retention(count=keep))
        self.keeper = Keeper(session, clock=lambda: self.now)

    def save(self, number: int, notebook: str = "/a.ipynb") -> None:
        values = {"n": number, "blob": os.urandom(BLOB)}
        state.capture(values, store=self.store, notebook=notebook, automatic=True, sections=False)

    def used(self) -> int:
        return self.store.usage().used_bytes


def test_what_went_gives_its_bytes_back_once_a_kernel_has_run_a_while(
    open_store: Callable[[], Store],
) -> None:
    kernel = Kernel(open_store())
    for number in range(5):
        kernel.save(number)
        kernel.keeper.tidy()
    assert len(kernel.store.list()) == 2
    assert kernel.used() > 5 * BLOB  # not yet: a kernel has other things to do when it begins
    kernel.now = FIRST_SECONDS
    assert not kernel.keeper.tidy()
    assert kernel.used() < 3 * BLOB

    kernel.save(6)
    assert kernel.keeper.tidy()
    assert kernel.used() > 3 * BLOB  # and not with every save
    kernel.now += COLLECT_SECONDS
    kernel.keeper.tidy()
    assert kernel.used() < 3 * BLOB


def test_nothing_is_given_back_while_another_kernel_writes_and_it_is_not_forgotten(
    open_store: Callable[[], Store],
) -> None:
    kernel = Kernel(open_store(), keep=1)
    kernel.save(1)
    kernel.save(2)
    kernel.now = FIRST_SECONDS
    with open_store().begin():
        assert kernel.keeper.tidy()
    assert kernel.used() > 2 * BLOB
    kernel.now += FIRST_SECONDS
    assert not kernel.keeper.tidy()
    assert kernel.used() < 2 * BLOB


def test_what_was_forgotten_by_hand_is_given_back_too(open_store: Callable[[], Store]) -> None:
    kernel = Kernel(open_store())
    kernel.now = FIRST_SECONDS
    kernel.keeper.tidy()
    kernel.save(1)
    kernel.store.forget(kernel.store.list()[0].id)
    kernel.keeper.owe()
    kernel.now += COLLECT_SECONDS
    kernel.keeper.tidy()
    assert kernel.used() < BLOB


def test_nothing_is_owed_after_everything_was_given_back_by_hand(open_store: Callable[[], Store]) -> None:
    kernel = Kernel(open_store(), keep=1)
    kernel.save(1)
    kernel.save(2)
    done, gone = kernel.keeper.collect()
    assert (gone, done.reason) == (1, "")
    assert kernel.used() < 2 * BLOB
    kernel.save(3)
    kernel.store.forget(kernel.store.list()[0].id)
    kernel.now = FIRST_SECONDS + COLLECT_SECONDS
    assert not kernel.keeper.tidy()
    assert kernel.used() > 2 * BLOB  # nobody said that there was anything to look for


def test_where_there_is_no_room_all_but_the_newest_automatic_ones_go_at_once(
    open_store: Callable[[], Store],
) -> None:
    kernel = Kernel(open_store(), keep=5)
    assert not kernel.keeper.make_room()
    for number in range(3):
        kernel.save(number)
    state.capture({"kept": 1}, store=kernel.store, name="mine", notebook="/a.ipynb", sections=False)
    assert kernel.keeper.make_room()
    assert [it.automatic for it in kernel.store.list()] == [False, True]
    assert kernel.used() < 2 * BLOB


def test_kernels_that_save_and_tidy_at_once_keep_what_each_of_them_keeps(
    open_store: Callable[[], Store],
) -> None:
    kernels = [Kernel(open_store()) for _ in range(3)]
    failed: list[BaseException] = []

    def work(number: int, kernel: Kernel) -> None:
        try:
            for step in range(6):
                kernel.save(step, f"/{number}.ipynb")
                kernel.now += COLLECT_SECONDS
                kernel.keeper.tidy()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=each) for each in enumerate(kernels)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failed
    store = open_store()
    assert {(it.notebook) for it in store.list()} == {"/0.ipynb", "/1.ipynb", "/2.ipynb"}
    assert len(store.list()) == 6
    assert store.verify() == []
    for kept in store.list():
        namespace: dict[str, Any] = {}
        state.restore(state.Snapshot(store, kept), namespace)
        assert namespace["n"] in (4, 5)


def test_a_store_that_cannot_be_used_disturbs_nobody_in_the_thread(open_store: Callable[[], Store]) -> None:
    def no_store() -> Retention:
        raise OSError("the disk is gone")

    kernel = Kernel(open_store())
    broken: Any = SimpleNamespace(store=kernel.store, retention=no_store)
    Keeper(broken)._after_save()
    with pytest.raises(OSError, match="gone"):
        Keeper(broken).tidy()
