"""Recipes: how values are saved whose own way of being pickled is missing or not right.

Rule of this package: a recipe says how one type is taken apart and made again; what it cannot do right it
reports as lost.
"""
