"""The pool service: one process that decides, writes down, and answers HTTP.

Rule of this package: `main.run_service` puts everything together; everything else gets what it needs in its
constructor.
"""
