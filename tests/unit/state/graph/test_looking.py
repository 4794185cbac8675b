"""Comparing snapshots, and looking into them, without running anything of them."""

from __future__ import annotations

from jupyter_gpupool import state
from tests.support.namespaces import Kernel, Trip

CELL = (
    "class P:\n    def __init__(self, x): self.x = x\n"
    "def f(): return 1\n"
    "a = [1]; b = {'ref': a}; p = P([2]); s = {'one', 'two', 'three'}; n = 5; alone = {'k': [1, 2]}"
)


def test_a_difference_names_what_was_added_removed_and_changed() -> None:
    trip = Trip(CELL)
    trip.before.run("a.append(2); del n; new = 1; alone['k'].append(3)")
    found = state.diff(trip.snapshot, trip.before.save(trip.store, "later"))
    assert [one.name for one in found.added] == ["new"]
    assert [one.name for one in found.removed] == ["n"]
    assert sorted(then.name for then, _ in found.changed) == ["a", "alone", "b"]
    assert "+ new" in found.text()
    assert "~ alone" in found.text()


def test_what_did_not_change_is_the_same_wherever_it_lies_in_the_stream() -> None:
    trip = Trip(CELL)
    trip.before.run("n = [list(range(50)) for _ in range(9)]")
    reordered = {name: trip.before.namespace.pop(name) for name in ("a", "p")}
    trip.before.namespace.update(reordered)
    found = state.diff(trip.snapshot, trip.before.save(trip.store, "later"))
    assert [then.name for then, _ in found.changed] == ["n"]


def test_a_restored_namespace_is_the_same_in_its_next_snapshot() -> None:
    trip = Trip(CELL)
    found = state.diff(trip.snapshot, trip.after.save(trip.store, "after"))
    assert not found.changed
    assert not found.added
    assert len(found.same) == 8


def test_looking_into_a_snapshot_runs_nothing_of_it() -> None:
    kernel, trip = Kernel(), Trip()
    kernel.run(
        "import os.path, decimal\n"
        "class Trap:\n"
        "    def __reduce__(self): return print, ('it ran',)\n"
        "def f(x): return x + 1\n"
        "t = Trap(); d = decimal.Decimal(1)"
    )
    looked = state.inspect(kernel.save(trip.store))
    assert [variable.name for variable in looked.variables] == ["os", "decimal", "Trap", "f", "t", "d"]
    assert {"builtins.print", "decimal.Decimal", "os"} <= set(looked.imports)
    assert "f" in looked.functions
    assert any("return x + 1" in text for text in looked.sources.values())
    assert looked.trusted


def test_a_staged_snapshot_holds_what_was_there_when_it_was_taken() -> None:
    trip = Trip("big = bytearray(b'a' * 500_000); x = [1]")
    staged = state.stage(trip.before.namespace, store=trip.store, name="staged", sections=False)
    trip.before.run("big[0] = 98; x.append(2)")
    snapshot, fresh = staged.write(), Kernel()
    fresh.restore(snapshot)
    assert fresh["big"][0] == 97
    assert fresh["x"] == [1]
    assert snapshot.manifest.automatic
    thrown = state.stage(trip.before.namespace, store=trip.store, name="thrown", sections=False)
    thrown.discard()
    assert "thrown" not in [manifest.name for manifest in trip.store.list()]
