"""``python -m jupyter_gpupool``: the same as ``jupyter gpupool``."""

from __future__ import annotations

from jupyter_gpupool.app import main

if __name__ == "__main__":
    main()
