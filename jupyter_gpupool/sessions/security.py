"""The keys of one session cluster: made in the kernel's process, for its lifetime, and never in a file.

Rule of this module: whoever has the key may run code in the cluster, so it goes from process to process by a
pipe only, and OpenSSL, which reads files, gets one that has no name.
"""

from __future__ import annotations

import os
import ssl
from typing import Any

from distributed.security import Security


class MemorySecurity(Security):  # type: ignore[misc]
    """Dask's security settings, of keys that are in memory and stay there."""

    def _get_tls_context(self, tls: dict[str, Any], purpose: ssl.Purpose) -> ssl.SSLContext:
        """Make the context; Dask would write the key into a temporary directory for it."""
        if not hasattr(os, "memfd_create"):
            context: ssl.SSLContext = super()._get_tls_context(tls, purpose)
            return context
        context = ssl.create_default_context(purpose=purpose, cadata=tls["ca_file"])
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_REQUIRED
        context.check_hostname = False  # the only certificate that is accepted is the cluster's own
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        handle = os.memfd_create("jupyter_gpupool")
        try:
            os.write(handle, f"{tls['cert']}\n{tls['key']}".encode())
            context.load_cert_chain(f"/proc/self/fd/{handle}")
        finally:
            os.close(handle)
        return context


def new_security() -> MemorySecurity:
    """Make a key and its certificate."""
    made: MemorySecurity = MemorySecurity.temporary()
    return made


def security_from(certificate: str, key: str) -> MemorySecurity:
    """Return the settings for a certificate and its key, both PEM."""
    return MemorySecurity(
        require_encryption=True,
        tls_ca_file=certificate,
        **{f"tls_{role}_cert": certificate for role in ("client", "scheduler", "worker")},
        **{f"tls_{role}_key": key for role in ("client", "scheduler", "worker")},
    )
