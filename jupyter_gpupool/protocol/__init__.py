"""The words that processes exchange.

Rule of this package: structs, names and pure encoding; no I/O beyond naming paths.
"""
