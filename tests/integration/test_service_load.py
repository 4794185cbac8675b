"""Many owners at once: nothing is lost or doubled, and it is not slow."""

from __future__ import annotations

import sqlite3
import threading
import time
from pathlib import Path

import urllib3

from jupyter_gpupool.protocol import paths
from tests.support.pool_process import running_pool, wait_for

OWNERS = 8
SECONDS = 1.0


def test_every_lease_of_many_owners_is_granted_once_and_ends_once(
    pool_environment: dict[str, str], tmp_path: Path
) -> None:
    tokens = {f"owner{number}": f"token-of-owner-{number:04d}" for number in range(OWNERS)}
    config = tmp_path / "config.py"
    config.write_text(f"c.PoolService.tokens = {tokens!r}\n")
    with running_pool(emulate="4xA100-80GB", arguments=("--config", str(config))) as pool:
        ended: dict[str, list[str]] = {owner: [] for owner in tokens}
        faults: list[str] = []

        def cycle(owner: str) -> None:
            http = urllib3.PoolManager(num_pools=1, maxsize=1, retries=False)
            headers = {"Authorization": f"Bearer {tokens[owner]}"}
            url = f"{pool.url}/api/v1/leases"
            until = time.monotonic() + SECONDS
            while time.monotonic() < until:
                asked = http.request("POST", url, body=b'{"compute_milli":100}', headers=headers, timeout=20)
                if asked.status != 201 or not asked.json()["attach"]:
                    faults.append(f"{owner}: {asked.status} {asked.data!r}")
                    break
                lease_id = asked.json()["id"]
                done = http.request("DELETE", f"{url}/{lease_id}", headers=headers, timeout=20)
                if done.status != 200 or done.json()["state"] != "ended":
                    faults.append(f"{owner}: {done.status} {done.data!r}")
                    break
                ended[owner].append(lease_id)
            http.clear()

        threads = [threading.Thread(target=cycle, args=(owner,)) for owner in tokens]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert faults == []
        total = sum(len(ids) for ids in ended.values())
        assert total > 10 * SECONDS
        wait_for(lambda: pool.get("/api/v1/leases").body == [], "all leases to be gone")
        devices = pool.get("/api/v1/devices").body
        assert all(device["free_compute_milli"] == 1000 for device in devices)
        for owner, token in tokens.items():
            (usage,) = pool.get("/api/v1/usage", token=token).body
            assert (usage["leases"], usage["live_leases"]) == (len(ended[owner]), 0)
        pool.stop()
    database = sqlite3.connect(paths.data_dir() / "emulated" / "journal.sqlite3")
    rows = dict(database.execute("SELECT id, owner FROM leases WHERE state = 'ended'"))
    assert rows == {lease_id: owner for owner, ids in ended.items() for lease_id in ids}
    ends = database.execute("SELECT COUNT(*) FROM transitions WHERE after = 'ended' AND before != 'ended'")
    assert ends.fetchone() == (total,)
    database.close()
