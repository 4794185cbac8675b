"""NVIDIA GPUs and MIG instances as devices.

Rules of this package: NVML is reached through `jupyter_gpupool.backends._nvml` only; a reading is a value or
the reason why there is none; what is in force for a lease is decided by `ladder`, put in force by one module
of `rungs` for each mechanism, and looked at afterwards.
"""
