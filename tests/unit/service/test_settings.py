"""Settings: read once, checked, and explained."""

from __future__ import annotations

import pytest
from traitlets.config import Config

from jupyter_gpupool.core.config import PoolConfig
from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.service.settings import BadSettings, PoolService


def test_every_setting_is_explained() -> None:
    for name, trait in PoolService.class_traits(config=True).items():
        assert trait.help, name


def test_the_defaults_are_the_cores() -> None:
    assert PoolService().pool_config() == PoolConfig()


def test_the_journal_of_emulated_devices_is_another() -> None:
    real = PoolService().settings().journal
    emulated = PoolService(emulate="1xA100-80GB").settings().journal
    assert real != emulated
    assert real.name == emulated.name == "journal.sqlite3"


def test_tokens_do_not_show_in_a_log() -> None:
    settings = PoolService(tokens={"bob": "a-secret-token-of-bob"}).settings()
    assert settings.tokens == {"bob": "a-secret-token-of-bob"}
    assert "a-secret" not in repr(settings)


@pytest.mark.parametrize(
    ("settings", "embedded", "sentence"),
    [
        ({"ip": "0.0.0.0"}, False, "TLS"),  # noqa: S104 - refused
        ({"ip": "::"}, False, "TLS"),
        ({"ip": "a host"}, False, "loopback"),
        ({"tokens": {"bob": "short"}}, False, "16"),
        ({"tokens": {"": "long-enough-a-token"}}, False, "no name"),
        ({"tokens": {"ann": "the-same-token-twice", "bob": "the-same-token-twice"}}, False, "two owners"),
        ({"tokens": {"bob": "long-enough-a-token"}}, True, "shared"),
    ],
)
def test_what_cannot_work_is_refused(settings: dict[str, object], embedded: bool, sentence: str) -> None:
    with pytest.raises(BadSettings, match=sentence):
        PoolService(config=Config(PoolService=settings)).settings(embedded=embedded)


@pytest.mark.parametrize("ip", ["127.0.0.1", "127.8.9.1", "::1", "localhost"])
def test_loopback_is_taken_by_any_name(ip: str) -> None:
    assert PoolService(ip=ip).settings().ip == ip


def test_devices_that_cannot_be_emulated_are_refused_before_anything_starts() -> None:
    with pytest.raises(InvalidValue, match="emulated"):
        PoolService(emulate="2xAbacus").settings()
