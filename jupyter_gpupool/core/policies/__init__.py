"""Policies: one pure function a file, chosen by name in the configuration."""
