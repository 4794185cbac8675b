"""JupyterHub's REST API, as far as the pool uses it: who is behind a token.

Rules of this module: every call is bounded, in time and in how many there are at once; that the Hub says no
and that it says nothing are two different answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar
from urllib.parse import urlencode

import msgspec
from tornado.httpclient import HTTPRequest
from tornado.simple_httpclient import SimpleAsyncHTTPClient

from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.protocol import codec
from jupyter_gpupool.service.errors import HubUnavailable
from jupyter_gpupool.service.hub.settings import HubSettings

T = TypeVar("T")

#: How long the Hub may take for one answer, seconds.
ANSWER_SECONDS = 10.0
#: How many calls are under way at once, and how many may wait for their turn.
CALLS_AT_ONCE, CALLS_WAITING = 32, 500


class HubIdentity(msgspec.Struct, frozen=True):
    """Whom the Hub knows behind a token."""

    name: str
    kind: str = "user"
    admin: bool = False
    groups: list[str] = []
    scopes: list[str] = []


class _Granted(msgspec.Struct):
    """The Hub's answer to an OAuth code."""

    access_token: str


class HubAPI:
    """The API of one Hub; use it on one event loop.

    Parameters
    ----------
    hub : HubSettings
        Where it is.
    """

    def __init__(self, hub: HubSettings) -> None:
        self._hub = hub
        self._waiting = 0
        self._http: SimpleAsyncHTTPClient | None = None

    def close(self) -> None:
        """Close it; calls under way fail."""
        if self._http is not None:
            self._http.close()

    async def who(self, token: str) -> HubIdentity | None:
        """Ask whom a token belongs to; None when the Hub knows none.

        Raises
        ------
        HubUnavailable
            If it does not say.
        """
        if not (token.isascii() and token.isprintable()):
            return None  # no token of a Hub has such characters, and no header may
        headers = {"Authorization": f"token {token}"}
        status, body = await self._call("GET", "/user", headers)
        if status in (401, 403, 404):
            return None
        return self._read(status, body, HubIdentity)

    async def token_for(self, code: str, redirect_uri: str) -> str | None:
        """Exchange an OAuth code for a token; None when it is not good.

        Raises
        ------
        HubUnavailable
            If the Hub does not say.
        """
        fields = {
            "client_id": self._hub.client_id,
            "client_secret": self._hub.token,
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
        }
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        status, body = await self._call("POST", "/oauth2/token", headers, urlencode(fields))
        if status in (400, 401, 403):
            return None
        return self._read(status, body, _Granted).access_token

    async def _call(
        self, method: str, path: str, headers: Mapping[str, str], body: str | None = None
    ) -> tuple[int, bytes]:
        if self._waiting >= CALLS_AT_ONCE + CALLS_WAITING:
            raise HubUnavailable("JupyterHub is asked too much at once.", hint="Try again in a moment.")
        if self._http is None:
            self._http = SimpleAsyncHTTPClient(force_instance=True, max_clients=CALLS_AT_ONCE)
        request = HTTPRequest(
            self._hub.api_url + path,
            method=method,
            headers=dict(headers),
            body=body,
            follow_redirects=False,
            request_timeout=ANSWER_SECONDS,
            connect_timeout=ANSWER_SECONDS,
        )
        self._waiting += 1
        try:
            answer = await self._http.fetch(request, raise_error=False)
        except OSError as error:
            raise self._silent(str(error)) from error
        finally:
            self._waiting -= 1
        if answer.code == 599 or answer.code >= 500:
            raise self._silent(f"status {answer.code}")
        return answer.code, answer.body

    def _read(self, status: int, body: bytes, kind: type[T]) -> T:
        try:
            if status == 200:
                return codec.decode(body, kind)
        except GPUPoolError as error:
            raise self._silent("an answer that cannot be read") from error
        raise self._silent(f"status {status}")

    def _silent(self, how: str) -> HubUnavailable:
        return HubUnavailable(
            f"JupyterHub does not say who you are ({how}).", hint="Try again; its log says more."
        )
