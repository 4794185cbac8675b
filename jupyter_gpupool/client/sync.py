"""The synchronous client, for kernels, scripts and the command line.

Rules of this module: every call is bounded; every call may be sent twice (creates carry an idempotency key),
so a service that died is found or started again through ``reconnect`` and asked once more.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import TypeVar
from urllib.parse import urlencode

import urllib3
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError, ReadTimeoutError, SSLError

from jupyter_gpupool.client import calls
from jupyter_gpupool.client.calls import Call, Connection
from jupyter_gpupool.client.errors import PoolUnreachable, from_answer
from jupyter_gpupool.core.errors import UnknownLease
from jupyter_gpupool.protocol import names
from jupyter_gpupool.protocol.administration import DrainRequest
from jupyter_gpupool.protocol.codec import decode
from jupyter_gpupool.protocol.documents import (
    ActivityRequest,
    AttachDoc,
    DeviceDoc,
    HealthDoc,
    JoinRequest,
    LeaseDoc,
    LeaseRequest,
    MovedDoc,
    MoveRequest,
    NodeDoc,
    PoolDoc,
    ProposalDoc,
    QueueEntryDoc,
    QuiescedDoc,
    ResizeRequest,
    SnapshotDoc,
    SnapshotKeyDoc,
    SnapshotsReport,
    UsageDoc,
    UsageRowDoc,
    WhyDoc,
)

T = TypeVar("T")

#: How often one call is sent when the service went away under it.
_ATTEMPTS = 3
#: Pause before the second try, seconds; it doubles.
_PAUSE_SECONDS = 0.1


class PoolClient:
    """The HTTP API of one pool, synchronously.

    Parameters
    ----------
    connection : Connection
        Where the pool is.
    reconnect : callable, optional
        Finds the pool anew (and starts it if it must and may) when it does not answer; whoever calls next
        restarts a dead service.
    answer_seconds : float
        How long an answer may take beyond what the call itself waits for.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        reconnect: Callable[[], Connection] | None = None,
        answer_seconds: float = calls.ANSWER_SECONDS,
    ) -> None:
        self.connection = connection
        self._reconnect = reconnect
        self._answer_seconds = answer_seconds
        self._http = urllib3.PoolManager(
            num_pools=2, maxsize=2, retries=False, ca_certs=connection.ca_file or None
        )

    def close(self) -> None:
        """Close the kept connections."""
        self._http.clear()

    # --- reading ---

    def health(self) -> HealthDoc:
        """Ask whether the service lives."""
        return self._ask(calls.health(), HealthDoc)

    def skew_seconds(self) -> float | None:
        """Return how far the service's clock is ahead of ours, to about a second; None if unknown."""
        try:
            answer = self._http.request(
                "GET", f"{self.connection.url}/health", timeout=self._answer_seconds, redirect=False
            )
            return parsedate_to_datetime(answer.headers["Date"]).timestamp() - time.time()
        except (HTTPError, KeyError, ValueError):
            return None

    def pool(self) -> PoolDoc:
        """Read the snapshot of the pool."""
        return self._ask(calls.get("pool"), PoolDoc)

    def devices(self) -> list[DeviceDoc]:
        """Read the devices."""
        return self._ask(calls.get("devices"), list[DeviceDoc])

    def nodes(self) -> list[NodeDoc]:
        """Read the nodes."""
        return self._ask(calls.get("nodes"), list[NodeDoc])

    def queue(self) -> list[QueueEntryDoc]:
        """Read the queue."""
        return self._ask(calls.get("queue"), list[QueueEntryDoc])

    def leases(self) -> list[LeaseDoc]:
        """Read the live leases."""
        return self._ask(calls.get("leases"), list[LeaseDoc])

    def proposals(self) -> list[ProposalDoc]:
        """Read what would have to move for requests to fit; for administrators."""
        return self._ask(calls.get("proposals"), list[ProposalDoc])

    def drain(self, node: str, *, message: str = "", grace_seconds: float | None = None) -> NodeDoc:
        """Take no new leases on a node; for administrators.

        Parameters
        ----------
        node : str
            Its id or name.
        message : str
            Why, for those who hold something there.
        grace_seconds : float, optional
            After which the leases there are ended; None when they stay.
        """
        body = DrainRequest(message=message, grace_seconds=grace_seconds)
        return self._ask(calls.drain(node, body), NodeDoc)

    def undrain(self, node: str) -> NodeDoc:
        """Take leases on a node again; for administrators. Twice is harmless."""
        return self._ask(calls.undrain(node), NodeDoc)

    def usage(self) -> list[UsageDoc]:
        """Read what each owner has used."""
        return self._ask(calls.get("usage"), list[UsageDoc])

    def usage_report(self, **query: str) -> list[UsageRowDoc]:
        """Read who has held and used what.

        Parameters
        ----------
        **query
            ``since``, ``until``, ``by``, ``every`` and ``zone``, as the API takes them.
        """
        return self._ask(calls.get(f"usage/report?{urlencode(query)}"), list[UsageRowDoc])

    def snapshots(self) -> list[SnapshotDoc]:
        """Read which snapshots of mine there are, as their holders told."""
        return self._ask(calls.get("snapshots"), list[SnapshotDoc])

    def snapshot_key(self) -> bytes:
        """Read the key that my snapshots are signed with."""
        return base64.b64decode(self._ask(calls.get("snapshots/key"), SnapshotKeyDoc).key)

    def lease(self, lease_id: str, *, since: str | None = None, wait_seconds: float = 0.0) -> LeaseDoc:
        """Read one lease; with ``since``, wait until its tag is another.

        Parameters
        ----------
        lease_id : str
            Which.
        since : str, optional
            The tag that the caller knows.
        wait_seconds : float
            How long to wait for another at most.
        """
        return self._ask(calls.lease(lease_id, since=since, wait_seconds=wait_seconds), LeaseDoc)

    def why(self, lease_id: str) -> WhyDoc:
        """Ask why a lease is as it is: who is in its way, and for how long, probably."""
        return self._ask(calls.why(lease_id), WhyDoc)

    def called(self, name: str) -> str:
        """Return the id of the one live lease of mine that is called so: by its id, or by how that ends.

        Raises
        ------
        UnknownLease
            If there is none, or more than one.
        """
        end = name.strip().lstrip("…")
        found = [doc.id for doc in self.leases() if doc.mine and doc.id == end]
        found = found or [doc.id for doc in self.leases() if doc.mine and end and doc.id.endswith(end)]
        if len(found) == 1:
            return found[0]
        what = "is no lease of yours" if not found else f"is how {len(found)} of your leases end"
        raise UnknownLease(f"“{name[:80]}” {what}.", hint="`jupyter gpupool status` lists the leases.")

    # --- changing ---

    def request(self, body: LeaseRequest, *, key: str) -> LeaseDoc:
        """Ask for a lease; the same ``key`` never makes a second one."""
        return self._ask(calls.request(body, key=key), LeaseDoc)

    def resize(self, lease_id: str, compute_milli: int, memory_bytes: int | None = None) -> LeaseDoc:
        """Ask for another size; returns when the agent has put it in force."""
        body = ResizeRequest(compute_milli=compute_milli, memory_bytes=memory_bytes)
        return self._ask(calls.resize(lease_id, body), LeaseDoc)

    def release(self, lease_id: str, *, reason: str = "") -> LeaseDoc:
        """End a lease, or cancel a request; doing it twice is harmless."""
        return self._ask(calls.release(lease_id, reason=reason), LeaseDoc)

    def release_kernel(self, kernel_id: str, *, reason: str) -> None:
        """End every lease of a kernel."""
        status, body = self._exchange(calls.release_kernel(kernel_id, reason=reason))
        if status >= 400:
            raise from_answer(status, body)

    def activity(self, lease_id: str, *, busy: bool, idle_seconds: float = 0.0) -> LeaseDoc:
        """Tell what the holder of a lease does."""
        body = ActivityRequest(busy=busy, idle_seconds=idle_seconds)
        return self._ask(calls.activity(lease_id, body), LeaseDoc)

    def join(self, lease_id: str, node: str) -> AttachDoc:
        """Ask for a ticket for a process that joins a lease on one of its nodes (its id, or its name)."""
        return self._ask(calls.join(lease_id, JoinRequest(node_id=node)), AttachDoc)

    def move(self, lease_id: str, body: MoveRequest) -> MovedDoc:
        """Have a kernel's lease go on on another node, where its kernel is started again; or ask where."""
        return self._ask(calls.move(lease_id, body), MovedDoc)

    def pin(self, lease_id: str, *, pinned: bool = True) -> LeaseDoc:
        """Have a lease not taken back, as far as the quota allows, or let it be; twice is harmless."""
        return self._ask(calls.pin(lease_id, pinned=pinned), LeaseDoc)

    def quiesce(self, lease_id: str) -> QuiescedDoc:
        """Have it made safe to signal the processes of a lease; asking again is harmless."""
        return self._ask(calls.quiesce(lease_id), QuiescedDoc)

    def quiesce_kernel(self, kernel_id: str) -> QuiescedDoc:
        """Have it made safe to signal the processes of every lease of a kernel."""
        return self._ask(calls.quiesce_kernel(kernel_id), QuiescedDoc)

    def report_snapshots(self, body: SnapshotsReport) -> list[SnapshotDoc]:
        """Tell which snapshots are in a store, in place of what was told before."""
        return self._ask(calls.report_snapshots(body), list[SnapshotDoc])

    # --- the wire ---

    def _ask(self, call: Call, kind: type[T]) -> T:
        """Send a call and decode its answer."""
        status, body = self._exchange(call)
        if status >= 400:
            raise from_answer(status, body)
        return decode(body, kind)

    def _exchange(self, call: Call) -> tuple[int, bytes]:
        """Send a call until the service answers, asking ``reconnect`` in between."""
        pause = _PAUSE_SECONDS
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return self._send(call)
            except HTTPError as error:
                if _hangs(error):
                    raise self._unreachable("does not answer in time") from error
                if self._reconnect is None or attempt == _ATTEMPTS:
                    raise self._unreachable(_in_words(error)) from error
            if attempt > 1:
                time.sleep(pause)
                pause *= 2
            self.connection = self._reconnect()
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _send(self, call: Call) -> tuple[int, bytes]:
        """Send a call once."""
        answer = self._http.request(
            call.method,
            self.connection.url + call.path,
            body=call.body,
            headers=call.headers(self.connection),
            timeout=urllib3.Timeout(
                connect=calls.CONNECT_SECONDS, read=self._answer_seconds + call.wait_seconds
            ),
            redirect=False,
        )
        return answer.status, answer.data

    def _unreachable(self, what: str) -> PoolUnreachable:
        """Say that the pool at this connection cannot be used."""
        return PoolUnreachable(
            f"The pool at {self.connection.url} (from {self.connection.source.value}) {what}.",
            hint="See `jupyter gpupool status`.",
        )


def _hangs(error: HTTPError) -> bool:
    """Tell whether a transport error means that waiting longer, or asking again, would not help."""
    # A refused connection is a kind of ConnectTimeoutError to the library.
    timed_out = isinstance(error, ReadTimeoutError | ConnectTimeoutError)
    return timed_out and not isinstance(error, NewConnectionError)


def _in_words(error: HTTPError) -> str:
    """Say what a transport error means, without the library's own wording."""
    if isinstance(error, NewConnectionError):
        return "does not accept connections"
    if isinstance(error, SSLError):
        return f"shows a certificate that is not trusted here ({names.ENV_CA_FILE} can name its authority)"
    return "closed the connection without an answer"
