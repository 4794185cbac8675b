"""A restore changes everything that was asked for, or nothing."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from jupyter_gpupool.state.errors import Cancelled, IncompatibleSnapshot, RestoreFailed
from jupyter_gpupool.state.graph import packages, parting
from tests.support.namespaces import Kernel, Trip
from tests.support.waiting import until


def kept(kernel: Kernel) -> dict[str, Any]:
    return dict(kernel.namespace)


def is_as_before(kernel: Kernel, before: dict[str, Any]) -> bool:
    now = kernel.namespace
    return list(now) == list(before) and all(now[name] is value for name, value in before.items())


def test_names_made_since_go_and_deleted_ones_come_back() -> None:
    trip = Trip("x = 1; y = 2")
    trip.before.run("del x; z = 3; y = 5")
    report = trip.before.restore(trip.snapshot)
    assert trip.before.eval("(x, y)") == (1, 2)
    assert "z" not in trip.before.namespace
    assert report.removed == ["z"]
    assert report.names == ["x", "y"]


def test_names_that_were_one_object_and_are_restored_apart_are_told() -> None:
    trip = Trip("both = other = [1]; three = same = 3")
    report = trip.before.restore(trip.snapshot, only=["both", "three"])
    (found,) = report.findings
    assert (found.kind.value, found.path) == ("changed", "both")
    assert "the same object as other, which stays" in found.reason
    assert not trip.before.restore(trip.snapshot, only=["both", "other"]).findings


@pytest.mark.parametrize(
    ("cell", "path", "told"),
    [
        ("row = [1]; x = {'rows': [row]}; other = row", "x['rows'][0]", "same object as other,"),
        ("x = [1]; other = {'kept': x}", "x", "same object as other['kept'],"),
        ("row = [1]\ndef x(given=row): return given\nother = (row,)", "x.__defaults__[0]", "as other[0],"),
        ("class Node: pass\nx = Node(); x.up = Node(); other = x.up", "x.up", "same object as other,"),
        ("import numpy as np\nother = np.arange(9.0); x = [other[3:]]", "x[0]", "same memory as other,"),
        ("import torch\nother = torch.arange(9.0); x = [other[3:]]", "x[0]", "same memory as other,"),
    ],
)
def test_what_was_shared_below_the_top_and_is_restored_apart_is_told(cell: str, path: str, told: str) -> None:
    trip = Trip(f"{cell}\nfor n in ('row',): globals().pop(n, None)")
    (found,) = trip.before.restore(trip.snapshot, only=["x"]).findings
    assert (found.kind.value, found.variable, found.path) == ("changed", "x", path)
    assert told in found.reason


def test_what_nobody_looked_at_and_what_is_not_listed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    trip = Trip("rows = [[n] for n in range(60)]; x = rows[:30]; other = rows[:]; del rows")
    found = trip.before.restore(trip.snapshot, only=["x"]).findings
    assert [it.path for it in found] == [*(f"x[{n}]" for n in range(10)), "x"]
    assert found[-1].reason == "20 more of its parts were shared with variables that stay as they are here"
    monkeypatch.setattr(parting, "_MOST_VALUES", 12)
    assert "beyond the first 12 values" in trip.before.restore(trip.snapshot, only=["x"]).findings[-1].reason


@pytest.mark.parametrize(
    "cell",
    [
        "import logging\nx = [logging.root]; other = {'log': logging.root}",
        "x = [(1, 'a')]; other = x[0]",
        "import numpy as np\nx = np.zeros(4); other = np.zeros(4)",
        "import torch\nx = [torch.eye(3).to_sparse()]; other = [torch.eye(3).to_sparse()]",
        "import torch\nx = [1]; other = [torch.ones(2, device='meta')]",
        "import enum\nclass Colour(enum.Enum):\n    RED = 1\nx = [Colour]; other = (Colour,)",
    ],
)
def test_what_only_looks_shared_is_not_told(cell: str) -> None:
    trip = Trip(cell)
    assert not trip.before.restore(trip.snapshot, only=["x"]).findings


def test_only_some_names_leave_the_others_alone() -> None:
    trip = Trip("k = 1\ndef f(): return k\nbig = [1]; other = big")
    trip.before.run("k = 2; big = None; new = 1")
    report = trip.before.restore(trip.snapshot, only=["f", "big"])
    assert report.names == ["big", "f"] or report.names == ["f", "big"]
    assert trip.before.eval("(f(), big, new, k)") == (2, [1], 1, 2)
    before = kept(trip.before)
    with pytest.raises(RestoreFailed, match="nope"):
        trip.before.restore(trip.snapshot, only=["nope"])
    assert is_as_before(trip.before, before)


def test_under_a_prefix_functions_see_what_came_with_them() -> None:
    trip = Trip("k = 1\ndef f():\n    global k\n    k += 1\n    return k")
    trip.before.run("k = 10")
    report = trip.before.restore(trip.snapshot, prefix="old_")
    assert trip.before.eval("(old_f(), old_f(), f(), k, old_k)") == (2, 3, 11, 11, 1)
    assert report.names == ["old_k", "old_f"]
    assert not report.removed


def test_a_snapshot_of_some_names_removes_none() -> None:
    trip = Trip("a = 1; b = 2; my_password = 'x'")
    snapshot = trip.before.save(trip.store, "some", only=["a"])
    trip.before.run("a = 5; c = 3")
    assert trip.before.restore(snapshot).removed == []
    assert trip.before.eval("(a, b, c)") == (1, 2, 3)
    assert "my_password" not in trip.after.namespace
    assert trip.paths("left_out") == ["my_password"]


@pytest.mark.parametrize("error", ["KeyboardInterrupt()", "MemoryError()", "SystemExit(3)"])
def test_a_restore_that_is_torn_off_changes_nothing(error: str) -> None:
    trip, saved = Trip(), Kernel()
    saved.run(
        f"class Stops:\n    def __setstate__(self, state): raise {error}\n"
        "a = 1\ndef f(): return a\ns = Stops(); s.x = 1; b = 2"
    )
    snapshot = saved.save(trip.store)
    kernel = Kernel()
    kernel.run("a = 'mine'; z = [1]\ndef f(): return 'mine'")
    before = kept(kernel)
    with pytest.raises((KeyboardInterrupt, RestoreFailed, SystemExit)):
        kernel.restore(snapshot)
    assert is_as_before(kernel, before)
    assert kernel.eval("f()") == "mine"


def test_a_restore_can_be_stopped_at_any_variable_and_tried_again() -> None:
    trip = Trip("\n".join(f"v{n} = [{n}]" for n in range(20)))
    for stop_at in range(0, 20, 3):
        kernel = Kernel()
        kernel.run("v3 = 'mine'; other = 1")
        before = kept(kernel)
        asked: list[str] = []
        with pytest.raises(Cancelled):
            _stopped(kernel, trip, stop_at, asked)
        assert is_as_before(kernel, before)
    kernel.restore(trip.snapshot)
    assert kernel["v19"] == [19]


def _stopped(kernel: Kernel, trip: Trip, stop_at: int, asked: list[str]) -> None:
    from jupyter_gpupool.state import restoring
    from jupyter_gpupool.state.graph.putting import Wish
    from jupyter_gpupool.state.ticking import Ticker

    class Stops(Ticker):
        def tick(self, what: str = "") -> None:
            asked.append(what)
            if len(asked) > stop_at:
                raise Cancelled("The restore was stopped; nothing was changed.")

    restoring.put_back(trip.snapshot, Wish(namespace=kernel.namespace), Stops(None, None, "restore"))


def test_threads_of_the_user_never_tear_a_snapshot() -> None:
    kernel, stop = Kernel(), threading.Event()
    kernel.run("pair = {'a': 0, 'b': 0}; grows = {}")
    kernel.namespace["stop"] = stop
    kernel.run(
        "def work():\n"
        "    n = 0\n"
        "    while not stop.is_set():\n"
        "        n += 1\n"
        "        pair['a'] = n; pair['b'] = n\n"
        "        grows[n % 1000] = n\n"
        "        if n % 1000 == 0: grows.clear()\n"
    )
    thread = threading.Thread(target=kernel["work"], daemon=True)
    thread.start()
    try:
        asyncio.run(until(lambda: kernel["pair"]["a"] > 100, what="the thread works"))
        trip = Trip()
        for _ in range(6):
            fresh = Kernel()
            fresh.restore(kernel.save(trip.store, skip=["stop", "work"]))
            assert 0 <= fresh["pair"]["a"] - fresh["pair"]["b"] <= 1
    finally:
        stop.set()
        thread.join(5)


def test_versions_that_differ_are_said_and_another_python_is_refused() -> None:
    trip = Trip("x = 1")
    manifest = trip.snapshot.manifest
    import msgspec

    other = msgspec.structs.replace(manifest.environment, packages={"msgspec": "0.0.1", "no_such": "1"})
    said = packages.check(msgspec.structs.replace(manifest, environment=other))
    assert any("msgspec 0.0.1" in line for line in said)
    assert any("not installed" in line for line in said)
    old = msgspec.structs.replace(manifest.environment, python="2.7.18")
    with pytest.raises(IncompatibleSnapshot, match=r"2\.7\.18"):
        packages.check(msgspec.structs.replace(manifest, environment=old))
