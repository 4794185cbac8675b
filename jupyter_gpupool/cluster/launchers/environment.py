"""Which variables a process on a node may be given.

Rule of this module: a list of what is allowed, never one of what is not; the node's administrator makes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

#: Patterns of names that are allowed unless the administrator says otherwise: language, time zone, Python,
#: Jupyter, and what numeric libraries read. Nothing that the loader obeys (``LD_…``) is among them.
ALLOWED = (
    *("PATH", "LANG", "LANGUAGE", "LC_*", "TZ", "TERM", "COLORTERM", "TMPDIR", "MPLBACKEND"),
    *("PYTHON*", "VIRTUAL_ENV", "CONDA_*", "JUPYTER_*", "JPY_*", "IPYTHON*", "GPUPOOL_*"),
    *(
        "OMP_*",
        "MKL_*",
        "OPENBLAS_*",
        "BLIS_*",
        "NUMEXPR_*",
        "VECLIB_*",
        "GOTO_*",
        "KMP_*",
        "TBB_*",
        "NUMBA_*",
    ),
    *("CUDA_*", "NVIDIA_*", "NCCL_*", "GLOO_*", "UCX_*", "CUPY_*", "RMM_*", "DASK_*"),
    *("TORCH*", "PYTORCH_*", "XLA_*", "JAX_*", "TF_*", "KERAS_*", "HF_*", "TRANSFORMERS_*", "TOKENIZERS_*"),
)


def allowed(environment: Mapping[str, str], patterns: Sequence[str] = ALLOWED) -> dict[str, str]:
    """Return the part of an environment that may be given to a process.

    Parameters
    ----------
    environment : mapping
        What is wanted.
    patterns : sequence of str
        As `fnmatch` reads them; case counts.
    """
    return {
        name: value
        for name, value in environment.items()
        if any(fnmatchcase(name, pattern) for pattern in patterns)
    }
