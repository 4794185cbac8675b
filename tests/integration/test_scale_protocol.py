"""How the parts of a session cluster speak: UCX where it is, by a stand-in that brings its names over TCP."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.notebook import notebook
from tests.support.pool_process import PoolProcess, running_pool, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.beside]
#: Dask's own TCP under another name; like UCX it knows no keys.
STAND_IN = """
from distributed.comm import tcp

class Comm(tcp.TCP):
    pass

class Connector(tcp.TCPConnector):
    prefix, comm_class = "ucxx://", Comm

class Listener(tcp.TCPListener):
    prefix, comm_class = "ucxx://", Comm

class Backend(tcp.TCPBackend):
    _connector_class, _listener_class = Connector, Listener
"""
BROKEN = "raise ImportError('libucxx.so: cannot open shared object file')"


@pytest.fixture
def pool(pool_environment: dict[str, str]) -> Iterator[PoolProcess]:
    with running_pool(pool_environment) as running:
        yield running


def with_ucx(environment: dict[str, str], folder: Path, source: str) -> dict[str, str]:
    """Return an environment in which a package brings UCX."""
    about = folder / "ucx_stand_in-1.0.dist-info"
    about.mkdir(parents=True)
    (folder / "ucx_stand_in.py").write_text(source)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: ucx-stand-in\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[distributed.comm.backends]\nucxx = ucx_stand_in:Backend\n")
    path = [environment["PYTHONPATH"]] if environment.get("PYTHONPATH") else []
    return {**environment, "PYTHONPATH": os.pathsep.join([*path, str(folder)])}


def test_what_is_not_installed_is_named_before_a_lease_is_asked_for(
    pool: PoolProcess, pool_environment: dict[str, str], tmp_path: Path
) -> None:
    with notebook(pool_environment) as book:
        said = book.run("%gpupool scale 2 --share 0.2 --protocol ucx").text
        assert "UCX is not installed where this kernel runs. Install distributed-ucxx-cu12" in said
        assert "Traceback" not in said
        said = book.run("import jupyter_gpupool as gpupool; gpupool.scale(2, protocol='carrier')").text
        assert "“carrier” is no protocol of a session cluster. Use tls or ucx." in said
    with notebook(with_ucx(pool_environment, tmp_path / "broken", BROKEN)) as book:
        said = book.run("%gpupool scale 2 --share 0.2 --protocol ucx").text
        assert "UCX is installed and cannot be used: libucxx.so: cannot open shared object file." in said
    assert pool.get("/api/v1/leases").body == []


def test_all_parts_speak_it_where_it_is_and_it_is_said_that_it_has_no_keys(
    pool: PoolProcess, pool_environment: dict[str, str], tmp_path: Path
) -> None:
    with notebook(with_ucx(pool_environment, tmp_path / "ucx", STAND_IN)) as book:
        first = book.ok("%gpupool scale 1 --share 0.2 --protocol ucx")
        assert "UCX has no keys" in first.stderr
        assert "1 of 1 worker with a share of 0.2 runs." in first.result
        ends = "cluster.scheduler_address, client.scheduler.address, *client.has_what()"
        assert book.ok(f"{{it.partition('://')[0] for it in ({ends})}}").result == "{'ucxx'}"
        assert book.ok("client.submit(sum, [1, 2, 3]).result()").result == "6"
        assert "This cluster speaks ucxx" in book.run("%gpupool scale 2 --protocol tls").text
        assert "1 of 1 worker" in book.ok("%gpupool scale 1 --protocol ucx").result
        book.ok("cluster.close()")
        wait_for(lambda: pool.get("/api/v1/leases").body == [], "the lease to be given back")
