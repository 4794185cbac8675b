"""Scores by name.

Rule of this module: a score policy is found by its name here, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping

from jupyter_gpupool.core.policies.score import ScorePolicy
from jupyter_gpupool.core.policies.score.best_fit import best_fit
from jupyter_gpupool.core.policies.score.bid_price import bid_price
from jupyter_gpupool.core.policies.score.fgd import fgd
from jupyter_gpupool.core.policies.score.first_fit import first_fit
from jupyter_gpupool.core.policies.score.pack import pack
from jupyter_gpupool.core.policies.score.spread import spread
from jupyter_gpupool.core.policies.score.strand import strand

#: Scores of nodes by the name that an administrator writes.
SCORES: Mapping[str, ScorePolicy] = {
    "best_fit": best_fit,
    "bid_price": bid_price,
    "fgd": fgd,
    "first_fit": first_fit,
    "pack": pack,
    "spread": spread,
    "strand": strand,
}
