"""The Jupyter Server extension: a thin client of the pool service for the browser and for kernels' lives.

Rules of this package: it imports neither Dask nor torch; it never delays the server or a kernel; whatever
fails here leaves both as they would be without us.
"""
