"""``%gpupool request … --move``: a kernel whose node has no room goes on on the node that has."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tornado.websocket import websocket_connect

from jupyter_gpupool.protocol import names
from tests.support.node_kernels import ROOT, add_kernelspec, speaking_to, start_session
from tests.support.notebook import Cell, Talk
from tests.support.pool_process import running_pool, wait_for, world
from tests.support.server_process import TOKEN, ServerProcess
from tests.support.two_nodes import TwoNodes, two_nodes

pytestmark = [pytest.mark.slow, pytest.mark.beside]


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoNodes]:
    with two_nodes(tmp_path_factory.mktemp("moves")) as nodes:
        yield nodes


@pytest.fixture(scope="module")
def server(nodes: TwoNodes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Start a server whose kernels keep snapshots where both nodes see them."""
    folder = tmp_path_factory.mktemp("server")
    store = {names.ENV_STORE: str(tmp_path_factory.mktemp("store"))}
    server = ServerProcess(folder, nodes.pool.environment)
    add_kernelspec(server, "quarter", env={"PYTHONPATH": str(ROOT), **store})
    add_kernelspec(server, "apart", env={"PYTHONPATH": str(ROOT)})
    try:
        server.start()
        server.wait_connected()
        yield server
    finally:
        server.cleanup()


@contextmanager
def kernel_on(server: ServerProcess, spec: str = "quarter") -> Iterator[str]:
    """Start a kernel, and shut it down."""
    answer = start_session(server, spec, path=f"{uuid.uuid4().hex}.ipynb")
    assert answer.status == 201, (answer, server.log()[-3000:])
    try:
        yield str(answer.body["kernel"]["id"])
    finally:
        server.ask("DELETE", f"api/sessions/{answer.body['id']}")


def lease_of(nodes: TwoNodes, kernel_id: str, unlike: int | None = None) -> Any:
    """Wait until a kernel holds its one lease, with another process than ``unlike``; return it."""

    def found() -> Any:
        mine = [it for it in nodes.pool.get("/api/v1/leases").body if it["holder"]["kernel_id"] == kernel_id]
        assert len(mine) <= 1, mine
        held = [it for it in mine if it["state"] == "active" and it["holder"]["pid"] != unlike]
        return held[0] if held else None

    return wait_for(found, f"kernel {kernel_id} to hold its lease")


def run(server: ServerProcess, kernel_id: str, code: str) -> Cell:
    """Run a cell, which may fail."""
    with speaking_to(server, kernel_id) as client:
        client.wait_for_ready(timeout=60)
        return Talk(client).run(code)


def node_name(nodes: TwoNodes, lease: Any) -> str:
    """Return the name of a lease's node."""
    return next(it["hostname"] for it in nodes.pool.get("/api/v1/nodes").body if it["id"] == lease["node_id"])


@contextmanager
def no_room_beside(nodes: TwoNodes, lease: Any) -> Iterator[None]:
    """Have the rest of a lease's device taken."""
    rest = nodes.pool.request(1000 - lease["compute_milli"], device=lease["shares"][0]["device_id"])
    try:
        yield
    finally:
        nodes.pool.release(rest["id"])


def test_a_kernel_moves_with_its_variables_to_the_node_that_has_room(
    nodes: TwoNodes, server: ServerProcess
) -> None:
    with kernel_on(server) as kernel_id:
        before = lease_of(nodes, kernel_id)
        server.run(kernel_id, "import threading\nx = {'a': [1, 2]}\ny = x\nlock = threading.Lock()")
        with no_room_beside(nodes, before):
            cell = run(server, kernel_id, "%gpupool request 0.5 --move\nx['a'].append(3)")
            assert cell.status == "error", cell.text
            assert "This kernel goes on on node" in cell.text
            after = lease_of(nodes, kernel_id, unlike=before["holder"]["pid"])
            assert after["id"] == before["id"]
            assert after["node_id"] != before["node_id"]
            assert after["compute_milli"] == 500
            wait_for(lambda: not Path(f"/proc/{before['holder']['pid']}").exists(), "the first to be gone")
            cell = run(server, kernel_id, "import os; (x, y is x, os.getpid())")
            assert cell.result == f"({{'a': [1, 2]}}, True, {after['holder']['pid']})", cell.text
            assert "This kernel has moved here. Restored “move-" in cell.stderr
            assert run(server, kernel_id, "%gpupool snapshots").text.count(f"move-{kernel_id}") == 0
            assert "has moved" not in run(server, kernel_id, "x").text


def test_a_lease_grows_where_it_is_while_there_is_room(nodes: TwoNodes, server: ServerProcess) -> None:
    with kernel_on(server) as kernel_id:
        before = lease_of(nodes, kernel_id)
        cell = run(server, kernel_id, "%gpupool request 0.5 --move")
        assert "This node has room" in cell.stderr, cell.text
        after = lease_of(nodes, kernel_id)
        assert (after["node_id"], after["compute_milli"]) == (before["node_id"], 500)
        assert after["holder"]["pid"] == before["holder"]["pid"]


def test_where_no_other_node_has_room_the_kernel_stays_as_it_is(
    nodes: TwoNodes, server: ServerProcess
) -> None:
    with kernel_on(server) as kernel_id:
        before = lease_of(nodes, kernel_id)
        server.run(kernel_id, "x = 1")
        others = [
            it["id"] for it in nodes.pool.get("/api/v1/devices").body if before["id"] not in it["leases"]
        ]
        (elsewhere,) = others
        taken = nodes.pool.request(800, device=elsewhere)
        with no_room_beside(nodes, before):
            cell = run(server, kernel_id, "%gpupool request 0.5 --move")
        nodes.pool.release(taken["id"])
        assert "is free on no other node" in cell.text
        assert "Traceback" not in cell.text
        assert lease_of(nodes, kernel_id)["holder"] == before["holder"]
        assert server.run(kernel_id, "", "x") == 1


def test_a_kernel_whose_state_the_other_node_would_not_see_stays(
    nodes: TwoNodes, server: ServerProcess
) -> None:
    with kernel_on(server, "apart") as kernel_id:
        before = lease_of(nodes, kernel_id)
        with no_room_beside(nodes, before):
            cell = run(
                server, kernel_id, "import jupyter_gpupool as gpupool\ngpupool.request(0.5, move=True)"
            )
        assert cell.ename == "NotMovable", cell.text
        assert names.ENV_STORE in cell.text
        assert lease_of(nodes, kernel_id)["holder"] == before["holder"]


def test_a_state_that_cannot_be_saved_keeps_the_kernel_where_it_is(
    nodes: TwoNodes, server: ServerProcess
) -> None:
    with kernel_on(server) as kernel_id:
        before = lease_of(nodes, kernel_id)
        blocked = "import os, jupyter_gpupool.kernel.snapshots.session as s\n"
        server.run(kernel_id, f"{blocked}x = 1\nfolder = s.this_session().store.folder")
        folder = server.run(kernel_id, "", "folder")
        moved = Path(f"{folder}.aside")
        Path(folder).rename(moved)
        Path(folder).write_text("")  # a file where the store has to be
        try:
            with no_room_beside(nodes, before):
                cell = run(server, kernel_id, "%gpupool request 0.5 --move")
        finally:
            Path(folder).unlink()
            moved.rename(folder)
        assert cell.status == "error", cell.text
        assert "goes on" not in cell.text
        assert lease_of(nodes, kernel_id)["holder"] == before["holder"]
        assert server.run(kernel_id, "", "x") == 1


def test_a_kernel_of_the_servers_own_is_told_how_one_gets_one_that_moves(
    nodes: TwoNodes, server: ServerProcess
) -> None:
    kernel_id = server.start_kernel()
    cell = run(server, kernel_id, "%gpupool request 0.25 --move")
    assert "was not started by the pool" in cell.text
    assert "kernelspec install" in cell.text
    assert not [it for it in nodes.pool.get("/api/v1/leases").body if it["holder"]["kernel_id"] == kernel_id]
    assert server.ask("DELETE", f"api/kernels/{kernel_id}").status == 204


def test_a_kernel_that_is_killed_before_its_first_cell_still_has_its_variables(
    nodes: TwoNodes, server: ServerProcess
) -> None:
    with kernel_on(server) as kernel_id:
        first = lease_of(nodes, kernel_id)
        server.run(kernel_id, "x = 41")
        with no_room_beside(nodes, first):
            run(server, kernel_id, "%gpupool request 0.5 --move")
            second = lease_of(nodes, kernel_id, unlike=first["holder"]["pid"])
            os.kill(second["holder"]["pid"], signal.SIGKILL)
            third = lease_of(nodes, kernel_id, unlike=second["holder"]["pid"])
        assert third["node_id"] == second["node_id"]
        assert "has moved here" in run(server, kernel_id, "x += 1").stderr
        assert server.run(kernel_id, "", "x") == 42


def test_a_refusal_names_the_move_where_another_node_has_room(nodes: TwoNodes, server: ServerProcess) -> None:
    with kernel_on(server) as kernel_id:
        before = lease_of(nodes, kernel_id)
        with no_room_beside(nodes, before):
            for typed in ("request", "resize"):
                cell = run(server, kernel_id, f"%gpupool {typed} 0.5")
                assert "has room: `%gpupool request 0.5 --move` takes this kernel there" in cell.text
            devices = nodes.pool.get("/api/v1/devices").body
            (elsewhere,) = [it["id"] for it in devices if before["id"] not in it["leases"]]
            taken = nodes.pool.request(800, device=elsewhere)
            assert "--move" not in run(server, kernel_id, "%gpupool resize 0.5").text
            nodes.pool.release(taken["id"])
        assert "--move" in run(server, kernel_id, "%gpupool request --help").stdout
        assert lease_of(nodes, kernel_id)["holder"] == before["holder"]


class Tab:
    """A notebook's channel to its kernel, as a browser has it."""

    def __init__(self, server: ServerProcess, kernel_id: str) -> None:
        self._url = (
            f"ws://127.0.0.1:{server.port}/api/kernels/{kernel_id}/channels?token={TOKEN}&session_id=tab"
        )
        self._socket: Any = None

    async def connect(self) -> None:
        """Open it; it is as a browser's that has the same page all the time."""
        self._socket = await websocket_connect(self._url)

    async def execute(self, code: str) -> str:
        """Begin a cell; return its message's id."""
        header = {
            "msg_id": uuid.uuid4().hex,
            "msg_type": "execute_request",
            "session": "tab",
            "version": "5.3",
        }
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}}
        message = {"header": header, "parent_header": {}, "metadata": {}, "content": content}
        await self._socket.write_message(json.dumps({**message, "channel": "shell", "buffers": []}))
        return header["msg_id"]

    async def messages(self) -> list[Any]:
        """Return what comes until the server closes it."""
        found = []
        while (text := await self._socket.read_message()) is not None:
            found.append(json.loads(text))
        self.close()
        return found

    def close(self) -> None:
        """Close it."""
        self._socket.close()

    async def answer(self, sent: str) -> Any:
        """Return what is answered to a cell."""
        while (text := await self._socket.read_message()) is not None:
            message = json.loads(text)
            if message["msg_type"] == "execute_reply" and message["parent_header"].get("msg_id") == sent:
                return message["content"]
        raise AssertionError("the channel was closed")


@pytest.mark.asyncio
async def test_a_browsers_channel_is_closed_so_that_it_finds_the_kernel_on_its_new_node(
    nodes: TwoNodes, server: ServerProcess
) -> None:
    with kernel_on(server) as kernel_id:
        before = lease_of(nodes, kernel_id)
        server.run(kernel_id, "x = 41")
        tab = Tab(server, kernel_id)
        async with asyncio.timeout(90):
            await tab.connect()
            with no_room_beside(nodes, before):
                sent = await tab.execute("%gpupool request 0.5 --move")
                said = await tab.messages()
                assert [it["content"]["ename"] for it in said if it["msg_type"] == "error"] == ["KernelMoves"]
                replies = [it for it in said if it["msg_type"] == "execute_reply"]
                assert [it["parent_header"]["msg_id"] for it in replies] == [sent]
                await tab.connect()
                assert (await tab.answer(await tab.execute("x += 1")))["status"] == "ok"
            tab.close()
        assert server.run(kernel_id, "", "x") == 42
        state = lambda: server.ask("GET", f"api/kernels/{kernel_id}").body["execution_state"]  # noqa: E731
        wait_for(lambda: state() == "idle", "the server to see the kernel where it is")


def test_a_kernel_whose_lease_is_lost_on_its_way_still_has_its_variables(
    nodes: TwoNodes, server: ServerProcess
) -> None:
    with kernel_on(server) as kernel_id:
        before = lease_of(nodes, kernel_id)
        server.run(kernel_id, "x = 41")
        with no_room_beside(nodes, before):
            run(server, kernel_id, "%gpupool request 0.5 --move")
            nodes.pool.release(before["id"])
        after = lease_of(nodes, kernel_id, unlike=before["holder"]["pid"])
        assert after["id"] != before["id"]
        assert "has moved here" in run(server, kernel_id, "x += 1").stderr
        assert server.run(kernel_id, "", "x") == 42


def test_a_kernel_has_its_workers_again_after_a_move(nodes: TwoNodes, server: ServerProcess) -> None:
    with kernel_on(server) as kernel_id:
        before = lease_of(nodes, kernel_id)
        run(server, kernel_id, "%gpupool scale 1 --share 0.1")
        assert run(server, kernel_id, "client.submit(sum, [1, 2]).result()").result == "3"
        rest = nodes.pool.request(600, device=before["shares"][0]["device_id"])
        cell = run(server, kernel_id, "%gpupool request 0.5 --move")
        assert cell.ename == "KernelMoves", cell.text
        nodes.pool.release(rest["id"])

        def there() -> Any:
            leases = nodes.pool.get("/api/v1/leases").body
            return next((it for it in leases if it["id"] == before["id"] and it["state"] == "active"), None)

        after = wait_for(there, "the kernel to be on the other node")
        assert after["node_id"] != before["node_id"]
        cell = run(server, kernel_id, "client.submit(sum, [3, 4]).result()")
        assert "1 worker with a share of 0.1 is asked for again" in cell.stderr, cell.text
        assert cell.result == "7", cell.text
        assert run(server, kernel_id, "'_gpupool_scaled' in globals()").result == "False"


@pytest.mark.parametrize("grace", [{}, {"grace_seconds": 600.0}], ids=["leases stay", "leases end"])
def test_a_kernel_leaves_a_drained_node_with_what_it_has(
    nodes: TwoNodes, server: ServerProcess, grace: dict[str, float]
) -> None:
    with kernel_on(server) as kernel_id:
        before = lease_of(nodes, kernel_id)
        server.run(kernel_id, "x = 41")
        path = f"/api/v1/nodes/{before['node_id']}"
        assert nodes.pool.ask("POST", f"{path}/drain", grace).status == 200
        try:
            if grace:
                said = "Save what you need; `%gpupool request 0.25 --move` takes this kernel to another node"
                wait_for(
                    lambda: said in run(server, kernel_id, "x").stderr, "the kernel to be told what it can do"
                )
            cell = run(server, kernel_id, "%gpupool request 0.25 --move")
            assert cell.ename == "KernelMoves", cell.text
            after = lease_of(nodes, kernel_id, unlike=before["holder"]["pid"])
            assert after["node_id"] != before["node_id"]
            assert after["reclaim_seconds"] is None
            assert "has moved here" in run(server, kernel_id, "x += 1").stderr
        finally:
            assert nodes.pool.ask("POST", f"{path}/undrain").status == 200


def test_a_kernel_on_a_node_without_gpus_goes_to_one_that_has_them(tmp_path: Path) -> None:
    with running_pool(world(tmp_path / "pool")) as pool:
        nodes = TwoNodes(pool, tmp_path / "pool")
        server = ServerProcess(tmp_path / "server", pool.environment)
        add_kernelspec(
            server,
            "cpu",
            gpupool={"share": 0.25, "kind": "cpu"},
            env={"PYTHONPATH": str(ROOT), names.ENV_STORE: str(tmp_path / "store")},
        )
        try:
            nodes.start_second()
            server.start()
            server.wait_connected()
            with kernel_on(server, "cpu") as kernel_id:
                before = lease_of(nodes, kernel_id)
                server.run(kernel_id, "x = 41")
                cell = run(server, kernel_id, "%gpupool request 0.5 --kind cuda --move")
                assert cell.ename == "KernelMoves", cell.text
                after = lease_of(nodes, kernel_id, unlike=before["holder"]["pid"])
                assert (after["id"], after["kind"]) == (before["id"], "cuda")
                assert "has moved here" in run(server, kernel_id, "x += 1").stderr
                assert server.run(kernel_id, "", "x") == 42
        finally:
            server.cleanup()
            nodes.close()
