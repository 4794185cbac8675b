"""``jupyter gpupool token`` and ``certs``, as an administrator types them."""

from __future__ import annotations

import sys

import pytest
from traitlets.config import SingletonConfigurable

from jupyter_gpupool.app import GPUPoolApp
from jupyter_gpupool.protocol.join import read_token

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="pools run on Linux")


class Terminal:
    """Runs commands, and keeps what they print."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, line: str, *, status: int = 0) -> str:
        """Run a command, which must end with this status; return what it said."""
        _forget()
        with pytest.raises(SystemExit) as ended:
            GPUPoolApp.launch_instance(line.split())
        _forget()
        out, err = self._capsys.readouterr()
        assert ended.value.code == status, err
        return out if status == 0 else err


def _forget() -> None:
    """Let the next command be the only one again."""
    waiting: list[type[SingletonConfigurable]] = [GPUPoolApp, *GPUPoolApp.__mro__[1:2]]
    while waiting:
        kind = waiting.pop()
        kind.clear_instance()
        waiting += kind.__subclasses__()


@pytest.fixture
def type_(capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal(capsys)


def test_a_token_is_printed_once_listed_and_revoked(type_: Terminal) -> None:
    type_("certs create")
    token = read_token(type_("token create --join --for 2h --uses 3 --note rack"))
    listed = type_("token list")
    assert token.id in listed
    assert "rack" in listed
    assert token.secret not in listed
    assert "can be used no more" in type_(f"token revoke {token.id}")
    assert "revoked" in type_("token list")
    assert "no join token “00000000”" in type_("token revoke 00000000", status=1)
    assert token.secret not in type_("certs audit")


def test_where_there_is_no_authority_none_is_made_by_the_way(type_: Terminal) -> None:
    # somebody who is not the service's user would hand out tokens that are good for nothing
    for line in ("token create --join", "token list", "certs show", "certs rotate"):
        assert "has no certificate authority yet" in type_(line, status=1)


def test_what_is_missing_is_said(type_: Terminal) -> None:
    type_("certs create")
    assert "Add --join" in type_("token create", status=1)
    assert "Name one node" in type_("certs revoke", status=1)
    assert "No node “n9”" in type_("certs revoke n9", status=1)
    assert "is not being rotated" in type_("certs rotate --finish", status=1)


def test_the_authority_is_made_once_shown_and_rotated_in_two_steps(type_: Terminal) -> None:
    made = type_("certs create")
    assert type_("certs create") == made
    assert "authority" in type_("certs show")
    assert "Restart the service" in type_("certs rotate")
    assert "old authority" in type_("certs show")
    assert "rotated already" in type_("certs rotate", status=1)
    assert "trusted no more" in type_("certs rotate --finish")
    assert "old authority" not in type_("certs show")
    assert "rotation_ended" in type_("certs audit")
