"""A cell under a lease shows, keeps and raises what it would without."""

from __future__ import annotations

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from jupyter_gpupool.kernel.cell import run_cell


@pytest.fixture
def shell():
    config = Config()
    config.HistoryManager.enabled = False  # no database that outlives the test
    shell = InteractiveShell(config=config, colors="nocolor")
    yield shell
    shell.restore_sys_module_state()


def run(shell: InteractiveShell, body: str) -> BaseException | None:
    """Run a body as the magic does: from within a cell; return its error."""
    shell.user_ns.update(run_cell=run_cell, shell=shell, body=body)
    return shell.run_cell("run_cell(shell, body)", store_history=True).error_in_exec


def test_the_value_of_the_last_expression_is_displayed(shell, capsys):
    run(shell, "a = 20\n1\na + 22\n")
    assert capsys.readouterr().out.strip().endswith("42")
    assert shell.user_ns["a"] == 20
    assert shell.user_ns["_"] == 42


def test_a_semicolon_at_the_end_displays_nothing(shell, capsys):
    run(shell, "20 + 22;\n")
    assert capsys.readouterr().out == ""


def test_every_expression_is_displayed_where_the_user_asked_for_that(shell, capsys):
    shell.ast_node_interactivity = "all"
    run(shell, "1\n2\n")
    assert [line.rpartition(" ")[2] for line in capsys.readouterr().out.split("\n") if line] == ["1", "2"]


def test_magics_work_in_it(shell):
    run(shell, "%set_env GPUPOOL_CELL=yes\nimport os\nseen = os.environ.pop('GPUPOOL_CELL')\n")
    assert shell.user_ns["seen"] == "yes"


def test_an_error_reaches_the_caller_with_the_cells_own_line(shell, capsys):
    error = run(shell, "x = 1\nx / 0\n")
    assert isinstance(error, ZeroDivisionError)
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    assert trace is not None
    assert trace.tb_lineno == 3  # the magic's own line is the first
    assert capsys.readouterr().out.count("ZeroDivisionError") == 2  # shown once: at its head and at its end


def test_a_mistake_in_the_code_reaches_the_caller(shell):
    assert isinstance(run(shell, "def\n"), SyntaxError)
