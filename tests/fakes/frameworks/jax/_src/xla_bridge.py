"""The platforms that JAX has taken."""

_backends: dict = {}
