"""Reading the pool over HTTP.

Rule of this module: what is told was written down before.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack, suppress
from importlib.resources import files

from jupyter_gpupool._version import version
from jupyter_gpupool.core.devices import Device
from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.protocol import codec, names
from jupyter_gpupool.protocol.documents import HealthDoc
from jupyter_gpupool.service.auth import Forbidden
from jupyter_gpupool.service.usage_report import DIMENSIONS, Every, Wanted, dimensions, read_time, zone_of
from jupyter_gpupool.service.web import Answer, Request, Stream, json_answer

#: An event stream that has nothing to say sends a comment this often, seconds.
COMMENT_SECONDS = 15.0
#: For how long the metrics wait for what is being written down, seconds.
SETTLE_SECONDS = 2.0
#: How often it is looked whether the token of an event stream is still good, seconds.
CHECK_SECONDS = 30.0
#: Without a beginning a report is of the last 30 days, milliseconds.
MONTH_MS = 30 * 86_400_000
#: Least pause between two events of one stream, seconds: after a change, and when only readings changed.
PAUSE_SECONDS, READINGS_PAUSE_SECONDS = 0.1, 1.0


async def get_health(request: Request) -> Answer:
    """Say that the service answers, and which API it speaks; this needs no token."""
    status = "ok" if request.context.host.failure is None else "journal_unavailable"
    return json_answer(HealthDoc(status=status, version=version(), api=names.API_MAJOR))


async def get_contract(request: Request) -> Answer:
    """Send openapi.yaml; this needs no token."""
    text = files("jupyter_gpupool.service").joinpath("openapi.yaml").read_bytes()
    return Answer(text, kind=b"application/yaml")


async def get_pool(request: Request) -> Answer:
    """Send the pool snapshot."""
    who = request.who
    await request.context.host.settled()
    return json_answer(request.context.views.pool(who))


async def get_devices(request: Request) -> Answer:
    """Send all devices."""
    who = request.who
    await request.context.host.settled()
    return json_answer(request.context.views.devices(who))


async def get_nodes(request: Request) -> Answer:
    """Send all nodes."""
    request.who  # noqa: B018 - raises without a good token
    await request.context.host.settled()
    return json_answer(request.context.views.nodes())


async def get_proposals(request: Request) -> Answer:
    """Send what would have to move for requests to fit, to an administrator."""
    await request.context.host.settled()
    return json_answer(request.context.views.proposals())


async def get_queue(request: Request) -> Answer:
    """Send the requests that wait."""
    who = request.who
    await request.context.host.settled()
    return json_answer(request.context.views.queue(who))


async def get_usage(request: Request) -> Answer:
    """Send what the principal's owner has used."""
    return json_answer(await request.context.usage.of(request.who))


async def get_usage_report(request: Request) -> Answer:
    """Send who has held and used what, split as the query says."""
    who, query = request.who, request.query
    zone = zone_of(query("zone") or "UTC")
    now_ms = request.context.clock.read().wall_ms
    since, until, every = query("since"), query("until"), query("every") or Every.ALL.value
    if every not in {it.value for it in Every}:
        raise InvalidValue(f"“{every[:80]}” is no period.", hint="Write all, day, week or month.")
    by = query("by")
    wanted = Wanted(
        since_ms=read_time(since, zone) if since else now_ms - MONTH_MS,
        until_ms=read_time(until, zone) if until else now_ms,
        by=tuple(dimensions(by)) if by is not None else DIMENSIONS,
        every=Every(every),
        zone=zone,
    )
    return json_answer(await request.context.usage.report(who, wanted))


async def get_metrics(request: Request) -> Answer:
    """Send all metrics; they count every owner's leases, so a kernel's token is not enough."""
    if request.who.kernel_id:
        raise Forbidden("A kernel's token cannot read the metrics.", hint="Use an owner's token.")
    host, metrics = request.context.host, request.context.metrics
    lag_ms = host.lag_ms
    with suppress(TimeoutError):  # a disk that hangs is what this is to tell of
        async with asyncio.timeout(SETTLE_SECONDS):
            await host.settled()
    pool, devices = host.pool, list[Device](host.pool.devices.values())
    body = metrics.render(
        states=[lease.state for lease in host.leases.values()],
        offered=[pool.withheld(device.id) is None for device in devices],
        compute=[(it.kind.value, pool.free(it.id).compute_milli, 1000) for it in devices],
        writable=host.failure is None,
        connected=[node.connected for node in pool.nodes.values()],
        drained=len(pool.drains),
        lag_seconds=max(lag_ms, host.lag_ms) / 1000,
        measured=request.context.measured.text(request.who),
    )
    return Answer(body, kind=metrics.content_type.encode())


async def get_events(request: Request) -> Stream:
    """Send the pool snapshot as server-sent events: one at once, and one after each change."""
    place = ExitStack()
    place.enter_context(request.context.throttle.stream(request.who.owner))
    return Stream(_events(request), place)


async def _events(request: Request) -> AsyncIterator[bytes]:
    """Send events for as long as the client stays, and its token is good."""
    context, who = request.context, request.who
    host, watch, revision = context.host, context.watch, -1
    loop = asyncio.get_running_loop()
    checked = loop.time()
    while not watch.closed:
        if loop.time() - checked > CHECK_SECONDS:
            checked = loop.time()
            if await request.identify(fresh=False) is None:
                return
        await host.settled()
        seen, changed, revision = watch.version, revision != host.revision, host.revision
        yield b"event: pool\nid: %d\ndata: %b\n\n" % (revision, codec.encode(context.views.pool(who)))
        await asyncio.sleep(PAUSE_SECONDS if changed else READINGS_PAUSE_SECONDS)
        while not await watch.pool(seen, COMMENT_SECONDS):
            yield b": still here\n\n"
