"""From request to limits in force; whatever ends it early leaves nothing behind."""

from __future__ import annotations

import signal
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from jupyter_gpupool.client.sync import PoolClient
from jupyter_gpupool.core.errors import DoesNotFitNow
from jupyter_gpupool.core.leases import EndReason, LeaseState
from jupyter_gpupool.kernel import acquire
from jupyter_gpupool.kernel.acquire import Acquisition
from jupyter_gpupool.kernel.errors import AttachRefused, RequestEnded
from jupyter_gpupool.protocol.codec import encode
from jupyter_gpupool.protocol.documents import ErrorDoc, LeaseDoc, LeaseRequest
from jupyter_gpupool.protocol.messages import AttachReply
from tests.support.fake_pool import lease_doc
from tests.support.scripted_pool import ScriptedPool
from tests.unit.kernel.test_attach import agent, ticket

BODY = LeaseRequest(compute_milli=500)
QUEUED = lease_doc(state=LeaseState.QUEUED, position=1, reason="waiting for 0.5 of a CPU", tag="q1")
ENDED = lease_doc(state=LeaseState.ENDED, end_reason=EndReason.CANCELLED)


class Line:
    """Notes what would be shown; ``on_show`` is called each time."""

    def __init__(self, on_show: Any = None) -> None:
        self.shown: list[str] = []
        self.ends: list[str] = []
        self._on_show = on_show

    def show(self, doc: LeaseDoc, elapsed_seconds: float) -> None:
        self.shown.append(doc.reason)
        if self._on_show:
            self._on_show()

    def end(self, sentence: str) -> None:
        self.ends.append(sentence)


class Service:
    """Answers POST, then each GET with the next document of ``states`` (the last one again and again)."""

    def __init__(self, posted: object, *states: object) -> None:
        self.posted = posted
        self.states = list(states)
        self.keys: list[str] = []

    def __call__(self, method: str, path: str, body: dict[str, Any] | None) -> tuple[int, object]:
        if method == "POST":
            status = 409 if isinstance(self.posted, ErrorDoc) else 201
            return status, self.posted
        if method == "DELETE":
            return 200, ENDED
        return 200, self.states.pop(0) if len(self.states) > 1 else self.states[0]


def attaching(path: Path) -> LeaseDoc:
    return lease_doc(state=LeaseState.ATTACHING, attach=ticket(path), tag="a1")


def test_a_lease_that_is_granted_at_once_shows_its_ticket_and_is_active(tmp_path):
    with (
        agent(tmp_path / "s", encode(AttachReply(lease_id="lease_1")) + b"\n"),
        ScriptedPool(Service(attaching(tmp_path / "s"), lease_doc())) as pool,
    ):
        line = Line()
        doc, settings = Acquisition(PoolClient(pool.connection), line).request(BODY)
        settings.undo()
    assert doc.state is LeaseState.ACTIVE
    assert line.shown == []
    assert pool.paths("DELETE") == []


def test_a_request_that_waits_says_for_what_until_it_is_granted(tmp_path):
    with (
        agent(tmp_path / "s", encode(AttachReply(lease_id="lease_1")) + b"\n"),
        ScriptedPool(Service(QUEUED, QUEUED, attaching(tmp_path / "s"), lease_doc())) as pool,
    ):
        line = Line()
        Acquisition(PoolClient(pool.connection), line).request(BODY)[1].undo()
    assert line.shown == ["waiting for 0.5 of a CPU"] * 2
    assert line.ends[0].startswith("Granted after")


def test_a_refusal_is_raised_and_there_is_nothing_to_cancel():
    refusal = ErrorDoc(code="does_not_fit_now", message="No room.", hint="0.25 would fit.")
    with ScriptedPool(Service(refusal)) as pool, pytest.raises(DoesNotFitNow, match="No room"):
        Acquisition(PoolClient(pool.connection), Line()).request(BODY)
    assert pool.paths("DELETE") == []


def test_a_wait_that_expires_says_so():
    expired = lease_doc(state=LeaseState.ENDED, end_reason=EndReason.WAIT_EXPIRED)
    with (
        ScriptedPool(Service(QUEUED, expired)) as pool,
        pytest.raises(RequestEnded, match=r"within the time it was to wait.*who holds what"),
    ):
        Acquisition(PoolClient(pool.connection), Line()).request(BODY)


def test_the_stop_button_cancels_and_says_that_nothing_is_left():
    def stop() -> None:
        raise KeyboardInterrupt

    line = Line(stop)
    with (
        ScriptedPool(Service(QUEUED, QUEUED)) as pool,
        pytest.raises(KeyboardInterrupt, match="nothing is held or waits"),
    ):
        Acquisition(PoolClient(pool.connection), line).request(BODY)
    assert pool.paths("DELETE") == ["/api/v1/leases/lease_1?reason=cancelled"]
    assert line.ends[0].startswith("Cancelled after")


def test_any_other_error_while_waiting_cancels_too():
    def fail() -> None:
        raise ZeroDivisionError

    with ScriptedPool(Service(QUEUED, QUEUED)) as pool, pytest.raises(ZeroDivisionError):
        Acquisition(PoolClient(pool.connection), Line(fail)).request(BODY)
    assert len(pool.paths("DELETE")) == 1


def test_an_interrupt_before_the_answer_finds_the_request_again_by_its_key():
    thrown = threading.Event()

    def script(method: str, path: str, body: dict[str, Any] | None) -> tuple[int, object]:
        if method == "POST" and not thrown.is_set():
            thrown.set()
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            threading.Event().wait(0.2)  # the client is gone before this answer
        return (201, QUEUED) if method == "POST" else (200, ENDED)

    with ScriptedPool(script) as pool, pytest.raises(KeyboardInterrupt):
        Acquisition(PoolClient(pool.connection), Line()).request(BODY)
    keys = {headers["Idempotency-Key"] for method, _, headers in pool.asked if method == "POST"}
    assert len(keys) == 1
    assert len(pool.paths("POST")) == 2
    assert len(pool.paths("DELETE")) == 1


def test_a_second_interrupt_does_not_stop_the_cancelling():
    def stop() -> None:
        raise KeyboardInterrupt

    def script(method: str, path: str, body: dict[str, Any] | None) -> tuple[int, object]:
        if method == "DELETE":
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            return 200, ENDED
        return (201 if method == "POST" else 200), QUEUED

    before = signal.getsignal(signal.SIGINT)
    with (
        ScriptedPool(script) as pool,
        pytest.raises(KeyboardInterrupt, match="nothing is held"),
    ):
        Acquisition(PoolClient(pool.connection), Line(stop)).request(BODY)
    assert len(pool.paths("DELETE")) == 1
    assert signal.getsignal(signal.SIGINT) is before


def test_a_process_that_cannot_be_attached_is_told_why_and_leaves_nothing(tmp_path):
    refusal = ErrorDoc(code="holder_too_large", message="You use 3.0 GiB.")
    with (
        agent(tmp_path / "s", encode(AttachReply(error=refusal)) + b"\n"),
        ScriptedPool(Service(attaching(tmp_path / "s"), lease_doc())) as pool,
        pytest.raises(AttachRefused, match=r"You use 3\.0 GiB"),
    ):
        Acquisition(PoolClient(pool.connection), Line()).request(BODY)
    assert len(pool.paths("DELETE")) == 1


def test_an_agent_that_restarts_meanwhile_is_tried_again(tmp_path):
    stale = encode(AttachReply(error=ErrorDoc(code="stale_ticket", message="Unknown ticket."))) + b"\n"
    good = encode(AttachReply(lease_id="lease_1", environment={"GPUPOOL_TEST": "1"})) + b"\n"
    path = tmp_path / "s"
    replies = [stale, good]
    shown: list[bytes] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        listener.settimeout(10)

        def serve() -> None:
            for reply in replies:
                peer, _ = listener.accept()
                with peer:
                    shown.append(peer.makefile("rb").readline())
                    peer.sendall(reply)

        thread = threading.Thread(target=serve)
        thread.start()
        with ScriptedPool(Service(attaching(path), attaching(path), lease_doc())) as pool:
            doc, settings = Acquisition(PoolClient(pool.connection), Line()).request(BODY)
        thread.join()
    settings.undo()
    assert doc.state is LeaseState.ACTIVE
    assert len(shown) == 2


def test_an_agent_that_never_takes_the_ticket_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(acquire, "ATTACH_SECONDS", 0.0)
    with (
        ScriptedPool(Service(attaching(tmp_path / "none"), attaching(tmp_path / "none"))) as pool,
        pytest.raises(acquire.AgentSilent),
    ):
        Acquisition(PoolClient(pool.connection), Line()).request(BODY)
    assert len(pool.paths("DELETE")) == 1
