"""Types of fixtures that make pools."""

from __future__ import annotations

from collections.abc import Callable

from jupyter_gpupool.testing import PoolDriver

#: The fixture ``a_pool``: devices in, a driver out.
MakePool = Callable[..., PoolDriver]
