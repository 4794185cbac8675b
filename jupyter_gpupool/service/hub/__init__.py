"""The pool service as a service of JupyterHub: who asks, and the page for people.

Rule of this package: it knows the Hub by its REST API only, and imports nothing of it.
"""
