"""What IPython was told by ``%matplotlib`` holds again after a restore, and only where it was told."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jupyter_gpupool.protocol import names
from tests.support.notebook import Notebook, notebook

pytestmark = [pytest.mark.slow, pytest.mark.beside]

DRAWN = "import matplotlib.pyplot as plt\nfig, ax = plt.subplots()\nline = ax.plot([1, 2])\nplt.close(fig)"
AFTER_CELLS = "[it.__name__ for it in get_ipython().events.callbacks['post_execute']]"


class World:
    """Kernels that share a store of snapshots."""

    def __init__(self, root: Path) -> None:
        self._env = dict(os.environ) | {
            names.ENV_RUNTIME_DIR: str(root / "run"),
            names.ENV_DATA_DIR: str(root / "data"),
            "IPYTHONDIR": str(root / "ipython"),
        }

    @contextmanager
    def saved(self, *cells: str) -> Iterator[Notebook]:
        """Run cells in one kernel, save them, and give another kernel with nothing in it."""
        with notebook(self._env) as book:
            for cell in cells:
                book.ok(cell)
            book.ok("%gpupool checkpoint drawn")
        with notebook(self._env) as book:
            yield book


@pytest.fixture
def world(tmp_path: Path) -> World:
    pytest.importorskip("matplotlib")
    return World(tmp_path)


def test_a_figure_is_a_picture_again_in_the_formats_that_were_chosen(world: World) -> None:
    chosen = "%config InlineBackend.figure_formats = ['svg']\n%config InlineBackend.close_figures = False"
    with world.saved(f"%matplotlib inline\n{chosen}", DRAWN) as book:
        book.ok("%gpupool restore drawn")
        assert set(book.ok("fig").displays[-1]) == {"text/plain", "image/svg+xml"}
        assert (
            book.ok("get_ipython().run_line_magic('config', 'InlineBackend.close_figures')").result == "False"
        )
        assert book.ok("plt.get_backend()").result == "'inline'"


def test_what_nobody_told_stays_as_it_is_and_nothing_is_imported_for_it(world: World) -> None:
    with world.saved("x = 1") as book:
        book.ok("%gpupool restore drawn")
        assert book.ok("import sys; 'matplotlib' in sys.modules").result == "False"
        book.ok(f"%matplotlib inline\n{DRAWN}")
        book.ok("%gpupool restore drawn")
        assert "flush_figures" in book.ok(AFTER_CELLS).result


def test_figures_that_were_not_shown_with_their_cell_are_not(world: World) -> None:
    with world.saved(f"%matplotlib agg\n{DRAWN}") as book:
        book.ok("%gpupool restore drawn")
        assert book.ok("plt.get_backend()").result == "'agg'"
        assert book.ok("shown_later = plt.figure()").displays == []


def test_what_was_switched_on_can_be_taken_back(world: World) -> None:
    with world.saved("x = 1") as book:
        book.ok(f"%matplotlib agg\n{DRAWN}\nmine = plt.figure(7)")
        book.ok(
            "from jupyter_gpupool.state.process.drawing import SECTION\n"
            "told = {'backend': 'inline', 'settings': {}, 'formats': ['png'], 'options': {}}\n"
            "undo = SECTION.put(told, print)\n"
            f"on = plt.get_backend(), 'flush_figures' in {AFTER_CELLS}\n"
            "undo()"
        )
        assert book.ok("on").result == "('inline', True)"
        assert (
            book.ok("plt.get_backend(), plt.get_fignums(), plt.gcf() is mine").result == "('agg', [7], True)"
        )
        assert "flush_figures" not in book.ok(AFTER_CELLS).result
        assert set(book.ok("mine").displays[-1]) == {"text/plain"}
