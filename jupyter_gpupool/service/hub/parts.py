"""What a pool service has more when it is a service of JupyterHub.

Rule of this module: it puts the parts together, and closes what they opened.
"""

from __future__ import annotations

from jupyter_gpupool.service.auth import Authenticator
from jupyter_gpupool.service.hub.api import HubAPI
from jupyter_gpupool.service.hub.auth import HubAuthenticator
from jupyter_gpupool.service.hub.door import HubDoor
from jupyter_gpupool.service.hub.groups import HubGroups
from jupyter_gpupool.service.hub.settings import HubSettings
from jupyter_gpupool.service.hub.visits import Visits
from jupyter_gpupool.service.web import App, Context


class HubParts:
    """The parts.

    Parameters
    ----------
    hub : HubSettings
        The Hub.
    local : Authenticator
        Tokens of the service's own machine.
    groups : HubGroups
        Users in groups of the quotas.
    """

    def __init__(self, hub: HubSettings, local: Authenticator, groups: HubGroups) -> None:
        self._hub = hub
        self._api = HubAPI(hub)
        self.auth = HubAuthenticator(self._api, hub.service, local, groups=groups.said)

    def door(self, api: App, context: Context) -> HubDoor:
        """Return the application: the API below our prefix, and the page for people."""
        return HubDoor(self._hub, api, context, self.auth, Visits(self._hub, self._api))

    def close(self) -> None:
        """Close the link to the Hub."""
        self._api.close()
