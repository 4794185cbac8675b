"""Configuration of dask-gateway's server for a comparison: its own work, with clusters that are nothing.

Its clusters count as started at once, and no process is: what is measured is what the server does for a
cluster that is created and stopped, with its database on disk.
"""

from __future__ import annotations

import base64
import os
from collections.abc import AsyncIterator
from typing import Any

from dask_gateway_server.backends.db_base import DBBackendBase

c: Any = get_config()  # type: ignore[name-defined]  # noqa: F821 - where this is read, it is there


class Nothing(DBBackendBase):  # type: ignore[misc]
    """Starts nothing."""

    async def do_start_cluster(self, cluster: Any) -> AsyncIterator[dict[str, Any]]:
        """Count a cluster as submitted."""
        yield {}

    async def do_stop_cluster(self, cluster: Any) -> None:
        """Do nothing."""

    async def do_check_clusters(self, clusters: list[Any]) -> list[bool]:
        """Say that all of them are there."""
        return [True for _ in clusters]


c.DaskGateway.backend_class = Nothing
c.DaskGateway.authenticator_class = "dask_gateway_server.auth.SimpleAuthenticator"
c.DaskGateway.address = os.environ["GATEWAY_ADDRESS"]
c.DaskGateway.log_level = "WARN"
c.Nothing.db_url = f"sqlite:///{os.environ['GATEWAY_FOLDER']}/gateway.sqlite"
c.Nothing.db_encrypt_keys = [base64.urlsafe_b64encode(os.urandom(32))]
c.Nothing.cluster_start_timeout = 3600
c.Proxy.address = "127.0.0.1:0"
c.Proxy.tcp_address = "127.0.0.1:0"
