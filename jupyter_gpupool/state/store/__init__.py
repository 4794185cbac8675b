"""Where snapshots are kept: chunks by what is in them, in packs, under signed manifests.

Rules of this package: nothing that was saved is ever written over; what is half there is invisible; every
byte that is read is checked against the manifest's signature, or against a hash below it.
"""
