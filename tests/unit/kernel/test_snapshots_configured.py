"""A setting of snapshots that cannot be understood: said, and in the way of nothing else."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from IPython.core.events import EventManager, available_events

from jupyter_gpupool.kernel.process import before_reclaim
from jupyter_gpupool.kernel.snapshots import leftovers, session
from jupyter_gpupool.kernel.snapshots.leftovers import Leftover
from jupyter_gpupool.kernel.snapshots.offer import offer
from jupyter_gpupool.protocol import names

NOTEBOOK = "/home/ann/train.ipynb"


@pytest.fixture(autouse=True)
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_current", None)
    monkeypatch.setenv(names.ENV_DATA_DIR, str(tmp_path / "data"))
    monkeypatch.setenv(names.ENV_RUNTIME_DIR, str(tmp_path / "run"))
    monkeypatch.setenv("JPY_SESSION_NAME", NOTEBOOK)
    monkeypatch.setenv(names.ENV_AUTOSAVE, "sometimes")


def test_it_is_said_and_the_lease_is_held_all_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert before_reclaim(SimpleNamespace()) is None
    said = capsys.readouterr().err
    assert said.startswith("gpupool: The state of this kernel is not saved before its lease is taken back: ")
    assert "“sometimes” is not a way to save by itself." in said


def test_what_a_kernel_left_behind_stays_until_it_can_be_offered(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    left = Leftover(
        snapshot="0" * 22,
        name="auto",
        created_ms=0,
        total_bytes=1,
        restore_seconds=1.0,
        pid=1,
        started="an earlier boot:1",
    )
    leftovers.write(NOTEBOOK, left)
    offer(SimpleNamespace())
    assert "left behind cannot be restored yet: “sometimes” is not" in capsys.readouterr().err
    assert leftovers.read(NOTEBOOK) == left

    monkeypatch.delenv(names.ENV_AUTOSAVE)
    shell = SimpleNamespace(events=EventManager(SimpleNamespace(), available_events))
    offer(shell)
    assert "`%gpupool restore auto` brings back its state" in capsys.readouterr().err
    assert session.this_session().offered == left.snapshot
    assert leftovers.read(NOTEBOOK) is None
    shell.events.trigger("post_run_cell", None)
    assert not [it for it in shell.events.callbacks["post_run_cell"] if "ready" in it.__name__]
