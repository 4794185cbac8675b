"""What cells did to libraries is read from their text; what was registered is found, and told or put back."""

from __future__ import annotations

import atexit
import collections.abc
import copyreg
import json
import numbers
from types import FunctionType
from typing import Any

import pytest

from jupyter_gpupool.state.model import Finding, FindingKind
from jupyter_gpupool.state.process import patches, registered, typed
from jupyter_gpupool.state.process.history import History


def memory_of(*cells: str) -> History:
    """Return the memory of a shell where these cells were typed."""
    return History(
        inputs={"In": list(cells)}, outputs={}, names={}, count=lambda: 1, set_count=lambda _: None
    )


def notebooks(source: str) -> Any:
    """Return what a cell of a notebook defines last."""
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(source, space)  # noqa: S102 - as a kernel does
    return list(space.values())[-1]


def test_attributes_that_cells_set_are_read_wherever_they_stand() -> None:
    cells = (
        "np.random.seed = None\nx.y: int = 3\nplain = 1",
        "def patch():\n    for json.indent in range(3): pass\n    a[0].b = 1",
        "setattr(pd.DataFrame, 'show', show)\nsetattr(pd, name, 1)",
        "this is no Python.",
        "with f() as sys.stdin: pass",
    )
    read = typed.read(cells)
    assert read.set == {
        ("np", "random", "seed"),
        ("x", "y"),
        ("json", "indent"),
        ("pd", "DataFrame", "show"),
        ("sys", "stdin"),
    }


def test_calls_that_register_and_settings_of_the_shell_are_read() -> None:
    cells = (
        "Sized.register(Vec)\n@numbers.Real.register\nclass One: pass\natexit.register(bye)",
        "get_ipython().run_line_magic('config', 'InlineBackend.figure_format = \"retina\"')",
    )
    read = typed.read(cells)
    assert read.registers == {("Sized",), ("numbers", "Real"), ("atexit",)}
    assert read.configured == {("InlineBackend", "figure_format")}


def test_a_library_that_a_cell_has_changed_is_changed_again_and_back() -> None:
    memory = memory_of("json.JSONEncoder.mark = 'x'\njson.dumps = json.dumps\njson.nothing = 1\nown.mark = 2")
    section = patches.section({"json": json, "own": object()}, memory)
    json.JSONEncoder.mark = "x"  # type: ignore[attr-defined]
    try:
        taken = section.take(lambda finding: None)
    finally:
        del json.JSONEncoder.mark  # type: ignore[attr-defined]
    assert taken == [("json.encoder", "JSONEncoder", "mark", "x")]
    undo = section.put(taken, lambda finding: None)
    assert json.JSONEncoder.mark == "x"  # type: ignore[attr-defined]
    undo()
    assert not hasattr(json.JSONEncoder, "mark")


def test_streams_and_hooks_of_the_kernel_are_left_alone() -> None:
    import sys

    memory = memory_of("sys.stdout = sys.stderr\nsys.path = []")
    assert patches.section({"sys": sys}, memory).take(lambda finding: None) == []


def test_functions_that_are_to_be_run_at_the_end_are_told_with_what_to_do() -> None:
    bye: FunctionType = notebooks("def bye(number, *, name): pass")
    atexit.register(bye, 3, name="x")
    found: list[Finding] = []
    try:
        registered.section({}, None).take(found.append)
    finally:
        atexit.unregister(bye)
    (told,) = found
    assert told.kind is FindingKind.NOT_SAVED
    assert told.path == "bye"
    assert "when the kernel ends" in told.reason
    assert told.hint == "Register it again after a restore: atexit.register(bye)."
    assert registered.endings() == []


@pytest.mark.parametrize("owner", [numbers.Number, collections.abc.Hashable])
def test_classes_that_count_as_a_librarys_do_so_again(owner: Any) -> None:
    kind = notebooks("class Fixed:\n    __hash__ = None")
    owner.register(kind)
    space = {"Owner": owner}
    taken = registered.section(space, memory_of("Owner.register(Fixed) # .")).take(lambda finding: None)
    assert ("abstract", (owner.__module__, owner.__qualname__), kind, None) in taken
    other = notebooks("class Fixed:\n    __hash__ = None")
    assert not issubclass(other, owner)
    of = (owner.__module__, owner.__qualname__)
    registered.section(space, None).put([("abstract", of, other, None)], lambda finding: None)
    assert issubclass(other, owner)


def test_how_a_class_is_pickled_is_told_again_and_taken_back() -> None:
    kind, how = notebooks("class Vec: pass"), notebooks("def how(one): return str, ()")
    section = registered.section({}, None)
    undo = section.put([("pickled", ("copyreg", "pickle"), kind, how)], lambda finding: None)
    try:
        assert copyreg.dispatch_table[kind] is how
        assert ("pickled", ("copyreg", "pickle"), kind, how) in section.take(lambda finding: None)
    finally:
        undo()
    assert kind not in copyreg.dispatch_table
