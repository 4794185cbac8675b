"""Certificates of the control plane."""

from __future__ import annotations

import ssl
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cryptography import x509

from jupyter_gpupool.cluster.tls import VALID_DAYS, ControlRole, ControlTLS, ensure_control_tls, peer_role


def test_they_are_made_once_and_private(tmp_path: Path) -> None:
    tls = ensure_control_tls(tmp_path / "tls")
    first = {path.name: path.read_bytes() for path in tls.directory.iterdir()}
    again = ensure_control_tls(tmp_path / "tls")
    assert {path.name: path.read_bytes() for path in again.directory.iterdir()} == first
    assert stat.S_IMODE(tls.directory.stat().st_mode) == 0o700
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in tls.directory.iterdir())


def test_the_key_of_the_authority_is_written_nowhere(tmp_path: Path) -> None:
    tls = ensure_control_tls(tmp_path / "tls")
    keys = [path.name for path in tls.directory.iterdir() if b"PRIVATE KEY" in path.read_bytes()]
    assert sorted(keys) == ["agent.key", "service.key"]


def test_a_role_has_its_name_and_is_valid_for_ten_years(tmp_path: Path) -> None:
    tls = ensure_control_tls(tmp_path / "tls")
    for role in ControlRole:
        certificate = x509.load_pem_x509_certificate(tls.files(role)[0].read_bytes())
        assert role.value in certificate.subject.rfc4514_string()
        lifetime = certificate.not_valid_after_utc - certificate.not_valid_before_utc
        assert lifetime.days == VALID_DAYS + 1


def test_an_incomplete_set_is_made_anew(tmp_path: Path) -> None:
    tls = ensure_control_tls(tmp_path / "tls")
    before = tls.ca_file.read_bytes()
    tls.files(ControlRole.AGENT)[1].unlink()
    assert ensure_control_tls(tmp_path / "tls").complete()
    assert tls.ca_file.read_bytes() != before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tls", "tls.lock"]


def test_whoever_comes_at_the_same_time_gets_the_same(tmp_path: Path) -> None:
    def make(_: int) -> bytes:
        return ensure_control_tls(tmp_path / "tls").ca_file.read_bytes()

    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(make, range(8)))) == 1


def test_dask_is_given_mutual_tls_and_one_role_only(tmp_path: Path) -> None:
    security = ensure_control_tls(tmp_path / "tls").security("worker")
    assert security.require_encryption is True
    assert security.tls_min_version is ssl.TLSVersion.TLSv1_3
    assert security.tls_worker_cert.endswith("agent.pem")
    assert security.tls_scheduler_key is None
    assert security.get_listen_args("worker")["ssl_context"].verify_mode is ssl.CERT_REQUIRED


def test_a_role_is_read_from_a_verified_certificate_only() -> None:
    assert peer_role({"subject": ((("commonName", "agent"),),)}) is ControlRole.AGENT
    assert peer_role({"subject": ((("commonName", "somebody"),),)}) is None
    assert peer_role({}) is None
    assert peer_role(None) is None
    assert not ControlTLS(Path("/nowhere")).complete()
