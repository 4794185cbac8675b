"""Being told when a module has been imported, without importing it.

Rules of this module: an import works just as it would without us, with its own loader and its own errors; the
hook stands in ``sys.meta_path`` only while somebody wants to know.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import threading
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

#: Called with a module's name and the module, right after it was imported; must not raise.
Told = Callable[[str, ModuleType], None]


class _TellingLoader(importlib.abc.Loader):
    """Lends itself to one import: the module's own loader does the work."""

    def __init__(self, loader: Any, told: Told) -> None:
        self._loader = loader
        self._told = told

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The module sees its own loader from its first line on.
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._told(module.__name__, module)


class ImportHook(importlib.abc.MetaPathFinder):
    """Tells when one of some modules was imported.

    Parameters
    ----------
    names : iterable of str
        Top-level names of modules.
    told : callable
        Who is told.
    """

    def __init__(self, names: Sequence[str], told: Told) -> None:
        self._names = frozenset(names)
        self._told = told
        self._searching = threading.local()

    def install(self) -> None:
        """Stand in front of the other finders; doing it twice does nothing."""
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def remove(self) -> None:
        """Stand there no more; doing it twice does nothing."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Let the other finders find it, and lend our loader to what they found."""
        if fullname not in self._names or getattr(self._searching, "now", False):
            return None
        self._searching.now = True
        try:
            spec = self._found_by_others(fullname, path, target)
        finally:
            self._searching.now = False
        if spec is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _TellingLoader(spec.loader, self._told)
        return spec

    def _found_by_others(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> importlib.machinery.ModuleSpec | None:
        for finder in tuple(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec: importlib.machinery.ModuleSpec | None = find(fullname, path, target)
            if spec is not None:
                return spec
        return None
