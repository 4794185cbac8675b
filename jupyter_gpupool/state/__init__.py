"""Snapshots of a namespace: captured whole, restored true, and honest about what cannot be saved.

Rules of this package: it needs neither a pool nor Jupyter; libraries of the user (numpy, torch, pandas) are
never imported by it, but found in ``sys.modules`` or imported by a restore that needs them; what cannot be
restored right is reported by name and reason, never approximated.
"""
