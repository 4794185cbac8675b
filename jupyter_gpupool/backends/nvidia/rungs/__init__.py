"""The rungs of the isolation ladder, one mechanism a module, behind the port in `base`."""
