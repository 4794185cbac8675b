"""The pool in a terminal: what is wrong comes first, and an instance is shown as what it is."""

from __future__ import annotations

import io

from rich.console import Console

from jupyter_gpupool.core.devices import DeviceKind, Health
from jupyter_gpupool.core.leases import LeaseState
from jupyter_gpupool.protocol.documents import (
    DeviceDoc,
    HolderDoc,
    LeaseDoc,
    NodeDoc,
    PoolDoc,
    ProposalDoc,
    ProposedMoveDoc,
    ReadingsDoc,
    ShareDoc,
)
from jupyter_gpupool.service.terminal import print_pool, print_proposals

GIB = 2**30


def a_gpu(name: str = "cuda0", **fields: object) -> DeviceDoc:
    usual: dict[str, object] = {
        "node_id": "n",
        "kind": DeviceKind.CUDA,
        "model": "A100",
        "emulated": False,
        "memory_bytes": 40 * GIB,
        "compute_units": 108,
        "free_compute_milli": 1000,
        "free_memory_bytes": 40 * GIB,
        "unmanaged_bytes": 0,
        "health": Health.HEALTHY,
        "offered": True,
        "withheld": "",
        "readings": ReadingsDoc(),
        "leases": [],
    }
    return DeviceDoc(id=f"GPU-{name}", name=name, **{**usual, **fields})  # type: ignore[arg-type]


def a_lease_of_an_instance(*notices: str) -> LeaseDoc:
    share = ShareDoc(
        device_id="MIG-1",
        device_name="cuda1-mig0",
        compute_milli=1000,
        memory_bytes=20 * GIB,
        parent_milli=285,
        whole_only=True,
    )
    return LeaseDoc(
        id="lease_1",
        state=LeaseState.ACTIVE,
        mine=True,
        owner="ann",
        compute_milli=1000,
        memory_bytes=20 * GIB,
        kind=DeviceKind.CUDA,
        device="cuda1-mig0",
        shares=[share],
        node_id="n",
        holder=HolderDoc(pid=4711),
        isolation=[],
        generation=1,
        position=None,
        reason="Held.",
        waited_seconds=0.0,
        held_seconds=90.0,
        expires_seconds=None,
        wait_left_seconds=None,
        memory_used_bytes=None,
        end_reason=None,
        end_detail="",
        resizing=False,
        tag="t",
        notices=list(notices),
        asked_compute_milli=250,
    )


def shown(devices: list[DeviceDoc], leases: list[LeaseDoc], *warnings: str) -> str:
    """Return what is printed, each row on one line."""
    pool = PoolDoc(
        revision=1,
        version="1",
        me="ann",
        embedded=True,
        nodes=[NodeDoc(id="n", hostname="box", connected=True)],
        devices=devices,
        leases=leases,
        queue=[],
        warnings=list(warnings),
    )
    console = Console(file=io.StringIO(), width=400, color_system=None)
    print_pool(pool, "http://x", console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def line_with(text: str, word: str) -> str:
    (line,) = [" ".join(it.split()) for it in text.splitlines() if word in it]
    return line


def test_a_failed_device_says_why_and_when_it_is_offered_again() -> None:
    why = "cuda0 has failed: XID 79; it is offered again when it is healthy"
    text = shown(
        [a_gpu(health=Health.FAILED, withheld=why, health_reason="XID 79.")], [], "cuda0 has failed."
    )
    assert "! cuda0 has failed." in text
    assert why in text


def test_a_degraded_device_says_why() -> None:
    text = shown([a_gpu(health=Health.DEGRADED, health_reason="it is slowed by heat.", sharing="mps")], [])
    assert line_with(text, "cuda0") == (
        "box cuda0 A100, mps 1, 40.0 GiB degraded: it is slowed by heat ?, unknown of 40.0 GiB"
    )


def test_an_instance_is_free_as_a_whole_or_in_use() -> None:
    mig = {"parent_milli": 285, "whole_only": True, "sharing": "mig"}
    text = shown([a_gpu("cuda1-mig0", **mig), a_gpu("cuda1-mig1", free_compute_milli=0, **mig)], [])
    assert "A100, 2/7 of a GPU whole, 40.0 GiB" in line_with(text, "mig0")
    assert "A100, 2/7 of a GPU in use" in line_with(text, "mig1")


def test_a_lease_shows_what_it_has_what_was_asked_for_and_what_to_read_now() -> None:
    text = shown([], [a_lease_of_an_instance("It uses 93 % of its memory.")])
    assert "cuda1-mig0 (2/7 of a GPU), 20.0 GiB; 0.25 was asked for" in text
    assert "! lease_1: It uses 93 % of its memory." in text


def test_proposals_name_who_would_have_to_move_where_to_and_that_nobody_is_moved() -> None:
    move = ProposedMoveDoc(
        lease_id="lease_of_bob_00000002",
        owner="bob",
        holder="[b]a.ipynb",
        compute_milli=250,
        from_device="cuda0",
        from_hostname="n1",
        to_device="cuda1",
        to_hostname="n2",
    )
    proposal = ProposalDoc(
        lease_id="lease_of_ann_00000001",
        owner="ann",
        position=1,
        waits_for="a whole CUDA device",
        waited_seconds=60,
        moves=[move],
    )
    console = Console(file=io.StringIO(), width=160)
    print_proposals([proposal], console)
    text = " ".join(console.file.getvalue().split())  # type: ignore[attr-defined]
    assert "1. …00000001 (ann), 1 min" in text
    assert "…00000002 (bob) [b]a.ipynb 0.25 cuda0 on n1 cuda1 on n2" in text
    assert "The pool moves nobody" in text
    print_proposals([], console)
    assert "No request waits that would fit" in console.file.getvalue()  # type: ignore[attr-defined]
