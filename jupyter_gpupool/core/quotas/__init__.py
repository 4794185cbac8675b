"""Quotas: what owners and groups may have, what they have, and what they have used.

Rule of this package: it adds up and compares; who gets what because of it is decided by the queue and its
policies. Everything is counted in integers, and kept up to date lease by lease.
"""

from jupyter_gpupool.core.quotas.model import Amount, Group, Limits, Quotas, Rules
from jupyter_gpupool.core.quotas.usage import usage_by_owner, usage_until

__all__ = ["Amount", "Group", "Limits", "Quotas", "Rules", "usage_by_owner", "usage_until"]
