"""What was proved by exceeding limits is kept, and changes what a lease says."""

from __future__ import annotations

from pathlib import Path

from jupyter_gpupool.backends.probebook import PROBES_FILE, ProbeBook, judged, probed_now
from jupyter_gpupool.core.leases import Resource, Strength, Verified
from jupyter_gpupool.protocol.documents import IsolationDoc


def doc(resource: Resource = Resource.MEMORY, verified: Verified = Verified.READ_BACK) -> IsolationDoc:
    return IsolationDoc(
        resource=resource, strength=Strength.HARD, mechanism="MPS", limit="4 GiB", verified=verified
    )


def test_results_are_kept_by_device_driver_and_mechanism(tmp_path: Path) -> None:
    path = tmp_path / "data" / PROBES_FILE
    held = probed_now([Resource.MEMORY], {}, "It held.")
    ProbeBook(path).write("GPU-1", "615.71", "mps", held)
    ProbeBook(path).write(
        "GPU-1", "615.71", "driver", probed_now([], {Resource.MEMORY: "It broke."}, "It broke.")
    )
    book = ProbeBook(path)
    assert book.result("GPU-1", "615.71", "mps") == held
    broken = book.result("GPU-1", "615.71", "driver")
    assert broken is not None
    assert not broken.ok
    assert [book.result(*key) for key in (("GPU-1", "620.1", "mps"), ("GPU-2", "615.71", "mps"))] == [
        None,
        None,
    ]


def test_what_another_process_wrote_is_seen(tmp_path: Path) -> None:
    path = tmp_path / PROBES_FILE
    book = ProbeBook(path)
    assert book.result("GPU-1", "615.71", "mps") is None
    ProbeBook(path).write("GPU-1", "615.71", "mps", probed_now([Resource.COMPUTE], {}, "It held."))
    found = book.result("GPU-1", "615.71", "mps")
    assert found is not None
    assert found.proves(Resource.COMPUTE)
    assert not found.proves(Resource.MEMORY)


def test_a_file_that_cannot_be_read_proves_nothing_and_is_written_anew(tmp_path: Path) -> None:
    path = tmp_path / PROBES_FILE
    path.write_text('{"format": 1, "results": {"x"')
    book = ProbeBook(path)
    assert book.result("GPU-1", "615.71", "mps") is None
    book.write("GPU-1", "615.71", "mps", probed_now([Resource.MEMORY], {}, "It held."))
    assert book.result("GPU-1", "615.71", "mps") is not None
    path.write_text('{"format": 99, "results": {}}')
    assert ProbeBook(path).result("GPU-1", "615.71", "mps") is None


def test_a_limit_that_was_exceeded_and_held_is_probed() -> None:
    held = probed_now([Resource.MEMORY], {}, "It held.")
    assert judged(doc(), held).verified is Verified.PROBED
    assert judged(doc(Resource.COMPUTE), held).verified is Verified.READ_BACK
    assert judged(doc(), None) == doc()


def test_a_limit_that_did_not_hold_is_none_and_says_what_happened() -> None:
    broken = probed_now([], {Resource.MEMORY: "5 GiB could be allocated."}, "5 GiB could be allocated.")
    said = judged(doc(), broken)
    assert said.strength is Strength.NONE
    assert "5 GiB could be allocated." in said.note
    assert said.note.startswith("A probe on 20")


def test_a_limit_that_is_not_in_force_yet_stays_pending() -> None:
    pending = doc(verified=Verified.PENDING)
    assert judged(pending, probed_now([Resource.MEMORY], {}, "It held.")) == pending
