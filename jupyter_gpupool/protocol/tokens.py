"""Bearer tokens: how a kernel's token is made from its owner's, and read back.

Rules of this module: pure; comparisons take constant time; a kernel's token tells nothing of its owner's.

A kernel token is ``gpk.<payload>.<mac>``: the payload is base64url JSON (owner, kernel id, generation), the
MAC is HMAC-SHA-256 under a key derived from the owner's token, so that whoever has that token (the Jupyter
server) makes kernel tokens without asking the pool.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from dataclasses import dataclass

#: First characters of every kernel token.
KERNEL_PREFIX = "gpk."
_PURPOSE = b"jupyter_gpupool kernel token 1"


@dataclass(frozen=True, kw_only=True, slots=True)
class KernelClaim:
    """What a kernel token says.

    Attributes
    ----------
    owner : str
        The owner whose token signed it.
    kernel_id : str
        The kernel it was minted for.
    generation : int
        Grows with each start of that kernel; the service refuses all but the newest it has seen.
    """

    owner: str
    kernel_id: str
    generation: int


def _mac(owner_token: str, payload: bytes) -> str:
    key = hmac.new(owner_token.encode(), _PURPOSE, hashlib.sha256).digest()
    digest = hmac.new(key, payload, hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def mint_kernel_token(owner_token: str, claim: KernelClaim) -> str:
    """Make the token of one generation of one kernel."""
    body = json.dumps([claim.owner, claim.kernel_id, claim.generation]).encode()
    payload = base64.urlsafe_b64encode(body).decode().rstrip("=")
    return f"{KERNEL_PREFIX}{payload}.{_mac(owner_token, payload.encode())}"


def read_claim(token: str) -> KernelClaim | None:
    """Read what a kernel token claims, *unverified*; None when it is not of that form."""
    parts = token.split(".")
    if len(parts) != 3 or not token.startswith(KERNEL_PREFIX):
        return None
    try:
        body = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        owner, kernel_id, generation = json.loads(body)
    except (ValueError, TypeError, RecursionError):  # it comes from anybody: any nonsense is possible
        return None
    if not (isinstance(owner, str) and isinstance(kernel_id, str) and type(generation) is int):
        return None
    return KernelClaim(owner=owner, kernel_id=kernel_id, generation=generation)


def verify_kernel_token(owner_token: str, token: str) -> bool:
    """Tell whether a kernel token was signed with this owner's token."""
    parts = token.split(".")
    if len(parts) != 3:
        return False
    return same_token(_mac(owner_token, parts[1].encode()), parts[2])


def same_token(left: str, right: str) -> bool:
    """Compare two tokens in constant time."""
    return hmac.compare_digest(left.encode(), right.encode())
