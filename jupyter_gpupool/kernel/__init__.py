"""Inside the notebook: magics, the Python API, attach.

Rules of this package: it speaks HTTP only (and shows tickets on the agent's socket); no event loop is used or
needed; whatever is imported while a kernel starts is light, the rest is imported when it is first used.
"""
