"""JAX in name only: it takes the device when it is first used."""

__version__ = "0.9.0"
