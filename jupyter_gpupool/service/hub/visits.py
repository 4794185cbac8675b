"""People in browsers: from the first look at the page to a session, by the Hub's OAuth.

Rules of this module: a browser gets a random name of its session and never a token; what is remembered is
bounded, and ends by itself; a code counts only in the browser that went to fetch it.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlencode

from jupyter_gpupool.service.hub.api import HubAPI
from jupyter_gpupool.service.hub.settings import HubSettings

#: How long a session lasts, and how long a person may take to log in, seconds.
SESSION_SECONDS, LOGIN_SECONDS = 8 * 3600.0, 600.0
#: How many sessions and logins are remembered.
_SESSIONS, _LOGINS = 5_000, 5_000
#: Names of the cookies.
SESSION_COOKIE, LOGIN_COOKIE = "gpupool-session", "gpupool-login"


@dataclass(frozen=True, slots=True)
class Session:
    """A person's visit.

    Attributes
    ----------
    token : str
        Their token of the Hub.
    proof : str
        What a form of ours carries, and no other page can know.
    since : float
        When it began, on the monotonic clock.
    """

    token: str = field(repr=False)
    proof: str = field(repr=False)
    since: float


class Visits:
    """The sessions of one service.

    Parameters
    ----------
    hub : HubSettings
        The Hub.
    api : HubAPI
        Its API.
    monotonic : callable
        Seconds that never go back.
    """

    def __init__(
        self, hub: HubSettings, api: HubAPI, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._hub = hub
        self._api = api
        self._monotonic = monotonic
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._logins: OrderedDict[str, float] = OrderedDict()

    def session(self, cookies: str | None) -> Session | None:
        """Return the session that a Cookie header names; None when there is none."""
        name = read_cookie(cookies, SESSION_COOKIE)
        session = self._sessions.get(name)
        if session is not None and self._monotonic() - session.since > SESSION_SECONDS:
            self._sessions.pop(name)
            return None
        return session

    def end(self, session: Session) -> None:
        """Forget a session: the Hub does not know its token any more."""
        for name, known in list(self._sessions.items()):
            if known is session:
                del self._sessions[name]

    def begin(self) -> tuple[str, str]:
        """Return where a browser logs in, and the state that it has to bring back, as a cookie, too."""
        state = secrets.token_urlsafe(24)
        self._logins[state] = self._monotonic()
        if len(self._logins) > _LOGINS:
            self._logins.popitem(last=False)
        query = {
            "client_id": self._hub.client_id,
            "redirect_uri": self._callback,
            "response_type": "code",
            "state": state,
        }
        return f"{self._hub.base_url}hub/api/oauth2/authorize?{urlencode(query)}", state

    async def finish(self, code: str, state: str, cookies: str | None) -> str | None:
        """Exchange a code; return the name of the new session, None when this is no login that began here.

        Raises
        ------
        HubUnavailable
            If the Hub does not say.
        """
        began = self._logins.pop(state, None)
        same = hmac.compare_digest(read_cookie(cookies, LOGIN_COOKIE).encode(), state.encode())
        if began is None or not same or self._monotonic() - began > LOGIN_SECONDS:
            return None
        token = await self._api.token_for(code, self._callback)
        if token is None:
            return None
        name = secrets.token_urlsafe(32)
        self._sessions[name] = Session(token, secrets.token_urlsafe(24), self._monotonic())
        if len(self._sessions) > _SESSIONS:
            self._sessions.popitem(last=False)
        return name

    @property
    def _callback(self) -> str:
        return f"{self._hub.prefix}oauth_callback"


def read_cookie(header: str | None, name: str) -> str:
    """Return one cookie of a Cookie header; empty when it is not there."""
    try:
        found = SimpleCookie(header or "").get(name)
    except CookieError:
        return ""
    return found.value if found is not None else ""
