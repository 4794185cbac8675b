"""Who asks: the principal behind a bearer token.

Rule of this module: identity comes from the token alone, never from a body, a query or the environment.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.core.leases import Lease
from jupyter_gpupool.protocol import tokens

#: For how many kernels the newest generation is remembered.
_KERNELS = 10_000


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
    """

    owner: str
    kernel_id: str = ""
    administrator: bool = False

    def may_touch(self, lease: Lease) -> bool:
        """Whether a lease is this principal's own."""
        return lease.owner == self.owner and (not self.kernel_id or lease.holder.kernel_id == self.kernel_id)


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
        self._generations: OrderedDict[tuple[str, str], int] = OrderedDict()

    def principal(self, header: str | None) -> Principal:
        """Return the principal behind an ``Authorization`` header.

        Raises
        ------
        Unauthenticated
            If there is none.
        """
        scheme, _, token = (header or "").partition(" ")
        token = token.strip()
        if scheme.lower() not in ("bearer", "token") or not token:
            raise Unauthenticated(
                "This needs a token.", hint="Send “Authorization: Bearer TOKEN”, with the token of this pool."
            )
        if token.startswith(tokens.KERNEL_PREFIX):
            return self._kernel(token)
        found = None
        for owner, known in self._owners.items():  # all of them, so that time tells nothing
            if tokens.same_token(known, token):
                found = owner
        if found is None:
            raise Unauthenticated("This token is not one of this pool.", hint="Ask for the present one.")
        return Principal(owner=found, administrator=found in self._administrators)

    def _kernel(self, token: str) -> Principal:
        claim = tokens.read_claim(token)
        known = self._owners.get(claim.owner) if claim else None
        if claim is None or known is None or not tokens.verify_kernel_token(known, token):
            raise Unauthenticated("This kernel's token is not good.", hint="Restart the kernel.")
        key = (claim.owner, claim.kernel_id)
        newest = max(self._generations.get(key, claim.generation), claim.generation)
        self._generations[key] = newest
        self._generations.move_to_end(key)
        if len(self._generations) > _KERNELS:
            self._generations.popitem(last=False)
        if not claim.kernel_id or claim.generation < newest:
            raise Unauthenticated(
                "This token belongs to an earlier run of the kernel.", hint="Use the present kernel's."
            )
        return Principal(owner=claim.owner, kernel_id=claim.kernel_id)
