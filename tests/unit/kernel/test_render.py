"""What people see says what is in force, in both forms, and trusts nobody's names."""

from __future__ import annotations

import msgspec
import pytest

from jupyter_gpupool.core.leases import EndReason, LeaseState, Resource, Strength, Verified
from jupyter_gpupool.kernel import render
from jupyter_gpupool.protocol.documents import HolderDoc, IsolationDoc, QueueEntryDoc, ShareDoc, UsageDoc
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
