"""The simulator: the same core, driven by traces instead of people.

Rule of this package: nothing here decides who gets what; it plays requests and measures what the core does.
"""
