"""Devices as adapters: how one kind is discovered, sampled, and how a share of it is attached.

Rule of this package: synchronous, knows no pool and no network; Linux-only modules are imported inside
functions.
"""
