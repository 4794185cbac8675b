"""A notebook whose metadata say a share has it with its first cell, without a magic.

Rules of this module: what somebody types comes first, and a lease that the kernel has is enough; what is
wrong with the metadata, or keeps the share away, is one sentence, and the cell runs without it.
"""

from __future__ import annotations

import os
from typing import Any

from jupyter_gpupool.kernel.nextcell import with_next_cell
from jupyter_gpupool.kernel.notices import tell
from jupyter_gpupool.protocol.notebook_file import ENV_NOTEBOOK, share_metadata

_TYPED = "gpupool"
_NEXT = "This cell runs without it; `%gpupool request` asks again."


def take_share(shell: Any, info: Any = None) -> None:
    """Get this notebook's kernel the share that the notebook says, unless it has one already.

    Parameters
    ----------
    shell : InteractiveShell
        The notebook's.
    info : ExecutionInfo, optional
        Of the cell that is about to run. One that says something of the pool itself runs first.
    """
    metadata = share_metadata(os.environ.get(ENV_NOTEBOOK, ""))
    if metadata is None:
        return
    if _TYPED in str(getattr(info, "raw_cell", "")):
        with_next_cell(shell, lambda following: take_share(shell, following))
        return
    from jupyter_gpupool.core.errors import GPUPoolError
    from jupyter_gpupool.kernel import api
    from jupyter_gpupool.kernel.process import this_process
    from jupyter_gpupool.kernel.words import line
    from jupyter_gpupool.protocol.wanted import read_wanted

    if this_process().held:
        return
    try:
        wanted = read_wanted(metadata, "notebook")
        lease = api.request_wanted(wanted)
    except (GPUPoolError, OSError) as error:
        tell(f"The share that this notebook asks for is not there: {error} {_NEXT}")
    except KeyboardInterrupt:
        tell(f"The request for the share that this notebook asks for was cancelled. {_NEXT}")
    else:
        tell(f"This notebook's metadata ask for {wanted.words}: it has {line(lease.doc)}.")
