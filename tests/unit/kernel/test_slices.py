"""A kernel whose server has a lease for all of its kernels: it is under that one, and asks for no second."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from jupyter_gpupool.protocol import names
from jupyter_gpupool.protocol.codec import encode
from jupyter_gpupool.protocol.messages import AttachReply
from jupyter_gpupool.protocol.slices import SliceDoc
from tests.support.fake_pool import lease_doc

_KERNEL = """
import json, os, sys
from IPython.core.interactiveshell import InteractiveShell
import jupyter_gpupool as gpupool
shell = InteractiveShell.instance()
gpupool.load_ipython_extension(shell)

def tried(work):
    try:
        return work()
    except Exception as error:
        return f"{type(error).__name__}: {error}"

found = {
    "same": tried(lambda: gpupool.request(0.25).id),
    "less": tried(lambda: gpupool.request(0.125, memory="512MiB").id),
    "more": tried(lambda: gpupool.request(0.5)),
    "two": tried(lambda: gpupool.request(0.1, count=2)),
    "memory": tried(lambda: gpupool.request(0.25, memory="8GiB")),
    "other": tried(lambda: gpupool.request(0.25, kind="cuda", wait=0)),
    "resize": tried(lambda: gpupool.request(0.25).resize(0.5)),
    "pin": tried(lambda: gpupool.request(0.25).pin()),
    "release": tried(lambda: gpupool.request(0.25).release()),
    "after": tried(lambda: gpupool.request(0.25).id),
    "threads": os.environ.get("OMP_NUM_THREADS"),
    "told": os.environ.get("JUPYTER_GPUPOOL_SLICE"),
}
print(json.dumps(found))
"""


def in_kernel(tmp_path: Path, told: str, **environment: str) -> tuple[dict[str, Any], str]:
    """Run what a kernel with this variable would; return what it found, and what it said."""
    done = subprocess.run(
        [sys.executable, "-c", _KERNEL],
        capture_output=True,
        text=True,
        timeout=60,
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith("JUPYTER_GPUPOOL")},
            names.ENV_URL: "http://127.0.0.1:9",  # where nobody is
            names.ENV_TOKEN: "a-kernels-token",
            names.ENV_AUTOSTART: "0",
            names.ENV_RUNTIME_DIR: str(tmp_path),
            names.ENV_SLICE: told,
            **environment,
        },
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


def slice_doc(**changes: Any) -> str:
    reply = AttachReply(lease_id="lease_1", threads=1, environment={"OMP_NUM_THREADS": "1"})
    return encode(SliceDoc(lease=lease_doc(device="cpu", **changes), reply=reply)).decode()


def test_what_the_server_has_is_there_without_asking(tmp_path: Path) -> None:
    found, _ = in_kernel(tmp_path, slice_doc())
    assert (found["same"], found["less"], found["after"]) == ("lease_1",) * 3
    assert found["threads"] == "1", "what each process has to do to itself is done in each kernel"
    assert found["told"] is None, "a child of the kernel is told nothing"


def test_more_than_the_server_has_and_changes_are_refused_with_what_to_do(tmp_path: Path) -> None:
    found, _ = in_kernel(tmp_path, slice_doc())
    for asked in ("more", "two", "memory", "resize", "pin"):
        assert found[asked].startswith("ServersLease: This"), (asked, found[asked])
        assert "start it with another share" in found[asked], asked
    assert "has 0.25 of cpu for all of its kernels, and 0.5 was asked for" in found["more"]
    assert "and 0.1 of 2 devices was asked for" in found["two"]
    assert found["release"] is None, "it ends with its server"
    assert found["other"].startswith("PoolUnreachable"), "another kind of device is asked of the pool"


def test_what_cannot_be_read_is_one_sentence_and_the_kernel_starts(tmp_path: Path) -> None:
    found, said = in_kernel(tmp_path, '{"lease": 5}')
    assert "gpupool: this kernel does not know its server's lease:" in said
    assert found["same"].startswith("PoolUnreachable")
