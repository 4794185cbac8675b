"""Saving and restoring in real kernels without a pool: by hand, by itself, stopped, and after a death."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_gpupool.kernel.snapshots.leftovers import Leftover, read
from jupyter_gpupool.protocol import names
from tests.support.notebook import Cell, Notebook, notebook
from tests.support.pool_process import wait_for


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the environment of one world on disk, with a notebook and without a pool."""
    root = tmp_path_factory.mktemp("world")
    return dict(os.environ) | {
        names.ENV_RUNTIME_DIR: str(root / "run"),
        names.ENV_DATA_DIR: str(root / "data"),
        "IPYTHONDIR": str(root / "ipython"),
        "JPY_SESSION_NAME": str(root / "training.ipynb"),
    }


@pytest.fixture(scope="module")
def kernel(world: dict[str, str]) -> Iterator[Notebook]:
    with notebook(world) as opened:
        yield opened


def left(world: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Leftover | None:
    """Return what the world's kernel left behind."""
    monkeypatch.setenv(names.ENV_DATA_DIR, world[names.ENV_DATA_DIR])
    return read(world["JPY_SESSION_NAME"])


def test_a_state_is_saved_changed_and_brought_back(kernel: Notebook) -> None:
    kernel.ok("import threading\ndata = [1, 2]\nalias = data\ndef size():\n    return len(data)")
    saved = kernel.ok("%gpupool checkpoint first -m 'two items'")
    assert "Saved “first”" in saved.result
    assert "text/html" in saved.displays[-1]
    kernel.ok("data.append(3); later = 1")
    restored = kernel.ok("%gpupool restore first")
    assert "Restored “first”" in restored.result
    assert kernel.ok("(data, alias is data, size(), 'later' in dir())").result == "([1, 2], True, 2, False)"
    assert "two items" in kernel.ok("%gpupool snapshots").result
    assert "builtins" not in kernel.ok("%gpupool snapshots inspect first").result.splitlines()[0]
    assert "display(" not in kernel.ok("In[-1]").result


def test_the_latest_output_goes_on_with_the_cells_after_a_restore(kernel: Notebook) -> None:
    kernel.ok("['saved']")
    kernel.ok("%gpupool checkpoint latest")
    kernel.ok("['since']")
    kernel.ok("%gpupool restore latest")
    assert kernel.ok("_").result == "['saved']"
    kernel.ok("['next']")
    assert kernel.ok("_, __").result == "(['next'], ['saved'])"


def test_what_cannot_be_saved_is_said_with_the_reason_and_costs_itself_only(kernel: Notebook) -> None:
    kernel.ok("running = (n for n in 'ab'); fine = 5")
    saved = kernel.ok("import jupyter_gpupool as gpupool\nsaved = gpupool.checkpoint('second')\nsaved")
    assert "Not saved: running (generator)" in saved.result
    assert "<details>" in saved.displays[-1]["text/html"]
    assert kernel.ok("[it.variable for it in saved.findings]").result == "['running']"
    kernel.ok("del running, fine, saved")
    kernel.ok("%gpupool restore second --only fine --as old_")
    assert kernel.ok("old_fine").result == "5"


def test_what_cannot_be_saved_is_made_again_by_running_its_cell_when_that_is_asked_for(
    kernel: Notebook,
) -> None:
    kernel.ok("made = 0")
    kernel.ok("made += 1; letters = (n for n in 'ab')")
    kernel.ok("%gpupool checkpoint before\ndel letters")
    again = kernel.ok("%gpupool rerun letters")
    assert "which made “letters”" in again.stdout
    assert kernel.ok("(made, next(letters))").result == "(2, 'a')"
    assert kernel.run("%gpupool rerun nobody_made_it").ename == "InvalidValue"
    kernel.ok("%gpupool checkpoint after")
    changed = kernel.ok("%gpupool diff before after").result
    assert "made" in changed
    assert "alias" not in changed


def test_what_was_typed_and_what_came_out_is_kept(kernel: Notebook) -> None:
    number = int(kernel.ok("[41 + 1, len(In) - 1][0]\nlen(In) - 1").result)
    kernel.ok("%gpupool checkpoint typed\nOut.clear()")
    kernel.ok("%gpupool restore typed")
    assert kernel.ok(f"Out[{number}]").result == str(number)
    assert "checkpoint typed" in kernel.ok(f"In[{number + 1}]").result
    assert "restore typed" in kernel.ok(f"In[{number + 2}]").result


def test_mistakes_are_one_sentence_with_the_next_step(kernel: Notebook) -> None:
    for line, said in (
        ("restore nothing-like-it", "NoSuchSnapshot: There is no snapshot"),
        ("checkpoint --only nobody", "InvalidValue: There is no variable “nobody” here."),
        ("checkpoint --only a --except b", "InvalidValue: Both --only and --except were given."),
        ("restore first --map cuda", "InvalidValue: “cuda” does not say which device becomes which."),
        ("restore first --as 1-", "InvalidValue: “1-” cannot begin names."),
        ("autosave sometimes", "InvalidValue: “sometimes” is not a way to save by itself."),
    ):
        cell = kernel.run(f"%gpupool {line}")
        assert cell.status == "error", line
        assert cell.traceback.startswith(said), cell.traceback
        assert "\n" not in cell.traceback


def test_tab_offers_snapshots_and_variables(kernel: Notebook) -> None:
    kernel.ok("alpha = beta = 1\n%gpupool checkpoint tabbed")
    assert "tabbed" in kernel.complete("%gpupool restore ta")
    assert kernel.complete("%gpupool checkpoint --only alp") == ["alpha"]
    assert kernel.complete("%gpupool checkpoint --only alpha,be") == ["beta"]


def test_forgotten_ones_are_gone_and_their_bytes_are_given_back(kernel: Notebook) -> None:
    kernel.ok("blob = __import__('os').urandom(3_000_000)\n%gpupool checkpoint big\ndel blob")
    kernel.ok("%gpupool forget big")
    assert "Freed 2.9 MiB" in kernel.ok("%gpupool snapshots --gc").result
    assert kernel.run("%gpupool restore big").ename == "NoSuchSnapshot"


@pytest.mark.slow
@pytest.mark.beside
def test_the_stop_button_stops_a_save_and_harms_nothing(kernel: Notebook) -> None:
    """The save is so large that it takes longer than the line takes to appear."""
    kernel.ok("import numpy as np\nrng = np.random.default_rng(0)", seconds=120)
    kernel.ok("heavy = [rng.bytes(50_000_000) for _ in range(40)]", seconds=120)
    sent = kernel.send("%gpupool checkpoint heavy")
    pressed: list[float] = []

    def press(cell: Cell) -> None:
        if not pressed and "Saving:" in cell.text:  # not the report, after which there is nothing to stop
            pressed.append(time.monotonic())
            kernel.interrupt()

    cell = kernel.finish(sent, on_output=press)
    if not pressed:  # a very quick disk
        pytest.skip("it was saved before anything was shown")
    assert cell.status == "error"
    assert cell.ename == "Cancelled", cell.text
    assert kernel.ok("len(heavy)").result == "40"
    assert kernel.run("%gpupool restore heavy").ename == "NoSuchSnapshot"
    kernel.ok("del heavy")


@pytest.mark.slow
@pytest.mark.beside
def test_after_a_death_the_next_kernel_offers_what_was_saved(
    world: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with notebook(world) as first:
        first.ok("epochs = 7\n%gpupool checkpoint before-the-end")
        os.kill(first.pid, signal.SIGKILL)
        wait_for(lambda: not first.manager.is_alive(), "the kernel to die", 20)
    with notebook(world) as second:
        offered = second.first.stderr
        assert "`%gpupool restore before-the-end` brings back its state of" in offered
        second.ok("%gpupool restore")
        assert second.ok("epochs").result == "7"
        left_now = left(world, monkeypatch)
        assert left_now is None
    with notebook(world) as third:
        assert "brings back" not in third.first.stderr


@pytest.mark.slow
@pytest.mark.beside
def test_a_kernel_that_was_shut_down_and_does_not_save_by_itself_leaves_nothing_to_offer(
    world: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with notebook(world) as first:
        first.ok("epochs = 8\n%gpupool checkpoint on-purpose\n%gpupool autosave off")
        assert left(world, monkeypatch) is not None
        first.client.stop_channels()
        first.manager.shutdown_kernel(now=False)
    assert left(world, monkeypatch) is None
    with notebook(world) as second:
        assert "brings back" not in second.first.stderr


@pytest.mark.slow
@pytest.mark.beside
def test_a_kernel_saves_by_itself_once_it_has_used_snapshots_and_not_before(world: dict[str, str]) -> None:
    ours = "[it for it in get_ipython().events.callbacks['post_run_cell'] if 'gpupool' in str(it)]"
    with notebook(world) as first:
        assert first.ok(ours).result == "[]"
        shown = first.ok("%gpupool autosave").result
        assert "every 10 min, before shutdown, before preemption" in shown
        assert "It begins with the first lease, checkpoint or restore here." in shown
        first.ok("kept = 1\n%gpupool checkpoint mine")
        assert "begins" not in first.ok("%gpupool autosave").result
        first.ok("kept = 2")
        first.client.stop_channels()
        first.manager.shutdown_kernel(now=False)
    with notebook(world) as second:
        assert "`%gpupool restore auto_" in second.first.stderr
        second.ok("%gpupool restore")
        assert second.ok("kept").result == "2"


def automatic(kernel: Notebook) -> list[str]:
    """Return the names of what was saved by itself, newest first."""
    shown = kernel.ok(
        "import jupyter_gpupool\n[it.name for it in jupyter_gpupool.snapshots() if it.automatic]"
    )
    names_: list[str] = ast.literal_eval(shown.result)
    return names_


@pytest.mark.slow
@pytest.mark.beside
def test_a_state_is_saved_by_itself_while_nothing_runs_and_survives_a_death(world: dict[str, str]) -> None:
    """Nothing is run after the cell that is to be saved: the kernel's own loop sees that it is time."""
    with notebook(world) as first:
        first.ok("%gpupool autosave every 1s share 50%")
        first.ok("import numpy\nweights = numpy.arange(1e6)\nepoch = 3")
        data = Path(world[names.ENV_DATA_DIR])
        wait_for(lambda: any("auto_" in it.read_text() for it in data.rglob("left/*.json")), "a save", 30)
        os.kill(first.pid, signal.SIGKILL)
        wait_for(lambda: not first.manager.is_alive(), "the kernel to die", 20)
    with notebook(world) as second:
        assert "`%gpupool restore auto_" in second.first.stderr
        second.ok("%gpupool restore")
        assert second.ok("(epoch, weights[-1].item())").result == "(3, 999999.0)"
        assert automatic(second)


@pytest.mark.slow
@pytest.mark.beside
def test_a_state_is_saved_when_its_kernel_is_shut_down_or_told_to_end(world: dict[str, str]) -> None:
    for number, end in enumerate(("shutdown", "signal")):
        with notebook(world) as first:
            first.ok(f"%gpupool autosave before shutdown\nlast = {number}")
            if end == "shutdown":
                first.client.stop_channels()
                first.manager.shutdown_kernel(now=False)
            else:
                os.kill(first.pid, signal.SIGTERM)
                wait_for(lambda: not first.manager.is_alive(), "the kernel to end", 20)
        with notebook(world) as second:
            assert "brings back" in second.first.stderr, end
            second.ok("%gpupool restore")
            assert second.ok("last").result == str(number)


@pytest.mark.slow
@pytest.mark.beside
def test_in_a_plain_terminal_a_state_is_saved_when_it_ends_and_restored_in_the_next(
    world: dict[str, str], tmp_path: Path
) -> None:
    environment = {name: value for name, value in world.items() if name != "JPY_SESSION_NAME"}
    environment |= {names.ENV_DATA_DIR: str(tmp_path / "data"), "IPYTHONDIR": str(tmp_path)}

    def type_in(*lines: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "IPython", "--simple-prompt", "--no-banner"],
            input="\n".join(["%load_ext jupyter_gpupool", *lines, "exit", ""]),
            env=environment,
            capture_output=True,
            text=True,
            timeout=90,
            check=True,
        )
        return done.stdout + done.stderr

    said = type_in("kept = 6", "%gpupool autosave off, before shutdown")
    assert "Autosave: before shutdown" in said
    shown = type_in("%gpupool restore", "kept * 7")
    assert "Restored “auto_" in shown
    assert ": 42" in shown


@pytest.mark.slow
@pytest.mark.beside
def test_saving_that_fails_by_itself_says_so_once_and_disturbs_no_cell(world: dict[str, str]) -> None:
    with notebook(world | {names.ENV_STORE: "/proc/no-room-here"}) as kernel:
        kernel.ok("%gpupool autosave every 1s share 50%")
        said = []
        for _ in range(4):
            cell = kernel.ok("import time; time.sleep(1.1)")
            said.append("could not be saved by itself" in cell.text)
            said.append("could not be saved by itself" in kernel.ok("2").text)
        assert sum(said) == 1
        assert kernel.ok("1 + 1").result == "2"


def test_the_store_is_private(world: dict[str, str], kernel: Notebook) -> None:
    assert kernel.ok("1").status == "ok"
    data = Path(world[names.ENV_DATA_DIR])
    open_to_others = [
        it for it in data.rglob("*") if it.stat().st_mode & 0o077 and it.is_dir() and it.parent != data
    ]
    (key,) = data.rglob("snapshots.key")
    assert key.stat().st_mode & 0o777 == 0o600
    assert not open_to_others


def test_nothing_of_this_has_started_a_pool(world: dict[str, str], kernel: Notebook) -> None:
    kernel.ok("%gpupool snapshots")
    assert not (Path(world[names.ENV_RUNTIME_DIR]) / names.POOL_FILE).exists()
