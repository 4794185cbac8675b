"""Weak references: they point to the restored object, and never keep it.

Rule of this module: nothing is kept alive by what is made here; what nobody else holds is dead after a
restore, and that is said.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from jupyter_gpupool.state.graph import loading
from jupyter_gpupool.state.graph.capturing import Capturing
from jupyter_gpupool.state.model import FindingKind
from jupyter_gpupool.state.recipes.plain import afterwards, new, said, set_attributes
from jupyter_gpupool.state.recipes.registry import Recipe, Reduced

_DEAD = "what it pointed to was held by nothing that is saved, so it is dead"
_INSIDE = frozenset({"data", "_remove", "_pending_removals", "_iterating", "_dirty_len", "_commit_removals"})


class _Mortal:
    """Something to point to that is gone at once."""

    def __call__(self) -> None:
        """Be callable, as what a proxy of functions points to."""


def _reference(value: Any, capturing: Capturing) -> Reduced:
    target = value()
    kind = type(value)
    if target is None:
        return make_dead, (kind,)
    return make_reference, (kind, target, value.__callback__)


def make_reference(kind: Any, target: Any, callback: Callable[[Any], Any] | None) -> Any:
    """Point weakly to something."""
    made = kind(target, callback) if callback is not None else kind(target)
    _watch(made, made, type(target))
    return made


def _watch(value: Any, reference: Any, kind: type) -> None:
    loads = loading.current()

    def look() -> None:
        if reference() is None:
            loads.note(value, FindingKind.CHANGED, f"{_DEAD} (of type {said(kind)})")

    afterwards(look)


def make_dead(kind: Any) -> Any:
    """Make a reference to something that is gone."""
    target = _Mortal()
    return kind(target.__call__ if kind is weakref.WeakMethod else target)


def _proxy(value: Any, capturing: Capturing) -> Reduced:
    callbacks = gc.get_referents(value)
    try:
        target = value.__reduce_ex__.__self__
    except ReferenceError:
        return make_dead_proxy, (type(value) is weakref.CallableProxyType,)
    if not any(reference is value for reference in weakref.getweakrefs(target)):
        return capturing.lose(value, "what it points to hides itself", "Keep a weakref.ref() instead.")
    return make_proxy, (target, callbacks[0] if callbacks else None)


def make_proxy(target: Any, callback: Callable[[Any], Any] | None) -> Any:
    """Make a proxy of something."""
    made = weakref.proxy(target, callback)
    _watch(made, weakref.ref(target), type(target))
    return made


class _Uncallable:
    pass


def make_dead_proxy(is_callable: bool) -> Any:
    """Make a proxy of something that is gone."""
    return weakref.proxy(_Mortal() if is_callable else _Uncallable())


def _method(value: Any, capturing: Capturing) -> Reduced:
    target = value()
    if target is None:
        return make_dead, (type(value),)
    return make_method, (type(value), target.__self__, target.__func__, _given_callback(value))


def _given_callback(value: Any) -> Any:
    own = value.__callback__
    cells = zip(own.__code__.co_freevars, own.__closure__ or (), strict=True)
    return next((cell.cell_contents for name, cell in cells if name == "callback"), None)


def make_method(kind: Any, target: Any, function: Any, callback: Callable[[Any], Any] | None) -> Any:
    """Point weakly to a method of something."""
    return kind(function.__get__(target), callback)


def _mapping(value: Any, capturing: Capturing) -> Reduced:
    items = list(value.items())
    base = (
        weakref.WeakKeyDictionary
        if isinstance(value, weakref.WeakKeyDictionary)
        else weakref.WeakValueDictionary
    )
    return make_weak, (type(value), base), (items, _added(value)), None, None, fill_mapping


def _set(value: Any, capturing: Capturing) -> Reduced:
    return make_weak, (type(value), weakref.WeakSet), (list(value), _added(value)), None, None, fill_set


def _added(value: Any) -> dict[str, Any]:
    return {name: found for name, found in vars(value).items() if name not in _INSIDE}


def make_weak(kind: type, base: Any) -> Any:
    """Make an empty weak collection, without asking the code of its class."""
    value = new(kind)
    base.__init__(value)
    return value


def fill_mapping(value: Any, state: tuple[list[tuple[Any, Any]], dict[str, Any]]) -> None:
    """Put its items into a weak dictionary."""
    items, added = state
    base = (
        weakref.WeakKeyDictionary
        if isinstance(value, weakref.WeakKeyDictionary)
        else weakref.WeakValueDictionary
    )
    _fill(items, lambda item: base.__setitem__(value, *item))
    set_attributes(value, added)
    weak = 0 if base is weakref.WeakKeyDictionary else 1
    _watch_all(value, [item[weak] for item in items])


def fill_set(value: Any, state: tuple[list[Any], dict[str, Any]]) -> None:
    """Put its elements into a weak set."""
    elements, added = state
    _fill(elements, lambda element: weakref.WeakSet.add(value, element))
    set_attributes(value, added)
    _watch_all(value, elements)


def _fill(items: list[Any], put: Callable[[Any], None]) -> None:
    for item in items:
        try:
            put(item)
        except (AttributeError, TypeError):  # its hash needs what it does not have yet
            loading.current().later(partial(put, item))


def _watch_all(value: Any, targets: Iterable[Any]) -> None:
    references = [weakref.ref(target) for target in targets]
    loads = loading.current()

    def look() -> None:
        dead = sum(reference() is None for reference in references)
        if dead:
            loads.note(
                value, FindingKind.CHANGED, f"{dead} of its entries were held by nothing that is saved"
            )

    afterwards(look)


def _finalizer(value: Any, capturing: Capturing) -> Reduced:
    held = value.peek()
    if held is None:
        return new, (type(value),)
    return new, (type(value),), (*held, value.atexit), None, None, arm


def arm(value: Any, state: tuple[Any, Any, tuple[Any, ...], dict[str, Any], bool]) -> None:
    """Let a finalizer wait for the end of its object, once the restore cannot fail any more."""
    target, function, args, kwargs, atexit = state

    def work() -> None:
        nonlocal target
        weakref.finalize.__init__(value, target, function, *args, **kwargs)
        value.atexit = atexit
        target = None

    afterwards(work)


RECIPES = (
    Recipe(module="weakref", qualname="ReferenceType", reduce=_reference, subclasses=True),
    Recipe(module="weakref", qualname="ProxyType", reduce=_proxy),
    Recipe(module="weakref", qualname="CallableProxyType", reduce=_proxy),
    Recipe(module="weakref", qualname="WeakMethod", reduce=_method, subclasses=True),
    Recipe(module="weakref", qualname="WeakValueDictionary", reduce=_mapping, subclasses=True),
    Recipe(module="weakref", qualname="WeakKeyDictionary", reduce=_mapping, subclasses=True),
    Recipe(module="_weakrefset", qualname="WeakSet", reduce=_set, subclasses=True, regardless=True),
    Recipe(module="weakref", qualname="finalize", reduce=_finalizer, subclasses=True),
)
