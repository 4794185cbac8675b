"""What was typed and what came out: In, Out, and the names that stand for the latest of them.

Rule of this module: lists and dicts that the shell holds are changed, never replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from jupyter_gpupool.state.process.section import Changes, Section, Tell, Undo

_UNDERS = ("_", "__", "___")
_INPUTS = ("_i", "_ii", "_iii")


@dataclass(frozen=True, kw_only=True)
class History:
    """The shell's memory, as plain values.

    Attributes
    ----------
    inputs : dict of str to list
        Lists of what was typed, and others that grow with cells: "In", "raw", "_dh".
    outputs : dict
        ``Out``.
    names : dict
        The namespace: it has ``_``, ``__``, ``_i``, ``_1``, ….
    hidden : dict
        What IPython put into the namespace itself: it goes on with ``_`` only while that is still there.
    latest : object
        What else holds ``_``, ``__`` and ``___`` as attributes: the shell's display hook.
    count : callable
        Returns the number of the cell that runs.
    set_count : callable
        Sets it.
    """

    inputs: dict[str, list[Any]]
    outputs: dict[int, Any]
    names: dict[str, Any]
    count: Callable[[], int]
    set_count: Callable[[int], object]
    hidden: dict[str, Any] = field(default_factory=dict)
    latest: Any = field(default=None)


def _hidden(history: History) -> list[str]:
    """Return the names of the shell that stand for something of its memory."""
    numbered = [f"_{number}" for number in history.outputs]
    typed = [f"_i{number}" for number in range(1, len(history.inputs.get("In", [])) + 1)]
    return [name for name in (*_UNDERS, *_INPUTS, *numbered, *typed) if name in history.names]


def _state(history: History) -> dict[str, Any]:
    names = {name: history.names[name] for name in _hidden(history)}
    return {
        "inputs": {name: list(lines) for name, lines in history.inputs.items()},
        "outputs": dict(history.outputs),
        "names": names,
        "shells": [name for name, value in names.items() if history.hidden.get(name) is value],
        "latest": {name: getattr(history.latest, name) for name in _UNDERS if hasattr(history.latest, name)},
        "count": history.count(),
    }


def _assign(history: History, state: dict[str, Any]) -> None:
    for name in _hidden(history):
        del history.names[name]
        history.hidden.pop(name, None)
    for name, lines in state["inputs"].items():
        if name in history.inputs:
            history.inputs[name][:] = lines
    history.outputs.clear()
    history.outputs.update(state["outputs"])
    names = state["names"]
    history.names.update(names)
    shells = state.get("shells", names)  # snapshots from before that was saved do not say
    history.hidden.update({name: names[name] for name in shells if name in names})
    if history.latest is not None:
        for name, value in state["latest"].items():
            setattr(history.latest, name, value)
    history.set_count(state["count"])


def section(history: History) -> Section:
    """Return the section of a shell's memory."""

    def take(tell: Tell) -> dict[str, Any]:
        return _state(history)

    def put(value: dict[str, Any], tell: Tell) -> Undo:
        changes, before = Changes("history", tell), _state(history)
        changes.make("In, Out", lambda: _assign(history, value), lambda: _assign(history, before))
        return changes.undo

    return Section(name="history", take=take, put=put)
