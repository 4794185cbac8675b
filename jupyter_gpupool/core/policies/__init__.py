"""Policies: one pure function a file, chosen by name in the configuration.

Rule of this package: a policy is found by its name here, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.core.policies.order import OrderPolicy
from jupyter_gpupool.core.policies.order.fair import fair
from jupyter_gpupool.core.policies.order.fifo import fifo
from jupyter_gpupool.core.policies.score import ScorePolicy
from jupyter_gpupool.core.policies.scores import SCORES

#: Queue orders by the name an administrator writes (``PoolConfig.order``).
ORDERS: Mapping[str, OrderPolicy] = {"fair": fair, "fifo": fifo}
#: Placements by the name an administrator writes (``PoolConfig.place``).
PLACEMENTS: Mapping[str, ScorePolicy] = SCORES

_Policy = TypeVar("_Policy")


def order_policy(name: str) -> OrderPolicy:
    """Find a queue order by name.

    Raises
    ------
    InvalidValue
        If there is none of that name; the message lists those that exist.
    """
    return _find("queue order", "order", name, ORDERS)


def place_policy(name: str) -> ScorePolicy:
    """Find a placement policy by name.

    Raises
    ------
    InvalidValue
        If there is none of that name; the message lists those that exist.
    """
    return _find("placement policy", "place", name, PLACEMENTS)


def _find(what: str, setting: str, name: str, known: Mapping[str, _Policy]) -> _Policy:
    try:
        return known[name]
    except KeyError:
        raise InvalidValue(
            f"There is no {what} named “{name}”.",
            hint=f"Set {setting} to one of: {', '.join(sorted(known))}.",
        ) from None
