"""Where snapshots are kept: chunks by content, in packs, under signed manifests.

Rule of this package: it knows bytes, never objects; nothing is visible before it is whole and on the disk.
"""
