"""Listening for other machines: what is refused, whose certificate it has, which port is kept."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from jupyter_gpupool.protocol.paths import make_runtime_dir
from jupyter_gpupool.service.joining import own_names, prepare
from jupyter_gpupool.service.settings import BadSettings, PoolService, ServiceSettings

EVERYWHERE = "0.0.0.0"  # noqa: S104 - it is what is tried
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="pools run on Linux")


def _settings(tmp_path: Path, listen: str, **fields: object) -> ServiceSettings:
    data = tmp_path / "data"
    data.mkdir(exist_ok=True)
    return ServiceSettings(runtime=make_runtime_dir(), data=data, owner="ann", listen=listen, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("ip", [EVERYWHERE, "10.0.0.1", "pool.example", ""])
def test_plain_http_never_leaves_the_machine(ip: str) -> None:
    with pytest.raises(BadSettings, match=r"plain HTTP never leaves the machine. Use --listen"):
        PoolService(ip=ip).settings()


def test_a_users_own_pool_serves_no_other_machines() -> None:
    with pytest.raises(BadSettings, match="own pool serves no other machines"):
        PoolService(listen="10.0.0.1").settings(embedded=True)


def test_the_certificate_is_for_what_it_listens_on_and_what_was_named(tmp_path: Path) -> None:
    found = own_names(_settings(tmp_path, "10.0.0.1", allowed_hosts=("pool.example",)))
    assert {"10.0.0.1", "pool.example", "localhost", "127.0.0.1"} <= set(found)


def test_on_all_addresses_it_is_for_each_of_them(tmp_path: Path) -> None:
    found = own_names(_settings(tmp_path, EVERYWHERE))
    assert EVERYWHERE not in found
    assert "127.0.0.1" in found


def test_nodes_find_the_control_plane_where_it_was(tmp_path: Path) -> None:
    parts = prepare(_settings(tmp_path, "127.0.0.1"))
    assert parts.control_port(0) == 0
    parts.remember("tls://127.0.0.1:4711")
    assert prepare(_settings(tmp_path, "127.0.0.1")).control_port(0) == 4711
    assert parts.control_port(8751) == 8751


def test_the_agent_of_the_same_machine_gets_a_certificate_only_if_there_is_one(tmp_path: Path) -> None:
    parts = prepare(_settings(tmp_path, "127.0.0.1", start_agent=False))
    assert not (parts.tls.directory / "agent.pem").exists()
    prepare(_settings(tmp_path, "127.0.0.1"))
    prepare(_settings(tmp_path, "127.0.0.1"))
    assert parts.tls.complete()
    assert len(parts.authority.book.certificates()) == 1
