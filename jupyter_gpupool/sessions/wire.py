"""How the parts of a session cluster speak to each other: by TLS, or by UCX where somebody asks for that.

Rules of this module: nobody gets UCX who did not ask for it, since it has no keys; whether it is there is
found out before a lease is asked for. With it Dask moves what is in the memory of GPUs from one to the other.
"""

from __future__ import annotations

from importlib.metadata import entry_points

from distributed.comm.registry import get_backend
from distributed.security import Security

from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.sessions.errors import ProtocolMissing
from jupyter_gpupool.sessions.security import new_security, security_from

TLS = "tls"
#: What people type for UCX, and by which names packages bring it, the newer package's own first.
_UCX = ("ucxx", "ucx")
_GROUP = "distributed.comm.backends"
#: Said where UCX is used.
UNENCRYPTED = (
    "UCX has no keys: whoever reaches this cluster's scheduler or workers can run code as you, and the"
    " network can read what they send. Use it on a network of your own only."
)


def wire(protocol: str) -> tuple[str, Security]:
    """Return the scheme of a cluster's addresses, and its keys.

    Parameters
    ----------
    protocol : str
        ``tls``, or ``ucx``; empty for the first.

    Raises
    ------
    InvalidValue
        If it is something else.
    ProtocolMissing
        If it is not installed here, or cannot be used.
    """
    if protocol in ("", TLS):
        return TLS, new_security()
    if protocol not in _UCX:
        raise InvalidValue(f"“{protocol[:40]}” is no protocol of a session cluster.", hint="Use tls or ucx.")
    return _ucx(), _without_keys()


def keys_for(certificate: str, key: str) -> Security:
    """Return the keys of a worker, as its order has them."""
    return security_from(certificate, key) if certificate else _without_keys()


def scheme_of(address: str) -> str:
    """Return by what an address is reached."""
    return address.partition("://")[0]


def _without_keys() -> Security:
    return Security(require_encryption=False)


def _ucx() -> str:
    scheme = next((it for it in _UCX if entry_points(group=_GROUP, name=it)), None)
    if scheme is None:
        raise ProtocolMissing(
            "UCX is not installed where this kernel runs.",
            hint="Install distributed-ucxx-cu12 or -cu13 (by the CUDA version; from conda: distributed-ucxx)"
            " for the kernel and for its workers, or scale without `--protocol`.",
        )
    try:
        get_backend(scheme)
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        raise ProtocolMissing(
            f"UCX is installed and cannot be used: {error}.", hint="Scale without `--protocol`."
        ) from error
    return scheme
