"""Who may be a node: the pool's certificate authority, and its book of tokens and certificates.

Rule of this package: it is the pool's own, on the machine of its service; nodes see only what it gives them.
"""
