"""Who asks: the principal behind a bearer token.

Rule of this module: identity comes from the token alone, never from a body, a query or the environment.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.core.leases import Lease
from jupyter_gpupool.protocol import tokens

#: For how many kernels the newest generation is remembered.
_KERNELS = 10_000


class Scope(Enum):
    """What a principal may do, whosever leases it is about."""

    #: See the pool, and what is one's own.
    READ = "read"
    #: Ask for leases, and change and end one's own.
    LEASE = "lease"
    #: Read what is about everybody: metrics.
    REPORT = "report"
    #: See names, end the leases of others, read the audit log.
    ADMIN = "admin"


#: What an owner's own token is good for, where nobody says otherwise.
OWNERS = frozenset({Scope.READ, Scope.LEASE, Scope.REPORT})


class Unauthenticated(GPUPoolError):
    """Raised when a request has no token, or one that is not good. Get the pool's present token."""

    code = "unauthenticated"


class Forbidden(GPUPoolError):
    """Raised when this principal may not do this. Use the owner's token."""

    code = "forbidden"


@dataclass(frozen=True, kw_only=True, slots=True)
class Principal:
    """Whom a token stands for.

    Attributes
    ----------
    owner : str
        The owner.
    kernel_id : str
        The one kernel whose leases may be touched; empty for all of the owner's.
    administrator : bool
        Whether the names of other owners may be seen.
    scopes : frozenset of Scope
        What it may do.
    server : str
        Names the Jupyter server whose token it is, or whose kernel; empty where that is nobody's.
    """

    owner: str
    kernel_id: str = ""
    administrator: bool = False
    scopes: frozenset[Scope] = OWNERS
    server: str = ""

    def require(self, scope: Scope) -> None:
        """See that something may be done.

        Raises
        ------
        Forbidden
            If it may not.
        """
        if scope not in self.scopes:
            raise Forbidden(
                f"This token may not do that: it lacks the scope “{scope.value}”.",
                hint="Ask who runs the pool for a token that may.",
            )

    def may_touch(self, lease: Lease) -> bool:
        """Whether a lease is this principal's own."""
        return lease.owner == self.owner and (not self.kernel_id or lease.holder.kernel_id == self.kernel_id)

    def may_see(self, lease: Lease) -> bool:
        """Whether it may read a lease as its own: a kernel reads that of its server, too."""
        if self.may_touch(lease):
            return True
        return bool(self.server) and lease.owner == self.owner and lease.holder.key == self.server


class Identity(Protocol):
    """What knows who is behind a token."""

    async def identify(self, header: str | None, *, fresh: bool) -> Principal:
        """Return the principal behind an ``Authorization`` header.

        Parameters
        ----------
        header : str or None
            As it was sent.
        fresh : bool
            Whether what was known a moment ago is not enough.

        Raises
        ------
        GPUPoolError
            If there is none, or nobody can tell now.
        """


class Generations:
    """Remembers the newest generation of each kernel: its earlier tokens are good no more."""

    def __init__(self) -> None:
        self._newest: OrderedDict[tuple[str, str], int] = OrderedDict()

    def check(self, claim: tokens.KernelClaim) -> None:
        """Note a claim that was verified.

        Raises
        ------
        Unauthenticated
            If a newer one of the same kernel was seen, or it is no kernel's.
        """
        key = (claim.owner, claim.kernel_id)
        newest = max(self._newest.get(key, claim.generation), claim.generation)
        self._newest[key] = newest
        self._newest.move_to_end(key)
        if len(self._newest) > _KERNELS:
            self._newest.popitem(last=False)
        if not claim.kernel_id or claim.generation < newest:
            raise Unauthenticated(
                "This token belongs to an earlier run of the kernel.", hint="Use the present kernel's."
            )


def bearer(header: str | None) -> str:
    """Return the token of an ``Authorization`` header.

    Raises
    ------
    Unauthenticated
        If it has none.
    """
    scheme, _, token = (header or "").partition(" ")
    token = token.strip()
    if scheme.lower() not in ("bearer", "token") or not token:
        raise Unauthenticated(
            "This needs a token.", hint="Send “Authorization: Bearer TOKEN”, with the token of this pool."
        )
    return token


class Authenticator:
    """Knows the owners' tokens, and the newest generation of each kernel's.

    Parameters
    ----------
    owners : mapping of str to str
        Owner to token.
    administrators : collection of str
        The owners who may see the names of others: who runs the service reads its journal anyway.
    """

    def __init__(self, owners: Mapping[str, str], administrators: Collection[str] = ()) -> None:
        self._owners = dict(owners)
        self._administrators = frozenset(administrators)
        self._generations = Generations()

    async def identify(self, header: str | None, *, fresh: bool = False) -> Principal:
        """Return the principal behind an ``Authorization`` header; tokens of this pool never change."""
        return self.principal(header)

    def principal(self, header: str | None) -> Principal:
        """Return the principal behind an ``Authorization`` header.

        Raises
        ------
        Unauthenticated
            If there is none.
        """
        token = bearer(header)
        if token.startswith(tokens.KERNEL_PREFIX):
            return self._kernel(token)
        found = self.find(token)
        if found is None:
            raise Unauthenticated("This token is not one of this pool.", hint="Ask for the present one.")
        return found

    def find(self, token: str) -> Principal | None:
        """Return the owner whose token this is; None when it is nobody's."""
        found = None
        for owner, known in self._owners.items():  # all of them, so that time tells nothing
            if tokens.same_token(known, token):
                found = owner
        if found is None:
            return None
        administrator = found in self._administrators
        scopes = OWNERS | {Scope.ADMIN} if administrator else OWNERS
        return Principal(owner=found, administrator=administrator, scopes=scopes)

    def _kernel(self, token: str) -> Principal:
        claim = tokens.read_claim(token)
        known = self._owners.get(claim.owner) if claim else None
        if claim is None or known is None or not tokens.verify_kernel_token(known, token):
            raise Unauthenticated("This kernel's token is not good.", hint="Restart the kernel.")
        self._generations.check(claim)
        return Principal(owner=claim.owner, kernel_id=claim.kernel_id)
