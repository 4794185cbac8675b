"""Memory that arrays and tensors look at: what is shared stays shared.

Rule of this package: every stretch of memory is saved once, whoever looks at it, and each look is saved as
where it begins and how it strides.
"""
