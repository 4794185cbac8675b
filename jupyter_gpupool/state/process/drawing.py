"""How figures are shown: what IPython was told by ``%matplotlib``.

Rules of this module: it is switched on again only where it was on, and matplotlib is imported for nothing
else; backends that open windows belong to the machine, and so does one that nobody chose.
"""

from __future__ import annotations

import importlib
import os
import sys
from functools import partial
from typing import Any

from jupyter_gpupool.state.graph import known, lost
from jupyter_gpupool.state.process.section import Changes, Section, Tell, Undo
from jupyter_gpupool.state.process.settings import Settings

_NAME = "drawing"
_INLINE = "inline"
#: Backends by the names that matplotlib has for them -> what ``%matplotlib`` calls them.
_LONG = {
    "module://matplotlib_inline.backend_inline": _INLINE,
    "module://ipympl.backend_nbagg": "widget",
    "ipympl": "widget",
    "notebook": "nbagg",
}
#: Those that open no window.
_WITHOUT_WINDOWS = frozenset({_INLINE, "widget", "nbagg", "agg", "cairo", "pdf", "pgf", "ps", "svg"})
#: What can be set of the inline backend.
_TRAITS = ("close_figures", "figure_formats", "print_figure_kwargs", "rc")
#: Kind of a picture -> how IPython calls the format.
_FORMATS = {"image/png": "png", "image/jpeg": "jpeg", "image/svg+xml": "svg", "application/pdf": "pdf"}


def _chosen() -> str:
    """Return the backend that somebody chose here, as ``%matplotlib`` calls it; empty where nobody has."""
    if getattr(sys.modules.get("matplotlib.pyplot"), "_backend_mod", None) is None:
        return ""
    found = _known_as(dict.get(sys.modules["matplotlib"].rcParams, "backend"))
    if found not in _WITHOUT_WINDOWS:
        return ""
    if found == _INLINE:
        return found if _is_flushed() else ""
    usual = os.environ.get("MPLBACKEND", "")
    return found if usual and _known_as(usual) != found else ""


def _known_as(backend: object) -> str:
    name = backend.lower() if isinstance(backend, str) else ""  # until it is needed it is a mark
    return _LONG.get(name, name)


def _flush() -> Any:
    """Return what the inline backend does after each cell; None where it is not imported."""
    return getattr(sys.modules.get("matplotlib_inline.backend_inline"), "flush_figures", None)


def _is_flushed() -> bool:
    shell, flush = known.shell(), _flush()
    return shell is not None and flush is not None and flush in shell.events.callbacks["post_execute"]


def _take(tell: Tell) -> dict[str, Any]:
    backend = _chosen()
    if backend != _INLINE:
        return {"backend": backend}
    return {"backend": backend, "settings": _settings(), "formats": _formats(), "options": _options()}


def _inline() -> Any:
    config = importlib.import_module("matplotlib_inline.config")
    return config.InlineBackend.instance(parent=known.shell())


def _settings() -> dict[str, Any]:
    inline = _inline()
    return {name: getattr(inline, name) for name in _TRAITS if inline.has_trait(name)}


def _printers() -> dict[str, Any]:
    """Return what makes pictures of figures, by their kind."""
    figure: Any = sys.modules["matplotlib.figure"].Figure
    formatters = known.shell().display_formatter.formatters
    found = {kind: formatters[kind].type_printers.get(figure) for kind in _FORMATS if kind in formatters}
    return {kind: printer for kind, printer in found.items() if printer is not None}


def _formats() -> list[str]:
    return [
        "retina" if "retina" in getattr(getattr(it, "func", None), "__name__", "") else _FORMATS[kind]
        for kind, it in _printers().items()
    ]


def _options() -> dict[str, Any]:
    keywords = [getattr(it, "keywords", {}) for it in _printers().values()]
    return {name: it for name, it in (keywords or [{}])[0].items() if name not in ("fmt", "base64")}


def _put(value: dict[str, Any], tell: Tell) -> Undo:
    changes, backend = Changes(_NAME, tell), value["backend"]
    if not backend or (backend == _INLINE and known.shell() is None):
        return changes.undo  # nobody chose one, or there is no place to show a picture
    if _chosen() != backend:
        before = _Before()
        if not changes.make(f"%matplotlib {backend}", lambda: before.leave(backend), before.back):
            return changes.undo
    if backend == _INLINE:
        _put_settings(value, changes)
    return changes.undo


class _Before:
    """How figures were shown before that was changed."""

    def __init__(self) -> None:
        self._parts: list[tuple[dict[Any, Any], dict[Any, Any]]] = []
        self._managers: dict[Any, Any] = {}
        self._module: Any = None
        self._flushed = _is_flushed()

    def leave(self, backend: str) -> None:
        """Show them as a backend does, and note what that changes; where it fails, it has changed nothing."""
        pyplot: Any = importlib.import_module("matplotlib.pyplot")
        shell = known.shell()
        self._look(pyplot, shell)
        try:
            if shell is None:
                pyplot.switch_backend(backend)
            else:
                shell.enable_matplotlib(backend)
        except BaseException:
            self.back()
            raise

    def _look(self, pyplot: Any, shell: Any) -> None:
        matplotlib = sys.modules["matplotlib"]
        tables: list[Any] = [matplotlib.rcParams, matplotlib.rcParamsDefault]
        self._managers = dict(sys.modules["matplotlib._pylab_helpers"].Gcf.figs)
        if shell is not None:
            tables += [it.type_printers for it in shell.display_formatter.formatters.values()]
        self._module = pyplot._backend_mod
        self._parts = [(table, dict(dict.items(table))) for table in tables]

    def back(self) -> None:
        """Show them as before."""
        for table, content in self._parts:
            dict.clear(table)
            dict.update(table, content)  # as they were, with nothing checked
        figures = sys.modules["matplotlib._pylab_helpers"].Gcf.figs
        figures.clear()
        figures.update(self._managers)
        sys.modules["matplotlib.pyplot"]._backend_mod = self._module  # type: ignore[attr-defined]
        if _is_flushed() and not self._flushed:
            known.shell().events.unregister("post_execute", _flush())
        support = getattr(
            sys.modules.get("matplotlib_inline.backend_inline"), "configure_inline_support", None
        )
        if support is not None:
            support.current_backend = "unset"  # so that the formats are set with the next %matplotlib


def _put_settings(value: dict[str, Any], changes: Changes) -> None:
    write = partial(setattr, _inline())
    Settings(name="InlineBackend", read=_settings, defaults=dict, write=write).put(value["settings"], changes)
    formats, options = _formats(), _options()
    wanted_options = {name: it for name, it in value["options"].items() if not lost.is_lost(it)}
    if set(formats) != set(value["formats"]) or options != wanted_options:
        changes.make(
            "the formats of figures",
            _selecting(value["formats"], wanted_options),
            _selecting(formats, options),
        )


def _selecting(formats: list[str], options: dict[str, Any]) -> Undo:
    def work() -> None:
        select = importlib.import_module("IPython.core.pylabtools").select_figure_formats
        select(known.shell(), set(formats), **options)

    return work


SECTION = Section(name=_NAME, take=_take, put=_put)
