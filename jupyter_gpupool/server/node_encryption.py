"""Whether a kernel on a node is spoken to in secret: by CurveZMQ, where its kernelspec and this server can.

Rules of this module: keys are made once for a kernel, and stay over its restarts; where there are none, a
person can be told why. Nothing of jupyter_client is asked that a version which we run with does not have.
"""

from __future__ import annotations

from typing import Any

from jupyter_client._version import __version__

#: What a kernelspec calls it.
_CURVE = "curve"


def curve_keys(manager: Any) -> dict[str, str]:
    """Return the keys of a kernel's connection; nothing where it cannot be encrypted.

    Parameters
    ----------
    manager : KernelManager
        The kernel's.
    """
    if why_plain(manager):
        return {}
    if manager.curve_publickey is None:
        import zmq

        manager.curve_publickey, manager.curve_secretkey = zmq.curve_keypair()
    return {
        "curve_publickey": manager.curve_publickey.decode(),
        "curve_secretkey": manager.curve_secretkey.decode(),
    }


def why_plain(manager: Any) -> str:
    """Say why a kernel's connection cannot be encrypted; nothing where it can."""
    metadata = getattr(manager.kernel_spec, "metadata", None) or {}
    named = metadata.get("supported_encryption") or ()
    words = [named] if isinstance(named, str) else named
    if _CURVE not in {str(word).strip().lower() for word in words}:
        return 'its kernelspec does not have "supported_encryption": ["curve"]'
    if not manager.has_trait("curve_publickey"):
        return f"jupyter_client {__version__} of this server is too old for it"
    return ""
