"""Things that a kernel holds, saved in one process and restored in another one, or in the same one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.state_world import StateWorld

pytestmark = pytest.mark.slow

#: Cells, and a check in the process that restores; all of it comes back.
STATES = {
    "files and loggers": (
        """
import csv, logging, os
logger, handler = logging.getLogger("app"), logging.FileHandler("app.log", mode="w")
logger.setLevel("INFO"); logger.addHandler(handler); logger.info("one")
logging.basicConfig(level=logging.DEBUG, filename="root.log")
out = open("o.csv", "w", newline=""); rows = csv.writer(out); rows.writerow([1, 2])
read = open("o.csv", newline=""); reader = csv.reader(read)
gone = open("gone.txt", "w+"); gone.write("kept"); gone.flush(); os.unlink("gone.txt")
""",
        """
logger.info("two"); rows.writerow([3, 4]); out.flush(); gone.seek(0)
OK = open("app.log").read() == "one\\ntwo\\n" and logger.handlers[0] is handler
OK = OK and logging.getLogger().level == 10 and list(reader) == [["1", "2"], ["3", "4"]]
OK = OK and gone.read() == "kept" and not os.path.exists("gone.txt")
""",
    ),
    "locks in objects": (
        """
import queue, threading
class Work:
    def __init__(self):
        self.lock = threading.RLock(); self.ready = threading.Condition(self.lock)
        self.queue = queue.Queue(); self.local = threading.local(); self.local.x = 3
work = Work(); work.queue.put(work); work.lock.acquire()
ended = threading.Thread(target=len, args=("",)); ended.start(); ended.join()
""",
        """
OK = work.queue.get() is work and work.ready._lock is work.lock and work.lock._is_owned()
OK = OK and work.local.x == 3 and not ended.is_alive()
work.lock.release()
with work.ready: work.ready.notify_all()
""",
    ),
    "databases and temporary files": (
        """
import pathlib, sqlite3, tempfile
base = sqlite3.connect("d.db"); cursor = base.cursor(); cursor.execute("create table t(a)")
cursor.execute("insert into t values (1)"); base.commit()
memory = sqlite3.connect(":memory:"); memory.row_factory = sqlite3.Row
memory.execute("create table x(y)"); memory.execute("insert into x values (2)"); memory.commit()
directory = tempfile.TemporaryDirectory()
path = pathlib.Path(directory.name) / "a.txt"; path.write_text("hi")
named = tempfile.NamedTemporaryFile("w+"); named.write("yo")
""",
        """
named.seek(0)
OK = cursor.execute("select a from t").fetchall() == [(1,)] and cursor.connection is base
OK = OK and memory.execute("select y from x").fetchone()["y"] == 2
OK = OK and path.read_text() == "hi" and named.read() == "yo"
""",
    ),
    "the current figure of pyplot": (
        """
import matplotlib; matplotlib.use("Agg")
import matplotlib.pyplot as plt
figure, axes = plt.subplots(num=7)
other = plt.figure("named"); other.add_subplot(); plt.figure(7); (line,) = axes.plot([1, 2])
settings = plt.rcParams; settings["lines.linewidth"] = 9
""",
        """
OK = plt.gcf() is figure and plt.gca() is axes and plt.get_fignums() == [7, 8]
OK = OK and plt.figure("named") is other and axes.lines[0] is line
OK = OK and settings is plt.rcParams and settings["lines.linewidth"] == 9
""",
    ),
    "sources of random numbers under other names": (
        """
import random
from random import random as draw
import numpy
from numpy.random import rand
random.seed(3); numpy.random.seed(4); later = (random.getstate(), numpy.random.get_state())
expected = (draw(), rand()); random.setstate(later[0]); numpy.random.set_state(later[1])
""",
        """
OK = (random.random(), numpy.random.rand()) == expected
random.seed(1); first = draw(); random.seed(1)
OK = OK and first == random.random()
""",
    ),
    "what is tied to an event loop": (
        """
import asyncio
queue, lock, event = asyncio.Queue(), asyncio.Lock(), asyncio.Event()
queue.put_nowait(1); event.set()
async def work():
    await lock.acquire()
    return await queue.get()
""",
        "OK = asyncio.run(work()) == 1 and event.is_set() and lock.locked()",
    ),
}


@pytest.mark.parametrize("name", STATES)
def test_all_of_it_comes_back_in_another_process(name: str, tmp_path: Path) -> None:
    cells, check = STATES[name]
    world = StateWorld(tmp_path)
    saved = world.save([cells])
    assert saved.ok, saved
    outcome = world.restore(check)
    assert outcome.ok, outcome
    assert not outcome.paths("not_saved")


@pytest.mark.parametrize("name", ["files and loggers", "databases and temporary files"])
def test_all_of_it_comes_back_in_the_same_process(name: str, tmp_path: Path) -> None:
    cells, check = STATES[name]
    outcome = StateWorld(tmp_path).same([cells], "", check)
    assert outcome.ok, outcome
    assert not outcome.paths("not_saved")


def test_what_nobody_can_save_is_named_and_costs_only_itself(tmp_path: Path) -> None:
    world = StateWorld(tmp_path)
    cells = """
import io, os, socket, subprocess, threading, concurrent.futures, hashlib, gzip
stop = threading.Event(); runs = threading.Thread(target=stop.wait, args=(60,), daemon=True); runs.start()
line = socket.socket(); steps = (i for i in range(3)); digest = hashlib.sha256(b"x")
quiet = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
program = subprocess.Popen(["sleep", "5"], **quiet); pool = concurrent.futures.ThreadPoolExecutor(1)
packed = gzip.open("x.gz", "wb"); reading, writing = os.pipe(); pipe = os.fdopen(reading)
all_of_them = {"line": line, "rest": [1, 2]}
"""
    saved = world.save([cells])
    lost = {"runs", "line", "steps", "digest", "program", "pool", "packed", "pipe"}
    assert lost <= set(saved.paths())
    outcome = world.restore("OK = all_of_them['rest'] == [1, 2] and not stop.is_set() and reading > 0")
    assert outcome.ok, outcome
    for finding in outcome.findings:
        assert finding["reason"]


def test_a_file_for_writing_is_not_truncated_by_going_back(tmp_path: Path) -> None:
    world = StateWorld(tmp_path)
    cells = ["f = open('w.txt', 'w'); f.write('before'); n = 1"]
    then = "f.write(' after'); f.flush(); n = 2"
    check = "OK = n == 1 and open('w.txt').read() == 'before after' and f.tell() == 6"
    outcome = world.same(cells, then, check)
    assert outcome.ok, outcome
    assert outcome.paths("changed")


def test_a_file_that_is_gone_is_named_and_the_rest_comes_back(tmp_path: Path) -> None:
    world = StateWorld(tmp_path)
    world.save(["f = open('r.txt', 'w'); both = [f, 5]"])
    (world.work / "r.txt").unlink()
    outcome = world.restore("OK = both[1] == 5")
    assert outcome.ok, outcome
    assert any("r.txt" in finding["reason"] for finding in outcome.findings)
    assert not (world.work / "r.txt").exists()


def test_secrets_are_left_out_and_what_belongs_to_a_machine_does_not_travel(tmp_path: Path) -> None:
    world = StateWorld(tmp_path)
    cell = """
import os, sys
os.environ |= {"MINE": "1", "MY_TOKEN": "hunter2", "CUDA_VISIBLE_DEVICES": "GPU-stale"}
os.makedirs("deep"); os.chdir("deep"); sys.path.append("/zzz"); password = "hunter2"
"""
    saved = world.save([cell])
    assert len(saved.paths("left_out")) == 2
    outcome = world.restore(
        "OK = (os.environ['MINE'], os.environ.get('MY_TOKEN'), os.environ.get('CUDA_VISIBLE_DEVICES')) == "
        "('1', None, None) and os.getcwd().endswith('/deep') and '/zzz' in sys.path"
    )
    assert outcome.ok, outcome
    assert "hunter2" not in str(outcome)
