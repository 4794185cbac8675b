"""The pool of the hosted machine: emulated GPUs beside its own processor."""

c = get_config()  # noqa: F821 - Jupyter gives it to this file
c.PoolService.emulate = "4xA100-80GB"
c.PoolService.emulate_beside = True
