"""Argument, environment, runtime file, start: in this order, and what was tried is told."""

from __future__ import annotations

import os

import pytest

from jupyter_gpupool.client import discovery
from jupyter_gpupool.client.calls import Source
from jupyter_gpupool.client.discovery import find_pool
from jupyter_gpupool.client.embedded import start_ticks
from jupyter_gpupool.client.errors import PoolUnreachable
from jupyter_gpupool.protocol import names
from jupyter_gpupool.protocol.codec import encode
from jupyter_gpupool.protocol.documents import RuntimeFile
from jupyter_gpupool.protocol.paths import make_runtime_dir, owner_token
from jupyter_gpupool.protocol.tokens import KernelClaim, mint_kernel_token
from tests.support.scripted_pool import ScriptedPool


def announce(pool: ScriptedPool, **changes: object) -> str:
    """Write the runtime file of a pool that runs in this process; return the owner's token."""
    runtime = make_runtime_dir()
    values: dict[str, object] = {
        "format": names.FORMAT,
        "api": pool.api,
        "version": "9",
        "url": pool.url,
        "pid": os.getpid(),
        "pid_start": start_ticks(os.getpid()),
        "owner": "ann",
        "embedded": True,
        "control": "",
    }
    (runtime / names.POOL_FILE).write_bytes(encode(RuntimeFile(**(values | changes))))
    return owner_token(runtime)


def test_an_argument_wins(monkeypatch):
    monkeypatch.setenv(names.ENV_URL, "http://elsewhere")
    found = find_pool("http://here/", "t")
    assert (found.url, found.token, found.source) == ("http://here", "t", Source.ARGUMENT)


def test_the_environment_wins_over_the_runtime_file(monkeypatch):
    with ScriptedPool() as pool:
        announce(pool)
        monkeypatch.setenv(names.ENV_URL, "https://hub.example/pool/")
        monkeypatch.setenv(names.ENV_TOKEN, "of-the-hub")
        found = find_pool()
    assert (found.url, found.token) == ("https://hub.example/pool", "of-the-hub")
    assert found.source is Source.ENVIRONMENT
    assert pool.asked == []


def test_a_running_pool_of_this_user_is_joined():
    with ScriptedPool() as pool:
        token = announce(pool)
        found = find_pool(autostart=False)
    assert (found.url, found.token, found.owner) == (pool.url, token, "ann")
    assert found.source is Source.RUNTIME_FILE


def test_a_kernels_own_token_is_used_where_the_url_comes_from_the_runtime_file(monkeypatch):
    monkeypatch.setenv(names.ENV_TOKEN, "gpk.of-the-kernel.x")
    with ScriptedPool() as pool:
        announce(pool)
        found = find_pool(autostart=False)
    assert (found.url, found.token) == (pool.url, "gpk.of-the-kernel.x")


def test_a_kernel_of_the_embedded_pool_follows_it_to_its_new_address(monkeypatch):
    with ScriptedPool() as pool:
        token = mint_kernel_token(announce(pool), KernelClaim(owner="ann", kernel_id="k", generation=1))
        monkeypatch.setenv(names.ENV_URL, "http://127.0.0.1:1")
        monkeypatch.setenv(names.ENV_TOKEN, token)
        found = find_pool(autostart=False)
    assert (found.url, found.token) == (pool.url, token)


def test_a_pool_that_an_administrator_named_is_never_replaced(monkeypatch):
    with ScriptedPool() as pool:
        announce(pool)
        monkeypatch.setenv(names.ENV_URL, "http://127.0.0.1:1")
        monkeypatch.setenv(names.ENV_TOKEN, "a-token-of-another-pool")
        assert find_pool().url == "http://127.0.0.1:1"


@pytest.mark.parametrize(
    ("change", "value"),
    [("pid", 2**22 + 1), ("pid_start", 1), ("api", names.API_MAJOR + 1), ("url", "http://127.0.0.1:1")],
)
def test_a_stale_runtime_file_names_no_pool(change, value):
    with ScriptedPool() as pool:
        announce(pool, **{change: value})
        with pytest.raises(PoolUnreachable, match="names no running pool"):
            find_pool(autostart=False)


def test_what_was_tried_is_listed(monkeypatch):
    monkeypatch.setenv(names.ENV_AUTOSTART, "0")
    with pytest.raises(PoolUnreachable) as caught:
        find_pool()
    message = str(caught.value)
    for part in ("no URL was passed", names.ENV_URL, names.POOL_FILE, f"{names.ENV_AUTOSTART}=0"):
        assert part in message
    assert "jupyter gpupool serve" in message


def test_nothing_is_started_under_a_hub(monkeypatch):
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "secret-of-the-hub")
    assert not discovery.autostart_allowed()
    with pytest.raises(PoolUnreachable, match="this is JupyterHub") as caught:
        find_pool()
    assert "secret-of-the-hub" not in str(caught.value)
