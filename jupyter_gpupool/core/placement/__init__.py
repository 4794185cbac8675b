"""Placement at scale: what is free on nodes, what is asked for, and which node a request goes to.

Rules of this package: a policy scores one node for one request and knows nothing of the others; the index
finds the best node without looking at those that did not change; equal scores go to the node that comes
first in one fixed order.
"""
