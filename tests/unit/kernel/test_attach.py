"""Showing a ticket is bounded, and whatever is applied to this process is put back."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jupyter_gpupool.kernel.attach import AppliedSettings, show_ticket
from jupyter_gpupool.kernel.errors import AgentSilent, AttachRefused, NotOnNode
from jupyter_gpupool.protocol import names
from jupyter_gpupool.protocol.codec import encode
from jupyter_gpupool.protocol.documents import AttachDoc, ErrorDoc
from jupyter_gpupool.protocol.messages import AttachReply


def ticket(path: Path, hostname: str | None = None) -> AttachDoc:
    return AttachDoc(
        socket=str(path),
        ticket="t1",
        node_id="n",
        hostname=socket.gethostname() if hostname is None else hostname,
        expires_seconds=60.0,
    )


@contextmanager
def agent(path: Path, reply: bytes) -> Iterator[list[bytes]]:
    """Answer one process with ``reply``, as an agent would."""
    seen: list[bytes] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        listener.settimeout(10)

        def serve() -> None:
            peer, _ = listener.accept()
            with peer:
                seen.append(peer.makefile("rb").readline())
                peer.sendall(reply)

        thread = threading.Thread(target=serve)
        thread.start()
        yield seen
        thread.join()


def test_the_ticket_is_one_line_and_so_is_the_reply(tmp_path):
    with agent(tmp_path / "s", encode(AttachReply(lease_id="l", threads=2)) + b"\n") as seen:
        assert show_ticket(ticket(tmp_path / "s")).threads == 2
    assert json.loads(seen[0]) == {"ticket": "t1", "format": names.FORMAT, "frameworks": {}}


def test_a_refusal_is_the_agents_sentence(tmp_path):
    refusal = ErrorDoc(
        code="holder_too_large", message="You use 3.0 GiB; the share has 2.0 GiB.", hint="Ask more."
    )
    with (
        agent(tmp_path / "s", encode(AttachReply(error=refusal)) + b"\n"),
        pytest.raises(AttachRefused, match=r"You use 3.0 GiB; the share has 2.0 GiB. Ask more.") as caught,
    ):
        show_ticket(ticket(tmp_path / "s"))
    assert caught.value.code == "holder_too_large"


def test_a_lease_on_another_machine_says_so(tmp_path):
    with pytest.raises(NotOnNode, match="on node gpu2"):
        show_ticket(ticket(tmp_path / "none", hostname="gpu2"))


def test_an_agent_that_is_not_there_or_hangs_up_or_hangs_is_silent(tmp_path):
    with pytest.raises(AgentSilent, match="does not take the ticket"):
        show_ticket(ticket(tmp_path / "none"))
    with agent(tmp_path / "s", b""), pytest.raises(AgentSilent, match="cannot be read"):
        show_ticket(ticket(tmp_path / "s"))
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(tmp_path / "d"))
        deaf.listen()
        with pytest.raises(AgentSilent):
            show_ticket(ticket(tmp_path / "d"), reply_seconds=0.2)


def test_the_environment_is_applied_and_put_back(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    settings = AppliedSettings()
    settings.apply(AttachReply(environment={"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}))
    assert (os.environ["OMP_NUM_THREADS"], os.environ["MKL_NUM_THREADS"]) == ("1", "1")
    settings.undo()
    assert os.environ["OMP_NUM_THREADS"] == "8"
    assert "MKL_NUM_THREADS" not in os.environ


def test_what_the_user_changed_meanwhile_stays(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    settings = AppliedSettings()
    settings.apply(AttachReply(environment={"OMP_NUM_THREADS": "1"}))
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    settings.undo()
    assert os.environ["OMP_NUM_THREADS"] == "3"


def test_thread_counts_are_capped_follow_a_resize_and_come_back():
    torch = pytest.importorskip("torch")
    pytest.importorskip("numpy")
    before = torch.get_num_threads()
    settings = AppliedSettings()
    try:
        torch.set_num_threads(4)
        settings.apply(AttachReply(environment={"OMP_NUM_THREADS": "1"}, threads=1))
        assert torch.get_num_threads() == 1
        settings.resize(3)
        assert torch.get_num_threads() == 3
        assert os.environ["OMP_NUM_THREADS"] == "3"
        settings.undo()
        assert torch.get_num_threads() == 4
    finally:
        settings.undo()
        torch.set_num_threads(before)


def test_a_lower_thread_count_of_the_users_own_is_never_raised(monkeypatch):
    torch = pytest.importorskip("torch")
    threadpoolctl = pytest.importorskip("threadpoolctl")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    before = torch.get_num_threads()
    settings = AppliedSettings()
    with threadpoolctl.threadpool_limits(limits=1):
        try:
            torch.set_num_threads(1)
            settings.apply(AttachReply(environment={"OMP_NUM_THREADS": "2"}, threads=2))
            assert torch.get_num_threads() == 1
            assert {pool["num_threads"] for pool in threadpoolctl.threadpool_info()} == {1}
            assert os.environ["OMP_NUM_THREADS"] == "1"
            settings.resize(4)
            assert torch.get_num_threads() == 1
            settings.undo()
            assert torch.get_num_threads() == 1
        finally:
            settings.undo()
            torch.set_num_threads(before)


def test_a_thread_count_that_the_user_chose_meanwhile_stays():
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    settings = AppliedSettings()
    try:
        settings.apply(AttachReply(threads=1))
        torch.set_num_threads(3)
        settings.undo()
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
