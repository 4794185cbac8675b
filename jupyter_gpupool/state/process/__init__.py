"""What a kernel's state is besides its variables: random streams, options, environment, history.

Rule of this package: one module for each kind; each says what to save, and how to put it back so that it can
be taken back.
"""
