"""The authority and its book: who gets a certificate, which ones count, and how the authority is replaced."""

from __future__ import annotations

import ssl
import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from jupyter_gpupool.cluster import certificates
from jupyter_gpupool.cluster.authority.authority import NODE_DAYS, Authority
from jupyter_gpupool.cluster.authority.book import Audit, Book, TokenState
from jupyter_gpupool.cluster.authority.gate import Gate
from jupyter_gpupool.cluster.errors import AuthorityFault, BadCertificateRequest, JoinRefused
from jupyter_gpupool.cluster.tls import ControlRole, Peer
from jupyter_gpupool.protocol.join import BadJoinToken, BadNodeName, JoinToken, check_node_name, read_token


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


def _request() -> str:
    return certificates.make_request(certificates.new_key())


def _token(authority: Authority, *, seconds: float = 60.0, uses: int = 1) -> JoinToken:
    return authority.create_token(seconds=seconds, uses=uses)


def _join(authority: Authority, token: JoinToken, node: str = "node-1", csr: str = "") -> x509.Certificate:
    answer = authority.join(token, node, node, csr or _request())
    return x509.load_pem_x509_certificate(answer.certificate.encode())


def _peer(certificate: x509.Certificate, node: str = "node-1") -> Peer:
    return Peer(role=ControlRole.AGENT, node_id=node, serial=certificate.serial_number)


def test_its_files_are_private_and_it_is_made_once(authority: Authority) -> None:
    assert stat.S_IMODE(authority.directory.stat().st_mode) == 0o700
    assert {stat.S_IMODE(it.stat().st_mode) for it in authority.directory.iterdir()} == {0o600}
    assert Authority(authority.directory).signer.fingerprint == authority.signer.fingerprint


def test_a_token_is_read_as_it_was_printed_and_shows_no_secret(authority: Authority) -> None:
    token = _token(authority)
    assert read_token(f" {token}\n") == token
    assert token.secret not in repr(token)
    assert token.pool_sha256 == authority.anchor.fingerprint
    with pytest.raises(BadJoinToken) as caught:
        read_token(str(token)[:-1])
    assert token.secret not in str(caught.value)


def test_the_book_holds_no_secret(authority: Authority) -> None:
    token = _token(authority)
    assert token.secret.encode() not in authority.book.path.read_bytes()
    assert token.id.encode() in authority.book.path.read_bytes()


def test_a_token_is_exchanged_for_the_certificate_of_one_node(authority: Authority) -> None:
    made = _join(authority, _token(authority))
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.UniformResourceIdentifier) == [f"{certificates.NODE_URI}node-1"]
    made.verify_directly_issued_by(authority.signer.certificate)
    assert (made.not_valid_after_utc - made.not_valid_before_utc).days == NODE_DAYS + 1


def test_what_a_request_asks_for_is_not_what_it_gets(authority: Authority) -> None:
    key = certificates.new_key()
    name = x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, "service")])
    wish = x509.BasicConstraints(ca=True, path_length=None)
    builder = x509.CertificateSigningRequestBuilder().subject_name(name).add_extension(wish, critical=True)
    made = _join(
        authority, _token(authority), csr=certificates.pem(builder.sign(key, hashes.SHA256())).decode()
    )
    assert "CN=agent" in made.subject.rfc4514_string()
    assert made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca is False


def test_other_keys_and_broken_requests_are_refused() -> None:
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    rsa_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    for text in (
        "nothing",
        certificates.pem(builder.sign(rsa_key, hashes.SHA256())).decode(),
        certificates.pem(builder.sign(ec.generate_private_key(ec.SECP384R1()), hashes.SHA256())).decode(),
    ):
        with pytest.raises(BadCertificateRequest):
            certificates.read_request(text)


class TestTokens:
    """What a token is good for."""

    def test_it_is_used_up_by_one_node(self, authority: Authority) -> None:
        token = _token(authority)
        _join(authority, token)
        with pytest.raises(JoinRefused, match="was used already"):
            _join(authority, token, "node-2")
        assert [it.state for it in authority.book.tokens()] == [TokenState.USED]

    def test_the_same_node_with_the_same_key_may_ask_again(self, authority: Authority) -> None:
        token, csr = _token(authority), _request()
        _join(authority, token, csr=csr)
        assert _join(authority, token, csr=csr)

    def test_it_lets_as_many_join_as_was_said(self, authority: Authority) -> None:
        token = _token(authority, uses=2)
        _join(authority, token)
        _join(authority, token, "node-2")
        with pytest.raises(JoinRefused, match="was used already"):
            _join(authority, token, "node-3")

    def test_it_is_over_after_its_time(self, authority: Authority) -> None:
        token = _token(authority, seconds=0.0)
        with pytest.raises(JoinRefused, match="has expired"):
            _join(authority, token)

    def test_it_can_be_revoked(self, authority: Authority) -> None:
        token = _token(authority)
        authority.book.revoke_token(token.id)
        with pytest.raises(JoinRefused, match="was revoked"):
            _join(authority, token)
        with pytest.raises(AuthorityFault, match="no join token"):
            authority.book.revoke_token("ffffffff")

    def test_a_wrong_secret_says_no_more_than_an_unknown_token(self, authority: Authority) -> None:
        token = _token(authority)
        other = JoinToken(id=token.id, secret="x" * 43, pool_sha256=token.pool_sha256)
        unknown = JoinToken(id="ffffffff", secret=token.secret, pool_sha256=token.pool_sha256)
        said = set()
        for wrong in (other, unknown):
            with pytest.raises(JoinRefused) as caught:
                _join(authority, wrong)
            said.add(str(caught.value))
        assert len(said) == 1
        assert _join(authority, token)

    def test_nobody_takes_the_place_of_a_node_that_is_there(self, authority: Authority) -> None:
        _join(authority, _token(authority))
        token = _token(authority)
        with pytest.raises(JoinRefused, match="has joined already"):
            _join(authority, token)
        authority.book.revoke_node("node-1")
        assert _join(authority, token)


@pytest.mark.parametrize("name", ["", "-n", "a b", "n\n", "x" * 64, "../n"])
def test_a_node_cannot_be_called_anything(name: str) -> None:
    with pytest.raises(BadNodeName):
        check_node_name(name)
    assert check_node_name("n2.example") == "n2.example"


class TestGate:
    """Which certificates count."""

    def test_those_in_the_book_pass_for_their_own_node_only(self, authority: Authority) -> None:
        gate, made = Gate(authority.book), _join(authority, _token(authority))
        assert gate.passes(_peer(made))
        assert not gate.passes(_peer(made, "node-2"))
        assert not gate.passes(Peer(role=ControlRole.AGENT, node_id="node-1", serial=7))
        assert not gate.passes(Peer(role=ControlRole.AGENT))

    def test_one_that_another_process_revokes_counts_no_more_at_once(self, authority: Authority) -> None:
        gate, made = Gate(authority.book), _join(authority, _token(authority))
        assert gate.passes(_peer(made))
        Book(authority.book.path).revoke_node("node-1")
        assert not gate.passes(_peer(made))

    def test_one_that_was_revoked_meanwhile_is_not_renewed(self, authority: Authority) -> None:
        made = _join(authority, _token(authority))
        Book(authority.book.path).revoke_node("node-1")
        with pytest.raises(AuthorityFault, match="is void"):
            authority.renew(_peer(made), _request())
        assert len(authority.book.certificates()) == 1
        with pytest.raises(AuthorityFault, match="not one of this pool"):
            authority.renew(Peer(role=ControlRole.AGENT, node_id="node-1", serial=7), _request())

    def test_without_a_book_nobody_passes(self, authority: Authority) -> None:
        gate, made = Gate(authority.book), _join(authority, _token(authority))
        authority.book.path.unlink()
        assert not gate.passes(_peer(made))


class TestRotation:
    """The authority is replaced while nodes are connected."""

    def test_nodes_are_told_to_renew_and_get_theirs_from_the_new_one(self, authority: Authority) -> None:
        before = _join(authority, _token(authority))
        assert not authority.due(_peer(before))
        old = authority.signer.fingerprint
        authority.begin_rotation()
        assert authority.due(_peer(before))
        assert authority.anchor.fingerprint == old
        answer = authority.renew(_peer(before), _request())
        after = x509.load_pem_x509_certificate(answer.certificate.encode())
        after.verify_directly_issued_by(authority.signer.certificate)
        trusted = [
            certificates.fingerprint(it) for it in certificates.read_certificates(answer.trust.encode())
        ]
        assert trusted == [authority.signer.fingerprint, old]
        assert not authority.due(_peer(after))
        gate = Gate(authority.book)
        assert gate.passes(_peer(before))
        assert gate.passes(_peer(after))

    def test_it_is_not_finished_while_a_node_would_be_cut_off(self, authority: Authority) -> None:
        made = _join(authority, _token(authority))
        authority.begin_rotation()
        with pytest.raises(AuthorityFault, match="rotated already"):
            authority.begin_rotation()
        with pytest.raises(AuthorityFault, match="cut off: node-1"):
            authority.end_rotation(force=False)
        authority.renew(_peer(made), _request())
        new = authority.signer.fingerprint
        authority.end_rotation(force=False)
        assert authority.anchor.fingerprint == authority.signer.fingerprint == new
        assert len(certificates.read_certificates(authority.trust)) == 1
        with pytest.raises(AuthorityFault, match="not being rotated"):
            authority.end_rotation(force=False)

    def test_what_another_process_begins_counts_from_the_next_start_on(self, authority: Authority) -> None:
        made = _join(authority, _token(authority))
        Authority(authority.directory).begin_rotation()
        assert not authority.due(_peer(made))
        _join(authority, _token(authority), "node-2").verify_directly_issued_by(authority.anchor.certificate)
        assert Authority(authority.directory).due(_peer(made))

    def test_two_who_begin_at_once_make_one_new_authority(self, authority: Authority) -> None:
        other = Authority(authority.directory)
        other.begin_rotation()
        with pytest.raises(AuthorityFault, match="rotated already"):
            authority.begin_rotation()
        assert authority.signer.fingerprint == other.signer.fingerprint

    def test_it_can_be_forced(self, authority: Authority) -> None:
        _join(authority, _token(authority))
        authority.begin_rotation()
        authority.end_rotation(force=True)
        assert not authority.rotating


def test_everything_is_written_down_and_nothing_secret(authority: Authority) -> None:
    token = _token(authority)
    made = _join(authority, token)
    with pytest.raises(JoinRefused):
        _join(authority, token, "node-2")
    authority.renew(_peer(made), _request())
    authority.book.revoke_token(token.id)
    authority.begin_rotation()
    authority.end_rotation(force=True)
    authority.book.revoke_node("node-1")
    rows = authority.book.audit()
    assert [it.what for it in rows] == [
        *(Audit.TOKEN_CREATED, Audit.NODE_JOINED, Audit.JOIN_REFUSED, Audit.CERTIFICATE_RENEWED),
        *(Audit.TOKEN_REVOKED, Audit.ROTATION_BEGAN, Audit.ROTATION_ENDED, Audit.NODE_REVOKED),
    ]
    assert not any(token.secret in text for it in rows for text in it.detail.values())


def test_the_certificate_of_the_api_proves_a_server_of_that_name_and_no_node(
    authority: Authority, tmp_path: Path
) -> None:
    tls = authority.equip(tmp_path / "tls", node_id="node-0", hosts=("pool.example", "10.0.0.1"))
    (api,) = certificates.read_certificates((tls.directory / "api.pem").read_bytes())
    usage = api.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [x509.oid.ExtendedKeyUsageOID.SERVER_AUTH]
    assert "CN=api" in api.subject.rfc4514_string()
    context = ssl.create_default_context(cafile=str(tls.ca_file))
    context.load_cert_chain(*tls.files(ControlRole.AGENT))
    (own,) = certificates.read_certificates(tls.files(ControlRole.AGENT)[0].read_bytes())
    assert Gate(authority.book).passes(_peer(own, "node-0"))
