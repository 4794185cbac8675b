"""Random graphs of objects come back isomorphic; every snapshot of a session is the state of its moment."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jupyter_gpupool import state
from jupyter_gpupool.state.store.opening import memory_store
from jupyter_gpupool.state.store.store import Store
from tests.support.namespaces import Kernel

CLASSES = """
class Plain: pass
class Slotted:
    __slots__ = ('a', 'b')
class Keyed:
    def __init__(self): self.tag = 0
    def __hash__(self): return hash(self.tag)
    def __eq__(self, other): return self is other
class Stated:
    def __getstate__(self): return {'kept': self.__dict__}
    def __setstate__(self, state): self.__dict__.update(state['kept'])
class Listed(list): pass
class Mapped(dict): pass
def closure():
    held = None
    def get(): return held
    def put(value):
        nonlocal held
        held = value
    return get, put
"""
ATOMS = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=3), st.floats(allow_nan=False))
KINDS = ("list", "dict", "set", "tuple", "Plain", "Slotted", "Keyed", "Stated", "Listed", "Mapped", "closure")
#: How a graph is made: a kind for each node, then edges from a node to a node or an atom.
GRAPHS = st.tuples(
    st.lists(st.sampled_from(KINDS), min_size=1, max_size=12),
    st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11), st.one_of(st.none(), ATOMS)), max_size=30),
)
QUICK = settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def build(kernel: Kernel, graph: tuple[list[str], list[tuple[int, int, Any]]]) -> None:
    """Make the objects of a graph, each under a name of its own."""
    kinds, edges = graph
    kernel.run(CLASSES)
    nodes = [made(kernel, kind) for kind in kinds]
    for number, (source, target, atom) in enumerate(edges):
        source %= len(nodes)
        item = nodes[target % len(nodes)] if atom is None else atom
        nodes[source] = joined(nodes[source], item, number)
    kernel.namespace.update({f"n{number}": node for number, node in enumerate(nodes)})


def made(kernel: Kernel, kind: str) -> Any:
    if kind in ("list", "dict", "set", "tuple"):
        return {"list": [], "dict": {}, "set": set(), "tuple": ()}[kind]
    if kind == "Keyed":
        node = kernel["Keyed"]()
        node.tag = id(node) % 97
        return node
    return kernel[kind]()


def joined(node: Any, item: Any, number: int) -> Any:
    """Return a node that refers to one thing more."""
    name = type(node).__name__
    if name in ("list", "Listed"):
        node.append(item)
    elif name in ("dict", "Mapped"):
        node[item if hashable(item) and number % 2 else number] = item
    elif name == "set":
        node.add(item if hashable(item) else number)
    elif name == "tuple" and callable(node[0] if node else None):
        node[1](item)
    elif name == "tuple":
        return (*node, item)
    elif name == "Slotted":
        setattr(node, "ab"[number % 2], item)
    else:
        setattr(node, f"x{number % 4}", item)
    return node


def hashable(item: Any) -> bool:
    return type(item).__name__ in ("Keyed", "Plain", "int", "str", "bool", "NoneType")


class Isomorphism:
    """Walks two graphs at once; each object of one stands for exactly one of the other."""

    def __init__(self) -> None:
        self._there: dict[int, int] = {}
        self._back: dict[int, int] = {}
        self._kept: list[Any] = []

    def check(self, one: Any, other: Any) -> None:
        waiting = [(one, other)]
        while waiting:
            left, right = waiting.pop()
            assert type(left).__name__ == type(right).__name__
            if type(left) in (int, float, str, bool, type(None)):
                assert left == right
                continue
            known = self._there.setdefault(id(left), id(right))
            assert known == id(right)
            assert self._back.setdefault(id(right), id(left)) == id(left)
            if len(self._kept) < len(self._there):
                self._kept.append(left)
                waiting += self._parts(left, right)

    def _parts(self, left: Any, right: Any) -> list[tuple[Any, Any]]:
        lefts, rights = parts(left), parts(right)
        assert len(lefts) == len(rights)
        return list(zip(lefts, rights, strict=True))


def parts(node: Any) -> list[Any]:
    """Return what a node refers to, in an order that is the same on both sides."""
    if isinstance(node, set):
        atoms = sorted((repr(item) for item in node if not hasattr(item, "__dict__")), key=str)
        return [*atoms, *sorted((item for item in node if hasattr(item, "__dict__")), key=order)]
    if isinstance(node, dict):
        return [part for pair in node.items() for part in pair] + [
            vars(node) if type(node) is not dict else 0
        ]
    if isinstance(node, list | tuple):
        return list(node)
    if callable(node):
        return [cell.cell_contents for cell in node.__closure__ or ()]
    slots = [getattr(node, name, "unset") for name in ("a", "b")] if type(node).__name__ == "Slotted" else []
    return [*slots, getattr(node, "__dict__", 0)]


def order(item: Any) -> str:
    """Return a key that is the same for an object and for what it came back as."""
    return f"{type(item).__name__} {sorted(map(repr, (v for v in vars(item).values() if is_atom(v))))}"


def is_atom(value: Any) -> bool:
    return type(value) in (int, float, str, bool, type(None))


def moved(kernel: Kernel, store: Store) -> Kernel:
    """Save a namespace, and restore it into another one."""
    fresh = Kernel()
    report = fresh.restore(kernel.save(store))
    assert not report.findings
    return fresh


THOROUGH = settings(QUICK, max_examples=150)


@QUICK
@given(GRAPHS)
def test_random_graphs_come_back_isomorphic(graph: tuple[list[str], list[tuple[int, int, Any]]]) -> None:
    kernel = Kernel()
    build(kernel, graph)
    fresh = moved(kernel, memory_store())
    same = Isomorphism()
    names = [name for name in kernel.namespace if name.startswith("n") and name[1:].isdigit()]
    for name in names:
        same.check(kernel[name], fresh[name])
    assert [name for name in fresh.namespace if name in names] == names


@pytest.mark.slow
@pytest.mark.beside
@THOROUGH
@given(GRAPHS)
def test_many_random_graphs_come_back_isomorphic(graph: tuple[list[str], list[tuple[int, int, Any]]]) -> None:
    test_random_graphs_come_back_isomorphic.hypothesis.inner_test(graph)  # type: ignore[attr-defined]


EDITS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.integers(0, 4), ATOMS),
        st.tuples(st.just("alias"), st.integers(0, 4), st.integers(0, 4)),
        st.tuples(st.just("append"), st.integers(0, 4), ATOMS),
        st.tuples(st.just("list"), st.integers(0, 4), st.integers(0, 4)),
        st.tuples(st.just("delete"), st.integers(0, 4), st.none()),
    ),
    min_size=1,
    max_size=8,
)


def edited(namespace: dict[str, Any], edit: tuple[str, int, Any]) -> None:
    kind, number, value = edit
    name = f"v{number}"
    if kind == "set":
        namespace[name] = value
    elif kind == "alias" and f"v{value}" in namespace:
        namespace[name] = namespace[f"v{value}"]
    elif kind == "append" and isinstance(namespace.get(name), list):
        namespace[name].append(value)
    elif kind == "list":
        namespace[name] = [namespace.get(f"v{value}")]
    elif kind == "delete":
        namespace.pop(name, None)


@QUICK
@given(EDITS)
def test_every_snapshot_of_a_session_restores_its_own_moment(edits: list[tuple[str, int, Any]]) -> None:
    kernel, store = Kernel(), memory_store()
    taken = []
    for number, edit in enumerate(edits):
        edited(kernel.namespace, edit)
        taken.append((kernel.save(store, f"s{number}"), moved(kernel, store)))
    live = Kernel()
    for snapshot, then in reversed(taken):
        live.restore(snapshot)
        names = [name for name in then.namespace if name.startswith("v")]
        assert {name for name in live.namespace if name.startswith("v")} == set(names)
        same = Isomorphism()
        for name in names:
            same.check(then[name], live[name])
        assert not state.diff(snapshot, then.save(store, "again")).changed
