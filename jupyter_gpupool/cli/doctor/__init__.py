"""``jupyter gpupool doctor``: what is usually wrong, and how to mend it.

Rules of this package: a check is a pure function of a `Scene`, so that a machine made of plain files can
stand in for a real one; it changes nothing, starts nothing, and never needs to be root.
"""

from __future__ import annotations
