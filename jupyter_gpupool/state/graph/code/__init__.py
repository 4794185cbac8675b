"""Functions, classes and modules that are saved by value: those that only the notebook has.

Rule of this package: what a restored process can import is saved by its name, all else as it is.
"""
