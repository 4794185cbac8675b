"""The user's side of snapshots: what is typed, shown, saved by itself, and offered after a kernel has died.

Rules of this package: nothing of it needs a pool, and nothing starts one; while a kernel starts nothing of it
is imported but what decides whether there is anything to do.
"""
