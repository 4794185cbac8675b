"""Queue orders: who is considered first.

Rule of this package: one pure function a file, all with the signature `OrderPolicy`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jupyter_gpupool.core.leases import Lease

#: ``(waiting, now_ms) -> waiting in the order in which the pool considers it``. ``waiting`` comes in the
#: order of arrival; ``now_ms`` is pool time.
OrderPolicy = Callable[[Sequence[Lease], int], Sequence[Lease]]
