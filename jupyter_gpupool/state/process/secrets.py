"""Which names speak of secrets, and which belong to a machine and never travel.

Rule of this module: names only decide (and passwords inside addresses): what was left out is listed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any

from jupyter_gpupool.state.kinds import is_a

#: Environment variables that are never saved: they say which devices, pool, proxies and cores a process has.
NEVER = (
    *("JUPYTER*", "JPY_*", "CUDA_*", "NVIDIA_*", "*_PROXY", "*_NUM_THREADS", "*_MAX_THREADS"),
    *("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "PYTORCH_*ALLOC_CONF"),
    *("XLA_PYTHON_CLIENT_*", "TF_FORCE_GPU_ALLOW_GROWTH", "OMP_THREAD_LIMIT", "NUMBA_NUM_THREADS"),
    *("DASK_*", "MPLBACKEND", "PWD", "OLDPWD", "SHLVL", "_"),
)
#: Environment variables that are secrets.
SECRET_ENVIRONMENT = (
    *("*TOKEN*", "*SECRET*", "*PASSWORD*", "*PASSWD*", "*PASSPHRASE*", "*_PASS", "PGPASS*", "*API_KEY*"),
    *(
        "*APIKEY*",
        "*ACCESS_KEY*",
        "*PRIVATE_KEY*",
        "*CREDENTIAL*",
        "*_AUTH",
        "*COOKIE*",
        "*CONNECTION_STRING*",
    ),
)
#: Variables of a notebook that are secrets, where they are text: narrower, for texts have tokens too.
SECRET_VARIABLES = (
    *("*password*", "*passwd*", "*passphrase*", "*secret*", "*api_key*", "*apikey*", "*access_key*"),
    *("*private_key*", "*credential*", "*auth_token*", "*access_token*", "*api_token*", "*bearer*"),
)
_NOT_SECRET = ("TOKENIZERS_*", "*_TOKENIZER*")
_PASSWORD_IN_ADDRESS = re.compile(r"://[^/\s:@]*:[^/\s@]+@")


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Tell whether a name fits one of the patterns, whatever the case of its letters."""
    lower = name.lower()
    return any(fnmatchcase(lower, pattern.lower()) for pattern in patterns)


def is_never_saved(name: str) -> bool:
    """Tell whether an environment variable belongs to this process only."""
    return matches(name, NEVER)


def is_secret_environment(name: str, value: str, patterns: Iterable[str] = SECRET_ENVIRONMENT) -> bool:
    """Tell whether an environment variable is a secret, by its name or a password in an address."""
    if _PASSWORD_IN_ADDRESS.search(value):
        return True
    return matches(name, patterns) and not matches(name, _NOT_SECRET)


def is_secret_variable(name: str, value: Any, patterns: Iterable[str] = SECRET_VARIABLES) -> bool:
    """Tell whether a variable of the notebook is a secret: text or bytes under such a name."""
    return is_a(value, str | bytes | bytearray) and matches(name, patterns)
