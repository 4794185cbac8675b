"""Who asks, where JupyterHub knows: its users, its services, and the kernels of its users' servers.

Rules of this module: the Hub alone says who is behind a token, and what that token may; what it said is good
for a moment for reading, and not at all for asking for more; while it is silent, what it said last holds for
a while, but nothing new is granted.

A kernel's token is derived from that of its server (`protocol.tokens`), which the pool has to have seen: a
server's extension opens its event stream before any of its kernels can ask for something. It is good for as
long as the Hub knows the server's token.
"""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from jupyter_gpupool.protocol import tokens
from jupyter_gpupool.service.auth import (
    Authenticator,
    Forbidden,
    Generations,
    Principal,
    Scope,
    Unauthenticated,
    bearer,
)
from jupyter_gpupool.service.errors import HubUnavailable
from jupyter_gpupool.service.hub.api import HubAPI, HubIdentity

#: For how long the Hub's word is good for reading, seconds.
READ_SECONDS = 20.0
#: For how long it holds while the Hub is silent, seconds.
SILENCE_SECONDS = 600.0
#: How many tokens are remembered, and how many servers of one owner.
_TOKENS, _SERVERS = 10_000, 32
#: Longest token that is shown to the Hub, characters.
_LONGEST = 1000
#: Who a Hub's services are, so that no user is one of them.
SERVICE_OWNER = "service:"
#: Our scopes in the Hub begin so.
CUSTOM = "custom:gpupool:"


@dataclass(slots=True)
class _Known:
    """What the Hub said of a token, and when."""

    token: str = field(repr=False)
    principal: Principal
    asked: float


class HubAuthenticator:
    """Knows principals by asking a Hub.

    Parameters
    ----------
    hub : HubAPI
        The Hub.
    service : str
        Our name in it.
    local : Authenticator
        Tokens that the Hub does not know: that of whoever runs the service, on its machine.
    monotonic : callable
        Seconds that never go back.
    groups : callable
        Is told in which groups the Hub has a user, each time that it was asked.
    """

    def __init__(
        self,
        hub: HubAPI,
        service: str,
        local: Authenticator,
        monotonic: Callable[[], float] = time.monotonic,
        groups: Callable[[str, Sequence[str]], None] = lambda owner, groups: None,
    ) -> None:
        self._hub = hub
        self._groups = groups
        self._service = service
        self._local = local
        self._monotonic = monotonic
        self._known: OrderedDict[bytes, _Known] = OrderedDict()
        self._by_owner: OrderedDict[str, OrderedDict[bytes, str]] = OrderedDict()
        self._generations = Generations()

    async def identify(self, header: str | None, *, fresh: bool) -> Principal:
        """Return the principal behind an ``Authorization`` header.

        Raises
        ------
        Unauthenticated
            If the Hub knows none.
        Forbidden
            If it does, and the token is not for the pool.
        HubUnavailable
            If the Hub does not say, and has to.
        """
        token = bearer(header)
        local = self._local.find(token)
        if local is not None:
            return local
        if token.startswith(tokens.KERNEL_PREFIX):
            return await self._kernel(token, fresh=fresh)
        return await self.of_token(token, fresh=fresh)

    async def of_token(self, token: str, *, fresh: bool) -> Principal:
        """Return the principal behind a token of the Hub; raises as `identify` does."""
        if len(token) > _LONGEST:
            raise _unknown()
        key = hashlib.sha256(token.encode()).digest()
        known, now = self._known.get(key), self._monotonic()
        if known is not None and not fresh and now - known.asked < READ_SECONDS:
            return known.principal
        try:
            found = await self._hub.who(token)
        except HubUnavailable:
            if known is None or fresh or now - known.asked > SILENCE_SECONDS:
                raise
            return known.principal
        if found is None:
            self._forget(key)
            raise _unknown()
        try:
            principal = replace(self._principal(found), server=server_key(key))
        except (Forbidden, Unauthenticated):
            self._forget(key)
            raise
        if found.kind == "user":
            self._groups(principal.owner, found.groups)
        self._remember(key, _Known(token, principal, now))
        return principal

    async def _kernel(self, token: str, *, fresh: bool) -> Principal:
        claim = tokens.read_claim(token)
        servers = self._by_owner.get(claim.owner) if claim is not None else None
        for server in reversed((servers or {}).values()):
            if claim is None or not tokens.verify_kernel_token(server, token):
                continue
            owner = await self.of_token(server, fresh=fresh)
            self._generations.check(claim)
            scopes = owner.scopes & {Scope.READ, Scope.LEASE}
            return Principal(owner=owner.owner, kernel_id=claim.kernel_id, scopes=scopes, server=owner.server)
        raise Unauthenticated(
            "This kernel's token is not good, or its server has not spoken to the pool yet.",
            hint="Try again in a few seconds; if that does not help, restart the kernel.",
        )

    def _principal(self, found: HubIdentity) -> Principal:
        """Turn what the Hub says into what may be done.

        Raises
        ------
        Forbidden
            If the token is not for this service.
        """
        held = set(found.scopes)
        access = {"access:services", f"access:services!service={self._service}"}
        if not held & access:
            raise Forbidden(
                "This token of JupyterHub is not for the pool.",
                hint=f"It needs the scope access:services!service={self._service}.",
            )
        is_service = found.kind != "user"
        if not is_service and found.name.startswith(SERVICE_OWNER):
            raise Forbidden(f"A user may not be called “{SERVICE_OWNER}…”.", hint="Rename the user.")
        scopes = read_scopes(held, found.name)
        return Principal(
            owner=f"{SERVICE_OWNER}{found.name}" if is_service else found.name,
            administrator=Scope.ADMIN in scopes,
            scopes=scopes,
        )

    def _remember(self, key: bytes, known: _Known) -> None:
        self._known[key] = known
        self._known.move_to_end(key)
        if len(self._known) > _TOKENS:
            self._forget(next(iter(self._known)))
        servers = self._by_owner.setdefault(known.principal.owner, OrderedDict())
        servers[key] = known.token
        servers.move_to_end(key)
        if len(servers) > _SERVERS:
            servers.popitem(last=False)

    def _forget(self, key: bytes) -> None:
        known = self._known.pop(key, None)
        if known is None:
            return
        owner = known.principal.owner
        servers = self._by_owner.get(owner, OrderedDict())
        servers.pop(key, None)
        if not servers:
            self._by_owner.pop(owner, None)


def server_key(digest: bytes) -> str:
    """Return the key of a server as a holder, from the digest of its token."""
    return f"server:{digest.hex()[:32]}"


def read_scopes(held: set[str], name: str) -> frozenset[Scope]:
    """Return which of our scopes are among a token's; one that is limited to its own user counts, too."""
    return frozenset(
        scope for scope in Scope if {f"{CUSTOM}{scope.value}", f"{CUSTOM}{scope.value}!user={name}"} & held
    )


def _unknown() -> Unauthenticated:
    return Unauthenticated(
        "JupyterHub does not know this token.", hint="Use a present one; a stopped server's is no good."
    )
