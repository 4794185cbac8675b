"""The commands of ``jupyter gpupool``, one file for each group of them.

Rules of this package: what is heavy is imported by the command that needs it; errors are one sentence with
the next step.
"""
