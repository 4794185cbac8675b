"""Starting processes on a node, for the owners of leases.

Rule of this package: a launcher knows accounts and processes, and nothing of leases, kernels or Dask.
"""
