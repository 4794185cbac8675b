"""The control plane: how the pool service and its agents reach each other, and what an agent does.

Rules of this package: Dask carries messages and finds out who is lost, nothing else; what crosses it is JSON
in `protocol` structs, never pickles; Linux-only modules are imported inside functions.
"""
