"""What saving needs is imported in a thread, also when the process ends meanwhile."""

from __future__ import annotations

import subprocess
import sys

ENDS_MEANWHILE = """
import sys, threading

from jupyter_gpupool.kernel.snapshots import engine

class Late:
    def find_spec(self, name, path=None, target=None):
        if name == "concurrent.futures.thread":
            threading.main_thread().join(30)

sys.meta_path.insert(0, Late())
engine.get_ready_soon()
(importing,) = [it for it in threading.enumerate() if it.name == "jupyter_gpupool imports"]
threading.Thread(target=importing.join, args=(30,)).start()
"""


def test_a_process_that_ends_while_it_imports_says_nothing() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", ENDS_MEANWHILE], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
