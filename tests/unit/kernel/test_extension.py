"""Loading the extension is light, and unloading it leaves nothing."""

from __future__ import annotations

import subprocess
import sys

LOADED = """
import sys, time
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.completer import IPCompleter
shell = InteractiveShell.instance()
import jupyter_gpupool
before = set(sys.modules)
jupyter_gpupool.load_ipython_extension(shell)
brought = {name for name in set(sys.modules) - before if not name.startswith("jupyter_gpupool")}
"""


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", LOADED + code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_loading_imports_nothing_but_itself():
    assert run("print(sorted(brought))").strip() == "[]"


def test_loading_is_quick():
    out = run(
        "import timeit; jupyter_gpupool.unload_ipython_extension(shell);"
        "print(min(timeit.repeat(lambda: jupyter_gpupool.load_ipython_extension(shell), number=1, repeat=5)))"
    )
    assert float(out) < 0.015


def test_loading_twice_registers_the_completion_once():
    out = run(
        "jupyter_gpupool.load_ipython_extension(shell);"
        "print(sum(m.__name__ == 'gpupool_matcher' for m in shell.Completer.custom_matchers))"
    )
    assert out.strip() == "1"


def test_unloading_leaves_nothing():
    out = run(
        "jupyter_gpupool.unload_ipython_extension(shell);"
        "print(shell.find_line_magic('gpupool'), shell.find_cell_magic('gpupool'),"
        "[m for m in shell.Completer.custom_matchers if m.__name__ == 'gpupool_matcher'])"
    )
    assert out.strip() == "None None []"


def test_a_question_mark_shows_the_help():
    out = run("shell.run_cell('%gpupool?'); shell.run_cell('%%gpupool?')")
    assert "request   ask for a share of a device" in out
    assert "Hold a lease while this cell runs" in out


def test_a_refused_line_shows_one_sentence_and_fails_the_cell():
    out = run(
        "result = shell.run_cell('%gpupool request nonsense'); print(type(result.error_in_exec).__name__)"
    )
    assert "InvalidValue: “nonsense” is not a share." in out
    assert "Traceback" not in out
    assert out.strip().endswith("InvalidValue")


def test_a_mistyped_line_shows_one_sentence_and_fails_the_cell():
    out = run("result = shell.run_cell('%gpupool relase'); print(type(result.error_in_exec).__name__)")
    assert "Traceback" not in out
    assert out.strip().endswith("UsageError")


def test_help_fails_nothing():
    out = run("print(shell.run_cell('%gpupool request --help').success)")
    assert "--no-wait" in out
    assert out.strip().endswith("True")
