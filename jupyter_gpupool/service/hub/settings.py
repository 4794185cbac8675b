"""What JupyterHub tells a service of its own, by the environment.

Rule of this module: it is read once; the secret in it is taken out of the environment, so that no process
that the service starts has it.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass, field

from jupyter_gpupool.core.errors import GPUPoolError


class NoHub(GPUPoolError):
    """Raised when a service is to be JupyterHub's and was told of none. The message names the variables."""

    code = "no_hub"


@dataclass(frozen=True, kw_only=True, slots=True)
class HubSettings:
    """One Hub, and who we are in it.

    Attributes
    ----------
    api_url : str
        The Hub's REST API, without a slash at the end.
    token : str
        The service's own token.
    service : str
        The service's name.
    prefix : str
        Path of the service on the Hub's proxy, with a slash at both ends.
    base_url : str
        Path of everything of that Hub, with a slash at both ends.
    client_id : str
        The service's name as an OAuth client; empty where pages are not served.
    """

    api_url: str
    token: str = field(repr=False)
    service: str = "gpupool"
    prefix: str = "/services/gpupool/"
    base_url: str = "/"
    client_id: str = ""


def read_hub(environment: MutableMapping[str, str]) -> HubSettings:
    """Read a Hub's variables, and take its token out.

    Raises
    ------
    NoHub
        If one is missing.
    """
    needed = ("JUPYTERHUB_API_URL", "JUPYTERHUB_API_TOKEN")
    missing = [name for name in needed if not environment.get(name)]
    if missing:
        raise NoHub(
            f"--hub needs {' and '.join(missing)}, which JupyterHub sets for its services.",
            hint="Have the Hub start the pool: jupyter_gpupool.hub.configure(c) in jupyterhub_config.py.",
        )
    service = environment.get("JUPYTERHUB_SERVICE_NAME") or "gpupool"
    base_url = _slashed(environment.get("JUPYTERHUB_BASE_URL", "/"))
    return HubSettings(
        api_url=environment["JUPYTERHUB_API_URL"].rstrip("/"),
        token=environment.pop("JUPYTERHUB_API_TOKEN"),
        service=service,
        prefix=_slashed(environment.get("JUPYTERHUB_SERVICE_PREFIX") or f"{base_url}services/{service}/"),
        base_url=base_url,
        client_id=environment.get("JUPYTERHUB_CLIENT_ID") or f"service-{service}",
    )


def _slashed(path: str) -> str:
    inner = path.strip("/")
    return f"/{inner}/" if inner else "/"
