"""Next steps that several parts name in the same words.

Rule of this module: sentences only, and no imports: kernels know them by heart.
"""

from __future__ import annotations

#: What there is to do about a lease that ends; a kernel that can move says how instead.
ASK_ANOTHER = "`%gpupool request` asks for another."
