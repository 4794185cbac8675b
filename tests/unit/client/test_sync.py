"""The synchronous client is bounded, sends nothing twice by mistake, and finds a service that moved."""

from __future__ import annotations

import socket

import pytest

from jupyter_gpupool.client.calls import Connection
from jupyter_gpupool.client.errors import PoolUnreachable
from jupyter_gpupool.client.sync import PoolClient
from jupyter_gpupool.core.errors import NeverFits
from jupyter_gpupool.protocol.documents import ErrorDoc, LeaseRequest
from tests.support.fake_pool import lease_doc, pool_doc
from tests.support.scripted_pool import TOKEN, ScriptedPool


def nowhere() -> Connection:
    """Return an address at which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return Connection(url=f"http://127.0.0.1:{probe.getsockname()[1]}", token=TOKEN)


def test_a_connection_never_shows_its_token():
    assert TOKEN not in repr(Connection(url="http://x", token=TOKEN))


def test_calls_carry_the_token_and_the_key():
    with ScriptedPool(lambda *_: (201, lease_doc())) as pool:
        PoolClient(pool.connection).request(LeaseRequest(compute_milli=250), key="k1")
    method, path, headers = pool.asked[0]
    assert (method, path) == ("POST", "/api/v1/leases")
    assert headers["Authorization"] == f"Bearer {TOKEN}"
    assert headers["Idempotency-Key"] == "k1"


def test_a_long_poll_names_the_tag_it_knows():
    with ScriptedPool(lambda *_: (200, lease_doc())) as pool:
        PoolClient(pool.connection).lease("lease_1", since="7", wait_seconds=1.0)
    assert pool.paths("GET") == ["/api/v1/leases/lease_1?since=7&wait_seconds=1"]


def test_connections_are_kept():
    with ScriptedPool(lambda *_: (200, pool_doc())) as pool:
        client = PoolClient(pool.connection)
        client.pool()
        before = client._http.connection_from_url(pool.url).num_connections
        client.pool()
        assert client._http.connection_from_url(pool.url).num_connections == before == 1
        client.close()


def test_a_refusal_is_raised_as_itself_and_not_repeated():
    refusal = ErrorDoc(code="never_fits", message="Too much.")
    with ScriptedPool(lambda *_: (422, refusal)) as pool, pytest.raises(NeverFits, match="Too much"):
        PoolClient(pool.connection, reconnect=lambda: pool.connection).request(
            LeaseRequest(compute_milli=250), key="k"
        )
    assert len(pool.asked) == 1


def test_a_service_that_is_gone_is_looked_for_and_asked_again():
    with ScriptedPool(lambda *_: (200, pool_doc(revision=5))) as pool:
        looked: list[str] = []

        def reconnect() -> Connection:
            looked.append("again")
            return pool.connection

        client = PoolClient(nowhere(), reconnect=reconnect)
        assert client.pool().revision == 5
        assert looked == ["again"]


def test_a_connection_that_breaks_under_a_call_is_a_reason_to_look_again():
    with ScriptedPool(lambda *_: (200, pool_doc())) as pool, socket.create_server(("127.0.0.1", 0)) as dying:
        client = PoolClient(
            Connection(url=f"http://127.0.0.1:{dying.getsockname()[1]}", token=TOKEN),
            reconnect=lambda: pool.connection,
        )
        dying.settimeout(10)
        import threading

        def hang_up() -> None:
            peer, _ = dying.accept()
            peer.recv(4096)
            peer.close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        assert client.pool().revision == 1
        thread.join()


def test_looking_again_ends_with_one_sentence():
    gone = nowhere()
    with pytest.raises(
        PoolUnreachable, match=r"The pool at http://127.0.0.1:\d+ .* does not accept"
    ) as caught:
        PoolClient(gone, reconnect=lambda: gone).pool()
    assert TOKEN not in str(caught.value)


def test_a_service_that_hangs_is_not_waited_for_for_ever():
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        connection = Connection(url=f"http://127.0.0.1:{deaf.getsockname()[1]}", token=TOKEN)
        with pytest.raises(PoolUnreachable, match="does not answer in time"):
            PoolClient(connection, reconnect=lambda: connection, answer_seconds=0.2).pool()
