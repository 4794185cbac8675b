"""A share for a whole server: chosen in the Hub's form, taken before the server starts, ended with it.

Rules of this module: hooks and callables that any spawner takes, each of them calling what was configured
before; the lease is its user's own, taken with their token; what is asked of the pool is bounded in time.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from jupyter_gpupool.client.aio import AsyncPoolClient
from jupyter_gpupool.client.calls import Connection
from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.core.leases import LeaseState
from jupyter_gpupool.core.shares import format_compute
from jupyter_gpupool.hub.offers import BadChoice, Offers, Wish
from jupyter_gpupool.protocol import names
from jupyter_gpupool.protocol.documents import HolderRequest, LeaseDoc, LeaseRequest

#: How long a token lives that a hook makes for one call, seconds.
TOKEN_SECONDS = 120
#: How long the pool may take to answer a hook, seconds.
ANSWER_SECONDS = 10.0
#: How long one look at a request that waits may take, seconds.
LOOK_SECONDS = 2.0
#: Where a hook keeps what it knows of a spawner.
_NOTE = "_gpupool_waiting"

Hook = Callable[[Any], Any]


@dataclass
class Waiting:
    """What the spawn page shows while a server's share is waited for."""

    message: str = ""
    waits: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def say(self, message: str, *, waits: bool = True) -> None:
        """Show a message, to everybody who looks."""
        if (message, waits) != (self.message, self.waits):
            self.message, self.waits = message, waits
            self.changed.set()
            self.changed = asyncio.Event()


class Slices:
    """The hooks.

    Parameters
    ----------
    url : str
        The pool, as the Hub reaches it.
    service : str
        Its name in the Hub.
    offers : Offers
        What is offered.
    """

    def __init__(self, url: str, service: str, offers: Offers) -> None:
        self._url = url
        self._offers = offers
        self._scopes = [f"access:services!service={service}", "custom:gpupool:read", "custom:gpupool:lease"]

    def install(self, c: Any) -> None:
        """Put the hooks into a Hub's configuration, before those that are there."""
        before = {name: c.Spawner[name] for name in _HOOKS if name in c.Spawner}
        c.Spawner.options_form = self._form(before.get("options_form"))
        c.Spawner.options_from_form = self._from_form(before.get("options_from_form"))
        c.Spawner.apply_user_options = self._apply(before.get("apply_user_options"))
        c.Spawner.pre_spawn_hook = self._pre_spawn(before.get("pre_spawn_hook"))
        c.Spawner.post_stop_hook = self._post_stop(before.get("post_stop_hook"))

    # --- the form -------------------------------------------------------------------------------

    def _form(self, before: Any) -> Hook:
        async def options_form(spawner: Any) -> str:
            theirs = _default(spawner, "options_form") if before is None else before
            if callable(theirs):
                theirs = await _settled(theirs(spawner))
            return f"{theirs or ''}{await self._our_form(spawner)}"

        return options_form

    async def _our_form(self, spawner: Any) -> str:
        try:
            async with self._client(self._token(spawner)) as client, asyncio.timeout(ANSWER_SECONDS):
                return self._offers.form(await client.pool(), await client.usage())
        except (GPUPoolError, TimeoutError) as error:
            spawner.log.warning("jupyter_gpupool: the form shows no pool: %s", error)
            return self._offers.form(None, [], problem="The pool does not answer now.")

    def _from_form(self, before: Any) -> Callable[..., dict[str, Any]]:
        offers = self._offers

        def options_from_form(form_data: Mapping[str, Any], spawner: Any) -> dict[str, Any]:
            theirs = _default(spawner, "options_from_form") if before is None else before
            found: dict[str, Any] = {}
            if callable(theirs):
                more = {"spawner": spawner} if "spawner" in inspect.signature(theirs).parameters else {}
                found = dict(theirs(form_data, **more))
            return found | offers.from_form(form_data)

        return options_from_form

    # --- a start --------------------------------------------------------------------------------

    def _apply(self, before: Any) -> Callable[[Any, Any], Awaitable[None]]:
        async def apply_user_options(spawner: Any, user_options: dict[str, Any]) -> None:
            self._read(user_options)
            _follow(spawner)
            if callable(before):
                await _settled(before(spawner, user_options))

        return apply_user_options

    def _read(self, options: Any) -> Wish | None:
        """Read what was chosen.

        Raises
        ------
        HTTPError
            With status 400, if it is not offered.
        """
        try:
            return self._offers.read(options if isinstance(options, Mapping) else {})
        except BadChoice as error:
            raise _refused(400, error.message) from error

    def _pre_spawn(self, before: Any) -> Callable[[Any], Awaitable[None]]:
        async def pre_spawn_hook(spawner: Any) -> None:
            wish = self._read(spawner.user_options)
            environment = dict(spawner.environment)
            environment.pop(names.ENV_SERVER_LEASE, None)  # of an earlier start
            if wish is not None:
                environment[names.ENV_SERVER_LEASE] = await self._take(spawner, wish)
            spawner.environment = environment
            if before is not None:
                await _settled(before(spawner))

        return pre_spawn_hook

    async def _take(self, spawner: Any, wish: Wish) -> str:
        """Take the lease; return its id when it is granted.

        Raises
        ------
        HTTPError
            If it is refused, or not granted in time.
        """
        board = _follow(spawner)
        async with self._client(spawner.api_token) as client:
            try:
                await self._release(client, spawner)
                doc = await client.request(_request(spawner, wish), key=uuid.uuid4().hex)
                return await self._granted(client, doc, board, wish)
            except GPUPoolError as error:
                raise _refused(
                    409, f"No share for this server: {error.message} {error.hint}".strip()
                ) from error
            finally:
                board.say("", waits=False)

    async def _granted(self, client: AsyncPoolClient, doc: LeaseDoc, board: Waiting, wish: Wish) -> str:
        until = asyncio.get_running_loop().time() + wish.wait_seconds + LOOK_SECONDS
        while doc.state is LeaseState.QUEUED:
            board.say(f"Waiting for {format_compute(wish.compute_milli)} of a device: {doc.reason}")
            if asyncio.get_running_loop().time() > until:
                await client.release(doc.id)
                raise BadChoice(f"It was not free within {wish.wait_seconds / 60:g} minutes.")
            doc = await client.lease(doc.id, since=doc.tag, wait_seconds=LOOK_SECONDS)
        if doc.state is LeaseState.ENDED:
            raise BadChoice(f"The request ended: {doc.end_detail or doc.reason}")
        return doc.id

    def _post_stop(self, before: Any) -> Callable[[Any], Awaitable[None]]:
        async def post_stop_hook(spawner: Any) -> None:
            try:
                async with self._client(self._token(spawner)) as client, asyncio.timeout(ANSWER_SECONDS):
                    await self._release(client, spawner)
            except (GPUPoolError, TimeoutError) as error:
                # the end of the server's process ends its lease, too, whatever the Hub knows
                spawner.log.info("jupyter_gpupool: %s", error)
            if before is not None:
                await _settled(before(spawner))

        return post_stop_hook

    async def _release(self, client: AsyncPoolClient, spawner: Any) -> None:
        """End what is left of an earlier start of this server."""
        key = _holder_key(spawner)
        for lease in await client.leases():
            if lease.mine and lease.holder.key == key and lease.state is not LeaseState.ENDED:
                await client.release(lease.id)

    # --- the pool -------------------------------------------------------------------------------

    def _token(self, spawner: Any) -> str:
        """Make a token of the user's that lives for one call."""
        made = spawner.user.new_api_token(
            note="GPU pool: start of a server", expires_in=TOKEN_SECONDS, scopes=self._scopes
        )
        return str(made)

    @contextlib.asynccontextmanager
    async def _client(self, token: str) -> AsyncIterator[AsyncPoolClient]:
        client = AsyncPoolClient(Connection(url=self._url, token=token), answer_seconds=ANSWER_SECONDS)
        try:
            yield client
        finally:
            client.close()


#: What of a spawner's configuration we wrap.
_HOOKS = ("options_form", "options_from_form", "apply_user_options", "pre_spawn_hook", "post_stop_hook")


def _holder_key(spawner: Any) -> str:
    return f"server/{spawner.name}"[:200]


def _request(spawner: Any, wish: Wish) -> LeaseRequest:
    label = f"server {spawner.name}".strip()
    return LeaseRequest(
        compute_milli=wish.compute_milli,
        kind=wish.kind,
        wait_seconds=wish.wait_seconds,
        holder=HolderRequest(key=_holder_key(spawner), label=label),
    )


def _follow(spawner: Any) -> Waiting:
    """Have the spawn page show what a server waits for; once for each spawner."""
    board = getattr(spawner, _NOTE, None)
    if isinstance(board, Waiting):
        return board
    board, theirs = Waiting(), spawner.progress

    async def progress() -> AsyncIterator[dict[str, Any]]:
        while board.waits:
            changed = board.changed
            yield {"progress": 10, "message": board.message}
            await changed.wait()
        async with contextlib.aclosing(theirs()) as events:
            async for event in events:
                yield event

    setattr(spawner, _NOTE, board)
    spawner.progress = progress
    return board


def _default(spawner: Any, name: str) -> Any:
    """Return what this class of spawner has where nobody configures it, such as a list of profiles."""
    return spawner.trait_defaults(name)


async def _settled(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def _refused(status: int, message: str) -> Exception:
    """Make the error that the Hub shows to the person."""
    from tornado.web import HTTPError

    error = HTTPError(status, "%s", message, reason="The pool refused this")
    error.jupyterhub_message = message  # type: ignore[attr-defined]
    return error
