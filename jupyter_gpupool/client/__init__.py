"""One synchronous and one asynchronous client of the HTTP API, and how they find the pool.

Rule of this package: it speaks HTTP only, and a token never reaches an argument list or a log.
"""
