"""Limits of the node's processor, main memory and processes beside a share of another device.

Rule of this package: a companion, not a share: the pool does not account it, and a share of the CPU itself
comes before it.
"""
