"""Processes on the nodes of leases, as a client asks a running pool for them."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import jupyter_gpupool
from tests.support.pool_process import PATIENCE_SECONDS, Answer, PoolProcess, wait_for

ROOT = Path(jupyter_gpupool.__file__).parents[1]
#: Shows its lease's ticket, which it reads, and lives until it is ended.
HOLDER = """
import json, sys, time
from jupyter_gpupool.protocol.codec import decode
from jupyter_gpupool.protocol.documents import AttachDoc
from jupyter_gpupool.kernel.attach import show_ticket
show_ticket(decode(sys.stdin.readline(), AttachDoc))
print("attached", flush=True)
time.sleep(600)
"""


def launch(pool: PoolProcess, lease_id: str, *argv: str, **fields: Any) -> Answer:
    """Ask for a process."""
    body = {"id": str(uuid.uuid4()), "argv": [*argv], "env": {"PYTHONPATH": str(ROOT)}, **fields}
    token = fields.pop("token", None)
    body.pop("token", None)
    return pool.ask("POST", f"/api/v1/leases/{lease_id}/processes", body, token=token)


def wait_process(pool: PoolProcess, doc: Any, *states: str) -> Any:
    """Wait until a process is in one of these states; return its document."""
    path = f"/api/v1/leases/{doc['lease_id']}/processes/{doc['id']}"

    def there() -> Any:
        answer = pool.get(path)
        return answer.body if answer.status == 200 and answer.body["state"] in states else None

    return wait_for(there, f"process {doc['id']} to be {' or '.join(states)}", PATIENCE_SECONDS)


def start_holder(pool: PoolProcess) -> tuple[Any, Any]:
    """Start a holder of a new lease on its node; return lease and process when it is attached."""
    import json

    lease = pool.request()
    lease = pool.wait_state(lease["id"], "attaching")
    line = json.dumps(lease["attach"]) + "\n"
    answer = launch(pool, lease["id"], "python", "-c", HOLDER, stdin=line)
    assert answer.status == 201, answer
    process = wait_process(pool, answer.body, "running", "failed")
    return pool.wait_state(lease["id"], "active"), process
