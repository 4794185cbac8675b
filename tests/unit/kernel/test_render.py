"""What people see says what is in force, in both forms, and trusts nobody's names."""

from __future__ import annotations

import msgspec
import pytest

from jupyter_gpupool.core.devices import DeviceKind, Health
from jupyter_gpupool.core.leases import EndReason, LeaseState, Resource, Strength, Verified
from jupyter_gpupool.kernel import render
from jupyter_gpupool.protocol.documents import (
    HolderDoc,
    IsolationDoc,
    ProcessDoc,
    QueueEntryDoc,
    QuotaDoc,
    ShareDoc,
    UsageDoc,
)
from tests.support.fake_pool import lease_doc, pool_doc

MEMORY = IsolationDoc(
    resource=Resource.MEMORY,
    strength=Strength.SOFT,
    mechanism="RLIMIT_DATA, tree summed",
    limit="2.0 GiB",
    verified=Verified.READ_BACK,
    note="",
)
COMPUTE = IsolationDoc(
    resource=Resource.COMPUTE,
    strength=Strength.SOFT,
    mechanism="affinity",
    limit="1 core",
    verified=Verified.READ_BACK,
    note="0.5 of a core rounded up",
)
SHARES = [ShareDoc(device_id="CPU-1", device_name="cpu", compute_milli=250, memory_bytes=2**31)]
HELD = lease_doc(shares=SHARES, isolation=[MEMORY, COMPUTE], memory_bytes=2**31, memory_used_bytes=2**30)


def test_a_lease_says_what_is_in_force_for_each_resource():
    text = render.lease(HELD).text
    assert "0.25 of cpu" in text
    assert "2.0 GiB, soft, by RLIMIT_DATA, tree summed; in use: 1.0 GiB" in text
    assert "Note on compute: 0.5 of a core rounded up" in text
    assert "1 core, soft, by affinity" in text


def test_a_limit_that_was_not_looked_at_is_not_yet_in_force():
    pending = msgspec.structs.replace(MEMORY, verified=Verified.PENDING)
    assert "not yet in force" in render.lease(lease_doc(isolation=[pending])).text


@pytest.mark.parametrize(
    "isolation",
    [[], [msgspec.structs.replace(MEMORY, strength=Strength.NONE), COMPUTE]],
    ids=["nothing", "none"],
)
def test_what_is_not_enforced_is_said(isolation):
    text = render.lease(lease_doc(isolation=isolation)).text
    assert "nothing is in force" in text or "not enforced" in text


def test_an_ended_lease_says_why():
    ended = lease_doc(state=LeaseState.ENDED, end_reason=EndReason.HOLD_EXPIRED)
    assert "ended (hold expired)" in render.lease(ended).text


def test_the_pool_marks_the_lease_of_this_process_and_leaves_out_what_others_hold():
    others = lease_doc("lease_theirs", mine=False, holder=HolderDoc(label="secret.ipynb"))
    elsewhere = lease_doc("lease_elsewhere", holder=HolderDoc(label="other.ipynb"))
    shown = render.pool(pool_doc(leases=[HELD, others, elsewhere]), [HELD.id]).text
    assert "this process" in shown
    assert "other.ipynb" in shown
    assert "secret" not in shown


def test_the_pool_shows_the_queue_and_its_warnings():
    entry = QueueEntryDoc(
        position=1,
        lease_id="l",
        mine=True,
        kind=None,
        compute_milli=500,
        memory_bytes=None,
        reason="waiting for 0.5 of a CPU",
        waited_seconds=75.0,
    )
    shown = render.pool(pool_doc(queue=[entry], warnings=["The journal cannot be written."]), []).text
    assert "waiting for 0.5 of a CPU" in shown
    assert "1 min 15 s" in shown
    assert "The journal cannot be written." in shown
    assert "`%gpupool request 0.25` asks for one" in shown


def test_what_comes_from_elsewhere_is_escaped():
    evil = lease_doc(holder=HolderDoc(label="<img src=x onerror=alert(1)>"))
    markup = render.pool(pool_doc(leases=[evil]), []).markup
    assert "<img" not in markup
    assert "&lt;img" in markup


def test_html_has_captions_headers_and_only_theme_colours():
    markup = render.pool(pool_doc(leases=[HELD]), []).markup
    assert "<caption" in markup
    assert 'scope="col"' in markup
    assert "#" not in markup  # no colour of our own: dark and light grounds both work
    assert "var(--jp-" in markup


def test_emulated_devices_are_labelled():
    doc = pool_doc()
    device = msgspec.structs.replace(doc.devices[0], emulated=True, model="A100")
    assert "A100 [emulated]" in render.tables([render.devices([device])]).text


def test_a_missing_reading_is_unknown_and_never_zero():
    assert "unknown" in render.tables([render.devices(pool_doc().devices)]).text


def test_text_has_no_control_characters():
    assert "\x1b" not in render.pool(pool_doc(leases=[HELD]), []).text


def test_usage_is_in_device_hours():
    shown = render.usage(
        [UsageDoc(owner="ann", mine=True, device_seconds=1800.0, leases=3, live_leases=1)]
    ).text
    assert "ann (me)" in shown
    assert "0.500" in shown


GPU = ShareDoc(
    device_id="MIG-1",
    device_name="cuda0-mig1",
    compute_milli=1000,
    memory_bytes=2**34,
    parent_milli=285,
    whole_only=True,
)
NOTHING = msgspec.structs.replace(
    COMPUTE, strength=Strength.NONE, mechanism="time-slicing", limit="none", note="It buys no compute."
)
HOST = [
    msgspec.structs.replace(MEMORY, resource=Resource.HOST_MEMORY, limit="6.0 GiB"),
    msgspec.structs.replace(
        COMPUTE, resource=Resource.PROCESSES, limit="8192", mechanism="cgroup", verified=Verified.PENDING
    ),
]


def test_every_resource_has_its_line_and_what_limits_nothing_says_so():
    text = render.lease(lease_doc(shares=SHARES, isolation=[MEMORY, NOTHING, *HOST])).text
    assert "compute      0.25 of cpu, not enforced (time-slicing)" in text
    assert "Note on compute: It buys no compute." in text
    assert "main memory  6.0 GiB, soft, by RLIMIT_DATA" in text
    assert "processes    8192, not yet in force: soft, by cgroup" in text


def test_a_mig_instance_says_which_part_of_its_gpu_was_granted_for_what_was_asked():
    text = render.lease(lease_doc(shares=[GPU], compute_milli=1000, asked_compute_milli=250)).text
    assert "all of cuda0-mig1 (2/7 of a GPU)" in text
    assert "asked for  0.25" in text


def test_notices_stand_under_the_lease_and_in_the_pool():
    notice = "It uses 93 % of its memory <now>."
    shown = render.lease(lease_doc(notices=[notice]))
    assert notice in shown.text
    assert "&lt;now&gt;" in shown.markup
    pool = render.pool(pool_doc(leases=[lease_doc("lease_12345678", notices=[notice])]), []).text
    assert f"…12345678: {notice}" in pool


def test_why_lists_what_is_in_force_under_its_sentence():
    text = render.reason(lease_doc(isolation=[MEMORY, NOTHING], notices=["Save it."]), "Held (0.25).").text
    assert text.splitlines()[0] == "Held (0.25)."
    assert "memory: 2.0 GiB, soft, by RLIMIT_DATA, tree summed" in text
    assert "Save it." in text
    waiting = lease_doc(state=LeaseState.QUEUED)
    assert render.reason(waiting, "Waiting.").text == "Waiting."


def test_devices_say_how_they_are_shared_what_is_wrong_and_who_uses_them_without_a_lease():
    device = msgspec.structs.replace(
        pool_doc().devices[0],
        name="cuda0",
        sharing="timeslice",
        health=Health.DEGRADED,
        health_reason="it is hot.",
        unmanaged=[ProcessDoc(pid=4711, user="ann", name="python", memory_bytes=2**30)],
        missing={"utilization_percent": "not supported on MIG"},
    )
    text = render.tables([render.devices([device])], render.device_notes([device])).text
    assert "timeslice" in text
    assert "cuda0 is degraded: it is hot." in text
    assert "cuda0 is used without a lease by process 4711 (python, of ann), 1.0 GiB." in text
    assert "unknown" in text
    assert "shared by" not in render.pool(pool_doc(), []).text


def test_usage_shows_what_is_left_of_quotas() -> None:
    doc = UsageDoc(
        owner="ann",
        mine=True,
        device_seconds=1800.0,
        leases=3,
        live_leases=1,
        quotas=[
            QuotaDoc(what="leases", limit=4, used=1, left=3),
            QuotaDoc(what="hours_per_week", kind=DeviceKind.CUDA, limit=20.0, used=7.25, left=12.75),
            QuotaDoc(group="ml", what="memory", kind=DeviceKind.CUDA, limit=2**36, used=2**35, left=2**35),
        ],
    )
    text = render.usage([doc]).text
    assert "My quotas" in text
    for row in ("CUDA device-hours a week", "12.75", "group ml", "64.0 GiB"):
        assert row in text
