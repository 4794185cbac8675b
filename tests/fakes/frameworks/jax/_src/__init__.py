"""Where JAX keeps what is not public."""
