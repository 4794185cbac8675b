"""Session clusters: a Dask cluster private to one kernel, its workers on leases.

Rule of this package: it stands above the kernel side and is reached from there by name only, so that a kernel
that never scales loads nothing of Dask.
"""
