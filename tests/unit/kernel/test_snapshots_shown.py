"""How snapshots read, and what is typed, left behind and run again."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from IPython.core.error import UsageError

from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.kernel.commands import HelpShown, parse_line
from jupyter_gpupool.kernel.snapshots import index, keys, leftovers, show, words
from jupyter_gpupool.kernel.snapshots.api import _devices
from jupyter_gpupool.kernel.snapshots.engine import chosen
from jupyter_gpupool.kernel.snapshots.leftovers import Leftover
from jupyter_gpupool.kernel.snapshots.meter import Meter
from jupyter_gpupool.kernel.snapshots.rerun import defining_cell
from jupyter_gpupool.kernel.snapshots.results import Restored, Saved, SnapshotList
from jupyter_gpupool.protocol import names
from jupyter_gpupool.state.model import Environment, Finding, FindingKind, Manifest
from jupyter_gpupool.state.report import Report

NOON_MS = int(time.mktime((2026, 12, 2, 12, 0, 0, 0, 0, -1))) * 1000
LOST = Finding(
    kind=FindingKind.NOT_SAVED,
    variable="cfg",
    path="cfg['db'].lock",
    type_name="_thread.lock",
    reason="a lock of this kind cannot be saved",
    hint="Make it anew.",
)


def finding(kind: FindingKind, name: str, reason: str = "it is so") -> Finding:
    return Finding(kind=kind, variable=name, path=name, type_name="t", reason=reason)


def manifest(number: int = 1, **more: object) -> Manifest:
    fields: dict[str, object] = {
        "id": f"{number:022x}",
        "name": "best",
        "created_ms": NOON_MS,
        "seconds": 0.42,
        "total_bytes": 1_288_490_189,
        "new_bytes": 3_565_158,
        "count": 23,
        "environment": Environment(python="3.11", platform="linux"),
        "details": [],
        "details_bytes": 0,
    } | more
    return Manifest(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("seconds_later", "said"),
    [(3600, "12:00"), (-3600, "12:00"), (86400, "Wed 12:00"), (40 * 86400, "2026-12-02 12:00")],
)
def test_a_moment_reads_as_a_clock_on_the_wall_does(seconds_later: float, said: str) -> None:
    assert words.when(NOON_MS, NOON_MS / 1000 + seconds_later) == said


def test_what_was_saved_is_one_sentence() -> None:
    said = words.saved(manifest())
    assert said == "Saved “best”: 23 variables, 1.2 GiB (3.4 MiB new), 0.4 s."
    assert "nothing new" in words.saved(manifest(new_bytes=0))
    assert "1 variable," in words.saved(manifest(count=1))


def test_what_is_lost_is_said_in_full_and_the_rest_is_counted() -> None:
    found = [
        LOST,
        *(finding(FindingKind.NOT_SAVED, f"g{n}") for n in range(words.SAID + 1)),
        finding(FindingKind.REBUILT, "db"),
        finding(FindingKind.LEFT_OUT, "api_key", "the name looks like a secret"),
        finding(FindingKind.LEFT_OUT, "big", "you asked for it"),
    ]
    lines = words.main_points(found, "--report")
    assert lines[0] == (
        "Not saved: cfg['db'].lock (_thread.lock): a lock of this kind cannot be saved. Make it anew."
    )
    assert len(lines) == words.SAID + 2
    assert lines[-2] == "Left out, because the names look like secrets: api_key."
    assert lines[-1] == "Also 2 more not saved, 1 made again, 1 left out; --report says which."


def test_a_report_is_short_in_text_and_whole_under_a_fold() -> None:
    saved = Saved(
        manifest=manifest(findings=[LOST, *(finding(FindingKind.REBUILT, f"r{n}") for n in range(9))])
    )
    shown = saved.rendering()
    assert "r8" not in shown.text
    assert "<details>" in shown.markup
    assert "r8" in shown.markup
    assert "r8" in saved.rendering(whole=True).text
    assert "<details>" not in saved.rendering(whole=True).markup
    assert repr(saved) == shown.text


def test_what_comes_from_a_snapshot_is_escaped() -> None:
    evil = manifest(
        name="<b>", note="<script>", notebook="/a/<i>.ipynb", findings=[finding(FindingKind.CHANGED, "<u>")]
    )
    for shown in (show.listing([evil]), Saved(manifest=evil).rendering()):
        assert not any(tag in shown.markup for tag in ("<b>", "<script>", "<i>", "<u>"))


def test_a_restore_says_what_went_and_how_to_make_again_what_is_lost() -> None:
    report = Report(
        action="restore",
        names=["a"],
        removed=["later"],
        kept=["g"],
        findings=[finding(FindingKind.NOT_SAVED, "g")],
        warnings=["numpy is 2.0 here, and was 1.9."],
        seconds=0.2,
    )
    text = repr(Restored(manifest=manifest(), report=report))
    assert text.startswith("Restored “best” of ")
    assert "Removed, because made since: later." in text
    assert "`%gpupool rerun g` runs the cell again that made it" in text
    assert "numpy is 2.0 here" in text


def test_a_list_counts_the_automatic_ones_unless_they_are_asked_for() -> None:
    found = (manifest(2, name="auto_x", automatic=True), manifest(1))
    few, all_ = SnapshotList(manifests=found, automatic=False), SnapshotList(manifests=found)
    assert "auto_x" not in repr(few)
    assert "And 1 automatic ones" in repr(few)
    assert "auto_x" in repr(all_)
    assert [it.name for it in all_] == ["auto_x", "best"]
    assert "none; `%gpupool checkpoint` saves one" in repr(SnapshotList(manifests=()))


def test_an_offer_names_the_state_its_size_and_how_to_take_it() -> None:
    said = words.offer("auto_1", NOON_MS, 1_288_490_189, 2.6, NOON_MS / 1000 + 60)
    assert said.endswith("`%gpupool restore auto_1` brings back its state of 12:00 (1.2 GiB, about 2 s).")


def test_names_are_read_with_and_without_spaces() -> None:
    assert chosen(None) is None
    assert chosen("a, b,,c") == ["a", "b", "c"]
    assert chosen(("a", "b")) == ["a", "b"]
    assert _devices("cuda:0=cpu, cuda:1 = cuda:0") == {"cuda:0": "cpu", "cuda:1": "cuda:0"}
    assert _devices({"cuda": "cpu"}) == {"cuda": "cpu"}
    with pytest.raises(InvalidValue, match="does not say which device"):
        _devices("cuda")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("diff a", "`%gpupool diff` needs A B."),
        ("diff a b c", "“c” is not understood here."),
        ("forget", "`%gpupool forget` needs NAME."),
        ("checkpoint a b", "“b” is not understood here."),
        ("restore --nothing", "“--nothing” is not understood here."),
        ("checkpint", "Did you mean `%gpupool checkpoint`?"),
    ],
)
def test_a_mistyped_command_is_one_sentence(line: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_line(line)
    assert said in str(caught.value)


def test_words_may_come_before_and_after_options() -> None:
    for line in (
        "checkpoint best -m note --only a",
        "checkpoint -m note best --only a",
        "checkpoint -m note --only a best",
    ):
        arguments = parse_line(line)
        assert (arguments.words, arguments.note, arguments.only) == (["best"], "note", "a")
    with pytest.raises(HelpShown):
        parse_line("restore --help")


class TestWhatAKernelLeavesBehind:
    """In a data directory of its own."""

    @pytest.fixture(autouse=True)
    def data(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(names.ENV_DATA_DIR, str(tmp_path / "data"))
        monkeypatch.setenv(names.ENV_RUNTIME_DIR, str(tmp_path / "run"))
        monkeypatch.delenv(names.ENV_URL, raising=False)

    def left(self, pid: int, started: str) -> Leftover:
        return Leftover(
            snapshot="0" * 22,
            name="auto",
            created_ms=NOON_MS,
            total_bytes=1,
            restore_seconds=1.0,
            pid=pid,
            started=started,
        )

    def test_is_offered_only_once_its_process_is_gone(self) -> None:
        process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        leftovers.write("/a.ipynb", self.left(process.pid, leftovers.started(process.pid)))
        assert leftovers.orphaned("/a.ipynb") is None
        assert leftovers.orphaned("/b.ipynb") is None
        process.communicate()
        found = leftovers.orphaned("/a.ipynb")
        assert found is not None
        assert found.name == "auto"

    def test_another_process_of_that_number_is_another_one(self) -> None:
        leftovers.write("/a.ipynb", self.left(os.getpid(), "an earlier boot:1"))
        assert leftovers.orphaned("/a.ipynb") is not None

    def test_goes_away_when_its_own_process_says_so(self) -> None:
        leftovers.write("/a.ipynb", self.left(1, "x"))
        leftovers.remove("/a.ipynb", os.getpid())
        assert leftovers.read("/a.ipynb") is not None
        assert leftovers.is_last(manifest(0, notebook="/a.ipynb"))
        assert not leftovers.is_last(manifest(1, notebook="/a.ipynb"))
        leftovers.remove("/a.ipynb", 1)
        assert leftovers.read("/a.ipynb") is None

    def test_what_cannot_be_read_is_not_there(self, tmp_path: Path) -> None:
        leftovers.write("/a.ipynb", self.left(1, "x"))
        (file,) = (tmp_path / "data").rglob("left/*.json")
        file.write_text("{")
        assert leftovers.read("/a.ipynb") is None

    def test_keys_that_pools_gave_are_remembered_privately(self, tmp_path: Path) -> None:
        assert keys.keys() == ()
        keys._remember([b"k" * 32])
        (file,) = (tmp_path / "data").rglob("pool-keys.json")
        assert file.stat().st_mode & 0o777 == 0o600
        assert keys.keys() == (b"k" * 32,)
        file.write_text("nonsense")
        assert keys.keys() == ()

    def test_without_a_pool_nobody_is_told(self) -> None:
        assert index.tell(index.report("file:/x", [manifest()], lambda it: True)) is False


def test_an_index_is_cut_to_what_a_pool_takes() -> None:
    many = [manifest(n, note="ä" * 500, notebook=f"/{'n' * 2000}.ipynb", name=f"a\n{n}") for n in range(200)]
    body = index.report("s3://bucket", many, lambda it: it.id.endswith("1"))
    assert 0 < len(body.snapshots) <= index.MOST
    assert body.snapshots[0].name == "a 0"
    assert body.snapshots[1].last_words
    assert len(body.snapshots[0].notebook) == 1000


def test_progress_is_shown_after_a_second_and_not_too_often() -> None:
    shown: list[str] = []
    now = [0.0]

    class Line:
        def put(self, text: str) -> None:
            shown.append(text)

        def close(self) -> None:
            shown.append("closed")

    meter = Meter("Saving", Line, clock=lambda: now[0])
    for now[0], done in ((0.5, 100), (1.2, 2**30), (1.3, 2**30), (2.0, 2 * 2**30)):
        meter.progress(done, 4 * 2**30)
    assert shown == ["Saving: 1.0 GiB of 4.0 GiB, 853.3 MiB/s", "Saving: 2.0 GiB of 4.0 GiB, 1.0 GiB/s"]
    assert not meter.cancel()
    meter.stop()
    now[0] = 3.0
    assert meter.cancel()
    assert shown[-1].endswith(", stopping")


@pytest.mark.parametrize(
    ("cells", "number"),
    [
        (["", "g = 1", "print(g)"], 1),
        (["", "g = 1", "g = 2", "g += 1"], 2),
        (["", "import g", "def f():\n    g = 1"], 1),
        (["", "def g(): pass", "[g for g in 'ab']"], 1),
        (["", "for g in range(3): pass", "h.g = 1", "!broken g ="], 1),
        (["", "with open('x') as g: pass"], 1),
        (["", "g = 1", "print(g)\ndel g"], 1),
        (["", "class g: pass", "g.x = 1"], 1),
        (["", "print(g)"], None),
        ([""], None),
    ],
)
def test_the_last_cell_that_made_a_name_is_found(cells: list[str], number: int | None) -> None:
    assert defining_cell(cells, "g") == number
