"""CUDA MPS: its control program, daemons, servers and clients.

Rule of this package: what is said of MPS was asked of its daemon a moment ago; what we started is ours to
end, and nothing else is.
"""
