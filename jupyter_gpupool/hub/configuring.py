"""The configuration of a Hub for a pool.

Rules of this module: what the administrator has set stays in force, and ours is added to it; nothing of
JupyterHub is imported, so that any version of it can read its configuration.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.hub.spawning import Before, Offers, Spawning
from jupyter_gpupool.protocol import names

#: Where a pool that the Hub manages listens, on loopback.
PORT = 8752
#: Our scopes in the Hub, and what they are.
SCOPES: Mapping[str, Mapping[str, Any]] = {
    "custom:gpupool:read": {"description": "See the GPU pool, and one's own leases in it"},
    "custom:gpupool:lease": {
        "description": "Ask for shares of GPUs, and change and end one's own leases",
        "subscopes": ["custom:gpupool:read"],
    },
    "custom:gpupool:report": {"description": "Read the metrics of the GPU pool, which are about everybody"},
    "custom:gpupool:admin": {
        "description": "See who holds what in the GPU pool, and end anybody's leases",
        "subscopes": ["custom:gpupool:lease", "custom:gpupool:report"],
    },
}
#: What the token of a server may do if nobody says otherwise.
_SERVER_SCOPES = ("users:activity!user", "access:servers!server")
#: What a pool is told where leases wait for servers that start: for how long, seconds.
_PATIENCE = ("--PoolService.attach_seconds=300",)
#: The one role that we define.
_ADMIN_ROLE = "gpupool-admin"


class BadHubConfiguration(GPUPoolError):
    """Raised when `configure` is told what cannot work. The message names the argument."""

    code = "bad_hub_configuration"


def configure(
    c: Any,
    *,
    name: str = "gpupool",
    port: int = PORT,
    url: str = "",
    api_token: str = "",
    server_url: str = "",
    arguments: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    administrators: Sequence[str] = (),
    administrator_groups: Sequence[str] = (),
    offers: Sequence[str | Mapping[str, Any]] | Offers = (),
    offer_wait_minutes: int = 30,
    server_host: str = "",
) -> None:
    """Give a Hub a pool.

    Parameters
    ----------
    c : Config
        The configuration of ``jupyterhub_config.py``.
    name, port : str, int
        Name of the pool as a service of the Hub, and where one that the Hub starts listens, on loopback.
    url : str
        Address of a pool that runs elsewhere; empty for one that the Hub starts and keeps alive.
    api_token : str
        Token of the pool in the Hub: needed with ``url``, and the pool has it as ``JUPYTERHUB_API_TOKEN``.
    server_url : str
        Address of the pool as users' servers reach it; empty for that on this machine, or ``url``.
    arguments, environment : sequence of str, mapping
        Further arguments and variables of the ``jupyter gpupool serve`` that the Hub starts.
    administrators, administrator_groups : sequence of str
        Users, and groups of the Hub, who see names and may end leases.
    offers : sequence or callable
        Shares that a server can be started with (``["0.25", {"share": "1", "memory": "40GiB"}]``), or a
        callable that is given the spawner and returns them; empty for none.
    offer_wait_minutes : int
        How long a server may wait for its share at most.
    server_host : str
        Name of the machine where servers with a share run, as its agent has it; empty for this one.

    Raises
    ------
    BadHubConfiguration
        If it cannot work.
    """
    _refuse_no_token(url, api_token)
    here = names.origin("http", "127.0.0.1", port)
    asked = (url or here).rstrip("/")
    _add_service(c, name, url or here, api_token)
    if not url:
        _have_it_started(c, port, [*(_PATIENCE if offers else ()), *arguments], environment or {})
    _add_scopes(c, name)
    _add_administrators(c, name, administrators, administrator_groups)
    reached = server_url.rstrip("/") or asked
    c.Spawner.environment.update({names.ENV_HUB_URL: reached, names.ENV_AUTOSTART: "0"})
    if offers:
        where = {"url": asked, "service": name, "host": server_host or socket.gethostname()}
        _add_hooks(c, offers, most_minutes=offer_wait_minutes, **where)


def _refuse_no_token(url: str, api_token: str) -> None:
    if url and not api_token:
        raise BadHubConfiguration(
            "hub.configure was given url, a pool that runs elsewhere, and no api_token.",
            hint="Make one with `openssl rand -hex 32`, and give it to both.",
        )


def _add_hooks(c: Any, offers: Sequence[str | Mapping[str, Any]] | Offers, **where: Any) -> None:
    """Let a share be chosen when a server is started; what was configured before stays, and comes first."""
    before = Before()
    hooks = vars(before).keys()
    before = Before(**{it: c.Spawner[it] for it in hooks if it in c.Spawner})
    spawning = Spawning(offers, before=before, **where)
    for hook in hooks:
        setattr(c.Spawner, hook, getattr(spawning, hook))
    c.Spawner.environment.update({names.ENV_SERVER_LEASE: spawning.lease_of})


def _add_service(c: Any, name: str, url: str, api_token: str) -> None:
    service: dict[str, Any] = {
        "name": name,
        "url": url,
        "display": True,
        "oauth_no_confirm": True,
        "oauth_client_allowed_scopes": list(SCOPES),
    }
    if api_token:
        service["api_token"] = api_token
    _extend(c.JupyterHub, "services", [service])


def _have_it_started(c: Any, port: int, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
    ours = {name: value for name, value in os.environ.items() if name.startswith("JUPYTER_GPUPOOL_")}
    c.JupyterHub.services[-1] |= {
        "command": [sys.executable, "-m", "jupyter_gpupool", "serve", "--hub", f"--port={port}", *arguments],
        "environment": {"PATH": os.environ.get("PATH", os.defpath), **ours, **environment},
    }


def _add_scopes(c: Any, name: str) -> None:
    """Let every user, and every server of theirs, see the pool and ask for leases."""
    users = [f"access:services!service={name}", "custom:gpupool:read", "custom:gpupool:lease"]
    custom = _own(c.JupyterHub, "custom_scopes", {})
    c.JupyterHub.custom_scopes = {**{it: dict(SCOPES[it]) for it in SCOPES}, **custom}
    roles = _own(c.JupyterHub, "load_roles", [])
    mine = next((role for role in roles if role.get("name") == "user"), None)
    if mine is None:
        mine = {"name": "user", "description": "Standard user privileges", "scopes": ["self"]}
        roles = [*roles, mine]
    mine["scopes"] = [*mine.get("scopes", []), *users]
    c.JupyterHub.load_roles = roles
    before = _own(c.Spawner, "server_token_scopes", [])
    if callable(before):
        c.Spawner.server_token_scopes = _also(before, users)
    else:
        c.Spawner.server_token_scopes = [*(before or _SERVER_SCOPES), *users]


def _also(before: Any, scopes: Sequence[str]) -> Any:
    """Wrap a callable that says which scopes a server's token has, so that it says ours, too."""

    async def with_ours(spawner: Any) -> list[str]:
        said = before(spawner)
        if hasattr(said, "__await__"):
            said = await said
        return [*(said or _SERVER_SCOPES), *scopes]

    return with_ours


def _add_administrators(c: Any, name: str, users: Sequence[str], groups: Sequence[str]) -> None:
    if not users and not groups:
        return
    scopes = [f"access:services!service={name}", "custom:gpupool:admin"]
    role = {"name": _ADMIN_ROLE, "description": "Administers the GPU pool", "scopes": scopes}
    _extend(c.JupyterHub, "load_roles", [{**role, "users": list(users), "groups": list(groups)}])


def _own(section: Any, name: str, nothing: Any) -> Any:
    """Return what was configured; ``nothing`` where it was not."""
    return section[name] if name in section else nothing  # noqa: SIM401 - a section of Config has no such get


def _extend(section: Any, name: str, more: list[Any]) -> None:
    setattr(section, name, [*_own(section, name, []), *more])
