"""What is pure of MPS: numbers, places, sentences, and what is called hard."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_gpupool.backends._nvml import NVML
from jupyter_gpupool.backends.base import ProcessMark
from jupyter_gpupool.backends.nvidia.gpu import GPU
from jupyter_gpupool.backends.nvidia.mps import answers, isolation, places, words
from jupyter_gpupool.backends.nvidia.mps.answers import ServerState, ServerStatus
from jupyter_gpupool.backends.nvidia.mps.errors import MPSUnreadable
from jupyter_gpupool.backends.nvidia.mps.ledger import DaemonRecord, Ledger, Numbers
from jupyter_gpupool.backends.nvidia.mps.looking import Looker, most_clients
from jupyter_gpupool.backends.nvidia.mps.survey import ServerView, Survey, culprits
from jupyter_gpupool.backends.nvidia.rungs.base import Site
from jupyter_gpupool.backends.processtree import ProcessWatch
from jupyter_gpupool.backends.procfs import ProcFS
from jupyter_gpupool.backends.rules import NodeRules
from jupyter_gpupool.core.leases import Resource, Strength, Verified
from jupyter_gpupool.protocol.documents import IsolationDoc
from jupyter_gpupool.protocol.messages import ShareOrder

MIB, GIB = 2**20, 2**30
UUID = "GPU-0192f0c1-0000"


def gpu(compute_mode: str = "exclusive_process") -> GPU:
    return GPU(
        uuid=UUID,
        name="cuda0",
        model="NVIDIA H200",
        memory_bytes=139 * GIB,
        multiprocessors=132,
        pci_bus_id="00000000:3B:00.0",
        driver="615.71",
        compute_capability=(9, 0),
        compute_mode=compute_mode,
    )


def standing(
    *, exclusive: bool = True, mode: str = "exclusive_process", daemon: int | None = 0, holder: int = 1000
) -> isolation.Standing:
    rules = NodeRules(exclusive_process=exclusive)
    return isolation.Standing(gpu=gpu(mode), rules=rules, daemon_uid=daemon, holder_uid=holder)


def server(*, memory_mib: int | None = 8192, percentage: float = 25.0) -> ServerView:
    state = ServerState(
        status=ServerStatus.ACTIVE, percentage=percentage, memory_mib=memory_mib, clients=(4711,)
    )
    return ServerView(pid=17, uid=1000, state=state)


def memory_of(docs: list[IsolationDoc]) -> IsolationDoc:
    return next(doc for doc in docs if doc.resource is Resource.MEMORY)


NUMBERS = Numbers(percentage=25, memory_mib=8192)


@pytest.mark.parametrize(
    ("milli", "size", "percentage", "mib"),
    [
        (250, 8 * GIB, 25, 8192),
        (333, 8 * GIB + MIB - 1, 33, 8192),
        (1, 1, 1, 1),
        (1000, 80 * GIB, 100, 81920),
    ],
)
def test_a_share_is_rounded_down_to_what_mps_takes(milli: int, size: int, percentage: int, mib: int) -> None:
    order = ShareOrder(device_id=UUID, compute_milli=milli, memory_bytes=size)
    assert isolation.numbers_of(order) == Numbers(percentage=percentage, memory_mib=mib)


def test_the_environment_names_the_gpu_by_its_uuid() -> None:
    assert isolation.environment(UUID, NUMBERS) == {
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "25",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"{UUID}=8192M",
    }


@pytest.mark.parametrize(
    ("where", "what", "strength", "why"),
    [
        (standing(), server(), Strength.HARD, "Each process has this limit for itself"),
        (standing(exclusive=False), server(), Strength.SOFT, "exclusive_process is off"),
        (standing(mode="default"), server(), Strength.SOFT, "compute mode is default"),
        (standing(mode=""), server(), Strength.SOFT, "compute mode is unknown"),
        (standing(holder=0), server(), Strength.SOFT, "The holder is root"),
        (standing(daemon=1000), server(), Strength.SOFT, "runs as the holder's own user"),
        (standing(daemon=None), server(), Strength.SOFT, "could command it"),
        (standing(), server(memory_mib=None), Strength.SOFT, "does not limit memory"),
        (standing(), server(memory_mib=16384), Strength.SOFT, "allows 16.0 GiB"),
    ],
)
def test_memory_is_hard_only_where_the_holder_can_neither_change_the_limit_nor_leave(
    where: isolation.Standing, what: ServerView, strength: Strength, why: str
) -> None:
    found = memory_of(isolation.in_force(NUMBERS, what, where))
    assert (found.strength, found.limit, found.verified) == (strength, "8.0 GiB", Verified.READ_BACK)
    assert why in found.note


def test_compute_is_never_called_hard() -> None:
    docs = [*isolation.in_force(NUMBERS, server(), standing()), *isolation.pending(NUMBERS, standing())]
    assert {doc.strength for doc in docs if doc.resource is Resource.COMPUTE} == {Strength.SOFT}


def test_where_nothing_is_in_force_the_lease_says_why() -> None:
    for doc in isolation.nothing("CUDA ran without MPS."):
        assert (doc.strength, doc.limit, doc.note) == (Strength.NONE, "none", "CUDA ran without MPS.")


@pytest.mark.parametrize(
    ("driver", "clients"), [("550.54", 48), ("589.1", 48), ("590.10", 60), ("615.71", 60), ("", 48)]
)
def test_how_many_clients_a_server_takes_depends_on_the_driver(driver: str, clients: int) -> None:
    assert most_clients(driver) == clients


@pytest.mark.parametrize(
    ("clients", "uid", "status", "said"),
    [
        (59, 1000, ServerStatus.ACTIVE, ""),
        (60, 1000, ServerStatus.ACTIVE, "has its most clients, 60"),
        (1, 1001, ServerStatus.ACTIVE, "serves uid 1001 on cuda0 now (process 1), and CUDA of another user"),
        (0, 1001, ServerStatus.ACTIVE, ""),
        (
            2,
            1000,
            ServerStatus.FAULT,
            "a fatal fault and takes nobody until processes 1 and 2 have ended",
        ),
        (0, 1000, ServerStatus.FAULT, ""),
    ],
)
def test_whoever_could_not_start_cuda_is_told_beforehand(
    clients: int, uid: int, status: ServerStatus, said: str
) -> None:
    state = ServerState(status=status, percentage=25.0, memory_mib=8192, clients=tuple(range(1, clients + 1)))
    survey = Survey(servers=(ServerView(pid=17, uid=uid, state=state),))
    looker = Looker(NVML(""), NodeRules(), ProcessWatch(ProcFS(), lambda: 0.0))
    order = ShareOrder(device_id=UUID, compute_milli=250, memory_bytes=8 * GIB)
    mark = ProcessMark(pid=1, start_ticks=1)
    site = Site(lease_id="lease_a", gpu=gpu(), share=order, holder=mark, uid=1000, cuda_started=False)
    found = looker.refusal(site, survey)
    assert said in found
    assert bool(said) == bool(found)


def test_an_answer_is_read_as_far_as_it_makes_sense() -> None:
    busy = answers.state("ACTIVE\n25.0\n8G\n4711\n4712\n", 17)
    assert (busy.percentage, busy.memory_mib, busy.clients) == (25.0, 8192, (4711, 4712))
    free = answers.state("ACTIVE\n100.0\n4711\n", 17)
    assert (free.memory_mib, free.clients) == (None, (4711,))
    assert answers.state("FAULT\n100.0\n0M\n", 17).memory_mib is None
    assert answers.limits("50.0\n25.0\n512M\n") == (25.0, 512)
    for nonsense in ("", "INACTIVE\n25.0\n", "ACTIVE", "ACTIVE\n250.0\n", "ACTIVE\n25.0\n8G\nnobody\n"):
        with pytest.raises(MPSUnreadable, match="MPS"):
            answers.state(nonsense, 17)


def test_the_log_blames_the_latest_client(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text(
        "[Server 17] New client 4711 connected\n"
        "[Server 17] Client {4712, 1} encountered a fatal GPU error\n"
        "[Server 17] Client 4713 raised a fatal exception\n"
        "[Server 17] Client 4711 disconnected\n"
    )
    assert culprits(places.Place(pipes=tmp_path, logs=tmp_path)) == (4713, 4712)
    assert culprits(places.Place(pipes=tmp_path, logs=tmp_path / "none")) == ()


@pytest.mark.parametrize("runtime", ["/run/jupyter_gpupool", "/home/ann/" + "a-long-name/" * 12 + "run"])
@pytest.mark.parametrize("others", [False, True])
def test_pipes_lie_where_a_socket_fits(runtime: str, others: bool) -> None:
    place = places.own_place(Path(runtime), UUID, open_to_others=others)
    assert len(str(place.pipes / "control_privileged")) <= 107
    assert place != places.own_place(Path(runtime), "GPU-2", open_to_others=others)


def test_a_directory_that_others_may_write_to_is_no_place_for_pipes(tmp_path: Path) -> None:
    place = places.Place(pipes=tmp_path / "m" / "k" / "p", logs=tmp_path / "m" / "k" / "l")
    (tmp_path / "m").mkdir()
    (tmp_path / "m").chmod(0o777)
    with pytest.raises(Exception, match="Remove it"):
        places.make(place, open_to_others=True)


def test_an_administrators_directory_counts_only_with_a_socket_in_it(tmp_path: Path) -> None:
    named = {"CUDA_MPS_PIPE_DIRECTORY": str(tmp_path)}
    assert places.administrators(named) is None
    (tmp_path / "control").touch()
    found = places.administrators(named)
    assert found is not None
    assert found.pipes == tmp_path


def test_a_ledger_that_cannot_be_read_is_none_and_leaves_no_lock(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "run")
    with ledger.locked(UUID):
        ledger.write(DaemonRecord(uuid=UUID, pipes="p", logs="l", own=True, multiuser=False))
        assert [record.uuid for record in ledger.all()] == [UUID]
    next((tmp_path / "run" / "mps").glob("*.json")).write_text("nonsense")
    assert ledger.read(UUID) is None
    with ledger.locked(UUID):
        ledger.forget(UUID)
    assert list((tmp_path / "run").iterdir()) == []


def test_sentences_name_processes_as_people_do() -> None:
    one = words.without_mps(gpu(), [4711])
    assert one.startswith("CUDA ran without MPS in process 4711 on cuda0")
    assert "processes 1, 2 and 3" in words.without_mps(gpu(), [1, 2, 3])
    assert "process 1 and 3 more" in words.without_mps(gpu(), [1, 2, 3, 4])
    assert "so uid 1000 cannot reach its MPS daemon" in words.unreachable(1000)
    assert "(process 5 of lease_a caused it)" in words.fault(gpu(), "process 5 of lease_a", 2)
    assert words.waiting(gpu(), server()).startswith("MPS serves uid 1000 on cuda0 now: the first CUDA call")
