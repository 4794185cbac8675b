"""Modules: by name where they can be imported, by value where they were made by hand.

Rule of this module: the notebook's own module is the namespace, whatever it is called.
"""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType
from typing import Any

from jupyter_gpupool.state.graph.capturing import Capturing
from jupyter_gpupool.state.graph.loading import current
from jupyter_gpupool.state.recipes.registry import Recipe, Reduced

#: Of a module made by hand, what belongs to this process.
_OF_PROCESS = frozenset({"__builtins__", "__loader__", "__spec__", "__cached__"})


def is_importable(name: object) -> bool:
    """Tell whether a fresh process could import the module that has this name here."""
    module = sys.modules.get(name) if isinstance(name, str) else None
    if module is None or name == "__main__":
        return False
    if getattr(module, "__spec__", None) is not None:
        return True
    parent, _, last = str(name).rpartition(".")
    if parent and is_importable(parent):
        return vars(sys.modules[parent]).get(last) is module
    return getattr(module, "__file__", None) is not None


def _module(value: ModuleType, capturing: Capturing) -> Reduced:
    if value.__dict__ is capturing.namespace:
        return this_module, ()
    if value is sys.modules.get("__main__"):
        return import_module, ("__main__",)
    name = value.__name__
    if sys.modules.get(name) is value and is_importable(name):
        return import_module, (name, getattr(value, "__file__", None))
    known_as = next((key for key, module in sys.modules.copy().items() if module is value), None)
    if known_as is not None and known_as != name and is_importable(known_as):
        return import_module, (known_as, getattr(value, "__file__", None))  # os.path
    spec = getattr(value, "__spec__", None)
    if spec is not None and getattr(spec, "origin", None) and known_as is None:
        return load_module, (name, spec.origin)
    kept = {key: item for key, item in vars(value).items() if key not in _OF_PROCESS}
    return new_module, (type(value), name, known_as), kept, None, None, fill_module


def this_module() -> ModuleType:
    """Return the module of the live namespace."""
    namespace = current().namespace
    for module in sys.modules.copy().values():
        if getattr(module, "__dict__", None) is namespace:
            return module
    return sys.modules["__main__"]


def import_module(name: str, path: str | None = None) -> ModuleType:
    """Import a module by name, or from the file that it came from."""
    try:
        __import__(name)
    except ModuleNotFoundError as error:
        if path is None or "." in name or error.name != name:
            raise
        return load_module(name, path, keep=True)
    return sys.modules[name]


def load_module(name: str, path: str, *, keep: bool = False) -> ModuleType:
    """Load a module from its file, beside those that are imported by name, or as one of them."""
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    module = importlib.util.module_from_spec(spec)
    if keep:
        sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        if keep:
            del sys.modules[name]
        raise
    return module


def new_module(kind: type[ModuleType], name: str, known_as: str | None) -> ModuleType:
    """Make an empty module, and let it be imported if it could be."""
    module = kind(name)
    if known_as is not None and known_as not in sys.modules:
        sys.modules[known_as] = module
    return module


def fill_module(module: ModuleType, attributes: dict[str, Any]) -> None:
    """Give a module what it holds."""
    vars(module).update(attributes)


RECIPES = (Recipe(module="types", qualname="ModuleType", reduce=_module, subclasses=True, regardless=True),)
