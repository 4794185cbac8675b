"""What a pool is and what it decides.

Rule of this package: pure. No clock, no randomness, no I/O, no logging, no async; ``now`` and new ids
arrive inside events.
"""
