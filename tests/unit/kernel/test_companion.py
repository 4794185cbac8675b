"""What the pool says while a lease is held reaches the notebook, and costs and delays nothing."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs

from jupyter_gpupool.core.hints import ASK_ANOTHER
from jupyter_gpupool.core.leases import EndReason, LeaseState, Resource, Strength, Verified
from jupyter_gpupool.kernel import companion
from jupyter_gpupool.kernel.attach import AppliedSettings
from jupyter_gpupool.kernel.lease import Lease
from jupyter_gpupool.kernel.process import Process
from jupyter_gpupool.protocol.documents import ErrorDoc, IsolationDoc, LeaseDoc, ShareDoc
from jupyter_gpupool.protocol.messages import AttachReply
from tests.support.fake_pool import lease_doc
from tests.support.scripted_pool import ScriptedPool

SHARES = [ShareDoc(device_id="GPU-1", device_name="cuda0", compute_milli=250, memory_bytes=2**30)]
HELD = lease_doc(shares=SHARES, tag="t0")


def until(condition: Callable[[], object], what: str, seconds: float = 10.0) -> None:
    deadline, pause = time.monotonic() + seconds, threading.Event()
    while not condition():
        assert time.monotonic() < deadline, what
        pause.wait(0.01)


class News:
    """Answers each long poll with the next document that a test gives; DELETE with an ended lease."""

    def __init__(self, doc: LeaseDoc = HELD) -> None:
        self.doc = doc
        self.coming: queue.Queue[Any] = queue.Queue()

    def __call__(self, method: str, path: str, body: dict[str, Any] | None) -> tuple[int, object]:
        if method == "DELETE":
            over = {"state": LeaseState.ENDED, "end_reason": EndReason.RELEASED, "tag": "gone"}
            ended = structs.replace(self.doc, **over)
            self.coming.put(ended)
            return 200, ended
        doc = self.coming.get(timeout=20)
        return (404 if isinstance(doc, ErrorDoc) else 200), doc


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    """Let nothing take long that would be long only for the sake of a pool under load."""
    monkeypatch.setattr(companion, "FIRST_PAUSE_SECONDS", 0.05)
    monkeypatch.setattr(companion, "SHORTEST_PAUSE_SECONDS", 0.01)


def hold(pool: ScriptedPool, doc: LeaseDoc = HELD, **reply: Any) -> Lease:
    """Hold a lease in a process of its own making, as a request does."""
    process = Process()
    process.use(pool.url, "token")
    assert process.client
    settings = AppliedSettings()
    settings.apply(AttachReply(**reply))
    lease = Lease(process, doc, settings)
    process.hold(lease)
    return lease


def companions() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "jupyter_gpupool companion"]


@pytest.fixture(autouse=True)
def no_thread_is_left():
    """See that each test's companion ends with its lease."""
    yield
    until(lambda: not companions(), "the companion ends")


def test_a_new_notice_is_a_line_and_the_same_one_is_said_once(capsys):
    news = News()
    with ScriptedPool(news) as pool:
        lease = hold(pool, notices=["CUDA had started already."])
        assert capsys.readouterr().err == "gpupool: CUDA had started already.\n"
        for tag, notices in (("t1", ["It uses 91 %."]), ("t2", ["It uses 92 %."]), ("t3", ["It is hot."])):
            news.coming.put(lease_doc(shares=SHARES, tag=tag, notices=notices))
        until(lambda: lease.doc.tag == "t3", "all is heard")
        assert lease.notices == ("CUDA had started already.", "It is hot.")
        assert "It is hot." in repr(lease._repr_mimebundle_()["text/plain"])
        until(lambda: news.coming.empty() and len(pool.asked) == 4, "the next poll waits")
        lease.release()
    assert capsys.readouterr().err == "gpupool: It uses 91 %.\ngpupool: It is hot.\n"


def test_who_cannot_move_is_told_to_ask_for_another_lease(capsys):
    with ScriptedPool(News()) as pool:
        notice = f"This lease is taken back in 5 min: an administrator drains its node. {ASK_ANOTHER}"
        lease = hold(pool, structs.replace(HELD, reclaim_seconds=300.0, notices=[notice]))
        lease.release()
    assert capsys.readouterr().err == f"gpupool: {notice}\n"


def test_a_lease_that_the_pool_ended_is_marked_and_its_settings_are_undone(capsys, monkeypatch):
    monkeypatch.delenv("GPUPOOL_TEST", raising=False)
    news = News()
    with ScriptedPool(news) as pool:
        lease = hold(pool, environment={"GPUPOOL_TEST": "1"})
        detail = "it used more than its share for 30 s"
        news.coming.put(
            lease_doc(
                shares=SHARES, state=LeaseState.ENDED, end_reason=EndReason.ADMIN_ENDED, end_detail=detail
            )
        )
        until(lambda: lease.state is LeaseState.ENDED and not companions(), "the end is heard")
    assert "GPUPOOL_TEST" not in os.environ
    assert lease._process.held == {}
    said = capsys.readouterr().err
    assert said.startswith(f"gpupool: The lease on 0.25 of cuda0 ended: {detail}. ")
    assert "`%gpupool request` asks for another" in said
    assert said.count("\n") == 1


def test_a_lease_that_the_pool_does_not_know_any_more_is_over(capsys):
    news = News()
    with ScriptedPool(news) as pool:
        lease = hold(pool)
        news.coming.put(ErrorDoc(code="unknown_lease", message="There is no such lease."))
        until(lambda: lease.state is LeaseState.ENDED and not companions(), "the end is heard")
    assert "is not known to the pool any more" in capsys.readouterr().err


def test_what_this_process_releases_is_no_news(capsys):
    news = News()
    with ScriptedPool(news) as pool:
        lease = hold(pool)
        until(lambda: pool.asked, "the companion polls")
        began = time.monotonic()
        lease.release()
        assert time.monotonic() - began < 2
        until(lambda: not companions(), "it ends")
    assert capsys.readouterr().err == ""


def test_a_limit_that_is_lost_is_said(capsys):
    def isolation(strength: Strength, note: str) -> list[IsolationDoc]:
        return [
            IsolationDoc(
                resource=Resource.MEMORY,
                strength=strength,
                mechanism="MPS",
                limit="1.0 GiB",
                verified=Verified.READ_BACK,
                note=note,
            )
        ]

    news = News()
    with ScriptedPool(news) as pool:
        lease = hold(pool, lease_doc(shares=SHARES, tag="t0", isolation=isolation(Strength.SOFT, "")))
        none = isolation(Strength.NONE, "its processes run without MPS")
        news.coming.put(lease_doc(shares=SHARES, tag="t1", isolation=none))
        until(lambda: lease.doc.tag == "t1", "it is heard")
        lease.release()
    said = capsys.readouterr().err
    assert "The memory of your lease on 0.25 of cuda0 is not limited: its processes run without MPS." in said


def test_a_resize_from_elsewhere_reaches_the_variables_of_children(monkeypatch):
    monkeypatch.delenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", raising=False)
    news = News()
    with ScriptedPool(news) as pool:
        lease = hold(pool, environment={"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "25"})
        half = [ShareDoc(device_id="GPU-1", device_name="cuda0", compute_milli=500, memory_bytes=2**31)]
        news.coming.put(lease_doc(shares=half, tag="t1"))
        until(lambda: os.environ["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "50", "it follows")
        lease.release()
    assert "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" not in os.environ


def test_a_service_that_restarts_is_found_again_quietly(capsys):
    news = News()
    first = ScriptedPool(news)
    first.__enter__()
    lease = hold(first)
    until(lambda: first.asked, "the companion polls")
    news.coming.put(b"not what anybody expects")
    first.__exit__()
    again = News()
    with ScriptedPool(again) as second:
        lease._process.use(second.url, "token")
        until(lambda: second.asked, "the service is found where it is now")
        again.coming.put(lease_doc(shares=SHARES, tag="t1", notices=["Hello again."]))
        until(lambda: lease.doc.tag == "t1", "it is heard")
        lease.release()
    assert capsys.readouterr().err == "gpupool: Hello again.\n"


EXITS = """
import os, sys, time
from tests.unit.kernel.test_companion import companions, hold, HELD, News
from tests.support.scripted_pool import ScriptedPool
news = News()
pool = ScriptedPool(news)
pool._thread.daemon = True
pool.__enter__()
lease = hold(pool)
while not pool.asked:
    time.sleep(0.01)
if child := os.fork():
    os.waitpid(child, 0)
else:
    lease.release()
    print("CHILD", len(companions()), lease.here, flush=True)
    sys.exit(0)
print("PARENT", len(companions()), flush=True)
"""


def test_the_end_of_the_interpreter_waits_for_nobody_and_a_forked_child_has_none():
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", EXITS], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["CHILD 0 False", "PARENT 1"]
    assert done.stderr == ""
    assert time.monotonic() - began < 15  # a poll takes 30


def test_a_kernel_that_used_cuda_is_told_what_it_keeps_after_the_release(tmp_path):
    """In a process of its own: it opens what CUDA opens, and maps what CUDA maps."""
    code = """
import mmap, sys
from jupyter_gpupool.core.devices import DeviceKind
from tests.support.fake_pool import lease_doc
from tests.support.scripted_pool import ScriptedPool
from tests.unit.kernel.test_companion import SHARES, News, hold
gpu = lease_doc(kind=DeviceKind.CUDA, shares=SHARES)
with ScriptedPool(News(gpu)) as pool:
    hold(pool, gpu).release()
    device, library = open(sys.argv[1] + "/nvidia-uvm", "w"), open(sys.argv[1] + "/libcuda.so.1", "w+b")
    library.truncate(4096)
    held = mmap.mmap(library.fileno(), 0, prot=mmap.PROT_READ)
    hold(pool, gpu).release()
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("\n") == 1
    assert "CUDA still holds memory of cuda0 in this process" in done.stderr
