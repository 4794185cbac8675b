"""How a client finds its pool.

Rules of this module: the order is fixed (argument, environment, runtime file, JupyterHub, start the embedded
pool); what was tried is listed when nothing was found; a pool that an administrator configured is never
replaced by another one.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from jupyter_gpupool.client.calls import Connection, Source
from jupyter_gpupool.client.errors import PoolUnreachable
from jupyter_gpupool.protocol import names
from jupyter_gpupool.protocol.paths import runtime_dir
from jupyter_gpupool.protocol.tokens import same_token, verify_kernel_token

_HINT = f"Start a pool with `jupyter gpupool serve`, or set {names.ENV_URL} and {names.ENV_TOKEN}."


def autostart_allowed() -> bool:
    """Tell whether this process may start the embedded pool, as far as its environment says."""
    return os.environ.get(names.ENV_AUTOSTART, "") != "0" and names.ENV_HUB_TOKEN not in os.environ


@dataclass(frozen=True, kw_only=True)
class _Search:
    """One search: what was given, and what was tried so far."""

    autostart: bool
    tried: list[str]

    def nothing(self) -> PoolUnreachable:
        """Say that nothing was found."""
        listed = "; ".join(self.tried)
        return PoolUnreachable(f"No pool was found. Tried: {listed}.", hint=_HINT)


def find_pool(url: str | None = None, token: str | None = None, *, autostart: bool = True) -> Connection:
    """Find the pool, and start the embedded one if there is none and that is allowed.

    Parameters
    ----------
    url, token : str, optional
        A pool to use whatever else there is.
    autostart : bool
        False to start nothing.

    Raises
    ------
    PoolUnreachable
        If there is none; the message lists what was tried.
    """
    if url:
        given = token or os.environ.get(names.ENV_TOKEN) or read_token(runtime_dir())
        return Connection(url=url.rstrip("/"), token=given, source=Source.ARGUMENT, ca_file=_ca_file())
    search = _Search(autostart=autostart and autostart_allowed(), tried=["no URL was passed"])
    configured = os.environ.get(names.ENV_URL)
    if configured:
        return _configured(configured.rstrip("/"), search)
    search.tried.append(f"{names.ENV_URL} is not set")
    # A kernel that started before its pool has a token already, and finds the pool where it now is.
    return _local(search, token or os.environ.get(names.ENV_TOKEN, ""))


def _configured(url: str, search: _Search) -> Connection:
    """Use the pool that the environment names; an embedded one may have moved or died."""
    token = os.environ.get(names.ENV_TOKEN, "")
    found = Connection(url=url, token=token, source=Source.ENVIRONMENT, ca_file=_ca_file())
    ours = read_token(runtime_dir())
    if not ours or not token or not (same_token(ours, token) or verify_kernel_token(ours, token)):
        return found
    # The token belongs to this user's embedded pool, so the runtime file knows better where that is.
    from jupyter_gpupool.client.embedded import answers

    if answers(url):
        return found
    search.tried.append(f"{names.ENV_URL} ({url}) does not answer")
    return _local(search, token)


def _local(search: _Search, token: str) -> Connection:
    """Use the pool of the runtime directory, started if it must and may be."""
    from jupyter_gpupool.client.embedded import ensure_embedded, find_running

    runtime = runtime_dir()
    running = find_running(runtime)
    if running is None:
        search.tried.append(f"{runtime / names.POOL_FILE} names no running pool")
        if (hub := _hub(token)) is not None:
            return hub
        search.tried.append(f"{names.ENV_HUB_URL} is not set by a JupyterHub")
    if running is None and not search.autostart:
        search.tried.append(f"starting one is switched off ({_why_no_autostart()})")
        raise search.nothing()
    if running is not None:
        found = Connection(
            url=running.url, token=read_token(runtime), source=Source.RUNTIME_FILE, owner=running.owner
        )
    else:
        found = ensure_embedded(runtime)
    return replace(found, token=token) if token else found


def _hub(token: str) -> Connection | None:
    """Use the pool of this JupyterHub; None where there is none."""
    url, own = os.environ.get(names.ENV_HUB_URL), os.environ.get(names.ENV_HUB_TOKEN)
    if not url or not own:
        return None
    return Connection(url=url.rstrip("/"), token=token or own, source=Source.HUB, ca_file=_ca_file())


def _ca_file() -> str:
    """Return who vouches for a pool on another machine, if that was named."""
    return os.environ.get(names.ENV_CA_FILE, "")


def _why_no_autostart() -> str:
    """Say what keeps this process from starting a pool."""
    if os.environ.get(names.ENV_AUTOSTART) == "0":
        return f"{names.ENV_AUTOSTART}=0"
    return "this is JupyterHub" if names.ENV_HUB_TOKEN in os.environ else "by this caller"


def read_token(runtime: Path) -> str:
    """Read the owner's token of a runtime directory; empty when there is none that we may read."""
    try:
        return (runtime / names.TOKEN_FILE).read_text().strip()
    except OSError:
        return ""
