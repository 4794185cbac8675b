"""One object graph, one stream: what is reached from a namespace, with identity kept.

Rule of this package: one value that cannot be saved, or made again, costs itself and nothing else.
"""
