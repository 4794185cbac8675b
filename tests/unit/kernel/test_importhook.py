"""Being told of an import leaves the import as it is."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from jupyter_gpupool.kernel.importhook import ImportHook


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """Give a folder of modules that a test writes, and forget them afterwards."""
    monkeypatch.syspath_prepend(str(tmp_path))
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        if name.startswith("watched"):
            del sys.modules[name]


@pytest.fixture
def hook():
    """Watch two names; the hook is gone afterwards whatever happens."""
    told: list[tuple[str, ModuleType]] = []
    hook = ImportHook(["watched_one", "watched_two"], lambda name, module: told.append((name, module)))
    hook.told = told
    hook.install()
    yield hook
    hook.remove()
    assert hook not in sys.meta_path


def test_a_watched_import_is_told_once_it_is_complete_and_sees_its_own_loader(folder, hook):
    (folder / "watched_one.py").write_text("import watched_two\nLOADER = __spec__.loader\nDONE = True\n")
    (folder / "watched_two.py").write_text("")
    import watched_one

    assert [name for name, _ in hook.told] == ["watched_two", "watched_one"]
    assert hook.told[1][1].DONE is True
    assert type(watched_one.LOADER).__name__ == "SourceFileLoader"
    assert watched_one.__spec__.loader is watched_one.LOADER is watched_one.__loader__
    assert "DONE = True" in importlib.util.find_spec("watched_one").loader.get_source("watched_one")


def test_other_imports_are_none_of_its_business(folder, hook):
    (folder / "watched_not.py").write_text("")
    importlib.import_module("watched_not")
    assert hook.told == []


def test_an_import_that_fails_fails_as_it_would_and_can_be_tried_again(folder, hook):
    (folder / "watched_one.py").write_text("raise ZeroDivisionError('mine')")
    with pytest.raises(ZeroDivisionError, match="mine"):
        importlib.import_module("watched_one")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("watched_two")
    assert hook.told == []
    (folder / "watched_one.py").write_text("VALUE = 1  # another size than before")
    importlib.invalidate_caches()
    assert importlib.import_module("watched_one").VALUE == 1
    assert len(hook.told) == 1


def test_a_package_keeps_its_submodules_and_its_files(folder, hook):
    (folder / "watched_one").mkdir()
    (folder / "watched_one" / "__init__.py").write_text("")
    (folder / "watched_one" / "part.py").write_text("VALUE = 2")
    (folder / "watched_one" / "data.txt").write_text("text")
    from importlib import resources

    assert importlib.import_module("watched_one.part").VALUE == 2
    assert resources.files("watched_one").joinpath("data.txt").read_text() == "text"
    assert [name for name, _ in hook.told] == ["watched_one"]


def test_installing_and_removing_twice_is_once(hook):
    hook.install()
    assert sys.meta_path.count(hook) == 1
    hook.remove()
    hook.remove()
    assert hook not in sys.meta_path
