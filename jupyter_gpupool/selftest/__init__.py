"""``jupyter gpupool selftest``: proves on this machine what is promised, by doing it.

Rules of this package: every claim is run through the backends and rungs that leases have; what cannot be
shown here is said with its reason, and never counts as shown; when it returns, by whatever way, nothing of
it is left.
"""
