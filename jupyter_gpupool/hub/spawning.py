"""A share for a server: chosen in the spawn form, leased before the server starts, ended with it.

Rules of this module: hooks and callables that any spawner takes; what an administrator has configured before
comes first, and ours is validated last, at every spawn, wherever the options come from. What is asked of the
pool is asked as the user, with the server's own token. The lease ends with the server's process, which the
pool's agent watches: the hook after its stop only makes that quicker where it never started.
"""

from __future__ import annotations

import asyncio
import inspect
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from tornado.web import HTTPError

from jupyter_gpupool.client.aio import AsyncPoolClient
from jupyter_gpupool.client.calls import Connection, Source
from jupyter_gpupool.client.errors import PoolUnreachable
from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.core.leases import EndReason, LeaseState
from jupyter_gpupool.hub import offers as offered
from jupyter_gpupool.hub.offers import BadChoice, Choice, Offer, Standing
from jupyter_gpupool.protocol.documents import HolderRequest, LeaseDoc, LeaseRequest
from jupyter_gpupool.protocol.limits import printable

#: How long the pool may take to answer while a form is shown, seconds.
FORM_SECONDS = 5.0
#: Longest single poll while a server waits for its share, seconds.
POLL_SECONDS = 5.0
#: For how long a token lives that is made to read the pool as a user, seconds.
_TOKEN_SECONDS = 60
#: Attributes of a spawner: its wait as the page shows it, and the token and lease of its server.
_WAIT, _LEASE = "_gpupool_wait", "_gpupool_lease"


class FormMaker(str):
    """What makes a form, for spawners that take no callable but only a text, which is never shown."""

    __slots__ = ("make",)
    make: Callable[[Any], Any]

    def __call__(self, spawner: Any) -> Any:
        """Make the form of a user."""
        return self.make(spawner)


class Was(Enum):
    """What was not configured, not even as None."""

    MISSING = "missing"


#: Returns what a user is offered.
Offers = Callable[[Any], Any]


@dataclass
class Before:
    """What was configured of the spawner before us; `Was.MISSING` where nothing was."""

    auth_state_hook: Any = Was.MISSING
    options_form: Any = Was.MISSING
    options_from_form: Any = Was.MISSING
    apply_user_options: Any = Was.MISSING
    pre_spawn_hook: Any = Was.MISSING
    post_stop_hook: Any = Was.MISSING


@dataclass
class Wait:
    """One server's wait for its share, as its page shows it."""

    sentence: str = ""
    over: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def say(self, sentence: str, *, over: bool = False) -> None:
        """Show another sentence; with ``over`` the last one."""
        self.sentence, self.over = sentence, over
        self.changed.set()

    async def sentences(self) -> AsyncGenerator[str, None]:
        """Follow what is said, until it is over."""
        while True:
            self.changed.clear()
            if self.sentence:
                yield self.sentence
            if self.over:
                return
            await self.changed.wait()


class Spawning:
    """The hooks.

    Parameters
    ----------
    offers : sequence or callable
        What is offered; a callable is given the spawner, may be asynchronous, and says it for each user.
    url : str
        Where the Hub reaches the pool.
    service : str
        Name of the pool in the Hub.
    most_minutes : int
        How long a server may wait for its share at most.
    host : str
        Name of the machine where servers run.
    before : Before
        What was configured before.
    """

    def __init__(
        self,
        offers: Sequence[str | Mapping[str, Any]] | Offers,
        *,
        url: str,
        service: str,
        most_minutes: int,
        host: str,
        before: Before,
    ) -> None:
        self._offers = offers if callable(offers) else offered.read_offers(offers)
        self._url = url
        self._service = service
        self._most_minutes = most_minutes
        self._host = host
        self._before = before
        #: Leases of servers that start or run, by the token of the server: some spawners wrap another one.
        self._leases: dict[str, str] = {}

    def __deepcopy__(self, memo: Any) -> Spawning:
        """Stay the same: a configuration copies what it holds, and all hooks know the same leases."""
        return self

    # --- the form -------------------------------------------------------------------------------

    async def auth_state_hook(self, spawner: Any, auth_state: Any) -> None:
        """Run theirs; where no configuration replaces a spawner's form, replace it before it is shown."""
        if callable(self._before.auth_state_hook):
            await _settled(self._before.auth_state_hook(spawner, auth_state))
        if spawner.trait_metadata("options_form", "config"):
            return
        spawner.options_form = form = FormMaker()
        form.make = self.options_form
        spawner.__dict__["options_from_form"] = lambda data: self.options_from_form(data, spawner)

    async def options_form(self, spawner: Any) -> str:
        """Show theirs, and ours below it."""
        theirs = self._before.options_form
        if theirs is Was.MISSING:
            theirs = _default(spawner, "options_form")
        if callable(theirs):
            theirs = await _settled(_call(theirs, spawner))
        found = await self._offered(spawner)
        return f"{theirs or ''}{offered.form(found, self._most_minutes, await self._standing(spawner))}"

    def options_from_form(self, form_data: dict[str, list[str]], spawner: Any = None) -> dict[str, Any]:
        """Read theirs, then ours."""
        ours = offered.from_form(form_data)
        fields = (offered.SHARE_FIELD, offered.WAIT_FIELD)
        rest = {key: value for key, value in form_data.items() if key not in fields}
        theirs = self._before.options_from_form
        if theirs is Was.MISSING or isinstance(theirs, str):
            simple = theirs == "simple"
            theirs = _simple if simple else _default(spawner, "options_from_form")
        result: dict[str, Any] = rest
        if callable(theirs):
            takes = "spawner" in inspect.signature(theirs).parameters
            result = theirs(rest, spawner=spawner) if takes else theirs(rest)
        return {**(result or {}), **({offered.KEY: ours} if ours else {})}

    async def apply_user_options(self, spawner: Any, user_options: dict[str, Any]) -> None:
        """Apply theirs, then see that what was chosen is on offer."""
        theirs = self._before.apply_user_options
        if isinstance(theirs, Mapping):
            for key, attribute in theirs.items():
                if key in user_options:
                    _set(spawner, attribute, user_options[key])
        elif callable(theirs):
            await _settled(theirs(spawner, user_options))
        if not hasattr(spawner, "construct_child"):
            self._follow(spawner)
        await self._choice(spawner)

    # --- start and stop -------------------------------------------------------------------------

    async def pre_spawn_hook(self, spawner: Any) -> None:
        """Run theirs, then get the lease; the server starts when it is granted."""
        if callable(self._before.pre_spawn_hook):
            await _settled(self._before.pre_spawn_hook(spawner))
        choice = await self._choice(spawner)
        wait = self._follow(_innermost(spawner))
        if choice.offer is None:
            wait.say("", over=True)
            return
        try:
            lease_id = await self._lease(spawner, choice.offer, choice.wait_minutes, wait)
            self._leases[spawner.api_token] = lease_id
            spawner.__dict__[_LEASE] = (spawner.api_token, lease_id)
        except PoolUnreachable as error:
            raise _refusal(503, error) from error
        except GPUPoolError as error:
            raise _refusal(409, error) from error
        finally:
            wait.say(wait.sentence, over=True)

    async def post_stop_hook(self, spawner: Any) -> None:
        """End what is left of the lease, then run theirs."""
        try:
            for each in (spawner, getattr(spawner, "child_spawner", None) or spawner):
                each.__dict__.pop(_WAIT, None)
                each.__dict__.pop("progress", None)
            token, lease_id = spawner.__dict__.pop(_LEASE, ("", ""))
            if lease_id:
                self._leases.pop(token, None)
                await self._end(spawner, lease_id)
        finally:
            if callable(self._before.post_stop_hook):
                await _settled(self._before.post_stop_hook(spawner))

    def lease_of(self, spawner: Any) -> str:
        """Return the id of the lease that a server starts with; empty where it has none."""
        return self._leases.get(spawner.api_token, "")

    def _follow(self, spawner: Any) -> Wait:
        """Have the page of a starting server show our wait before the rest; anew for each start."""
        known = spawner.__dict__.get(_WAIT)
        if known is not None and not known.over:
            return known  # type: ignore[no-any-return]
        wait = spawner.__dict__[_WAIT] = Wait()
        spawner.__dict__.pop("progress", None)
        theirs = spawner.progress

        async def progress() -> AsyncGenerator[dict[str, Any], None]:
            async with aclosing(wait.sentences()) as sentences:
                async for sentence in sentences:
                    yield {"progress": 10, "message": sentence}
            async with aclosing(theirs()) as events:
                async for event in events:
                    yield event

        spawner.__dict__["progress"] = progress
        return wait

    async def _lease(self, spawner: Any, offer: Offer, minutes: int, wait: Wait) -> str:
        """Get the lease of a server, and return its id."""
        client = AsyncPoolClient(self._connection(spawner.api_token))
        wait.say(f"Asking the pool for {offer.title}.")
        body = LeaseRequest(
            compute_milli=offer.compute_milli,
            count=offer.count,
            memory_bytes=offer.memory_bytes,
            kind=offer.kind,
            wait_seconds=minutes * 60.0,
            holder=HolderRequest(
                server=True,
                label=printable(f"server {spawner.name}".strip()),
                hostname=printable(self._host),
            ),
        )
        lease_id = ""
        try:
            doc = await client.request(body, key=uuid.uuid4().hex)
            lease_id = doc.id
            while doc.state is LeaseState.QUEUED:
                wait.say(_waiting(doc))
                doc = await client.lease(doc.id, since=doc.tag, wait_seconds=POLL_SECONDS)
            if doc.state is not LeaseState.ATTACHING:
                raise BadChoice(
                    f"{offer.title} was not granted: {doc.end_detail or doc.reason}",
                    hint="Choose less, wait longer, or start without a share.",
                )
            if doc.attach is not None and doc.attach.hostname != self._host:
                raise BadChoice(
                    f"{offer.title} is only on node {doc.attach.hostname}, and servers run on {self._host}.",
                    hint="Start without a share, and let kernels ask: those run on any node.",
                )
            wait.say(f"Granted: {offer.title} on {doc.device}.")
            return doc.id
        except BaseException:
            if lease_id:
                with suppress(GPUPoolError):
                    await asyncio.shield(client.release(lease_id, reason=EndReason.CANCELLED.value))
            raise
        finally:
            client.close()

    async def _end(self, spawner: Any, lease_id: str) -> None:
        client = AsyncPoolClient(self._connection(self._token(spawner, "lease")), answer_seconds=FORM_SECONDS)
        try:
            await client.release(lease_id)
        except GPUPoolError as error:
            spawner.log.info("gpupool: lease %s ends by itself (%s)", lease_id, error)
        finally:
            client.close()

    # --- what is offered ------------------------------------------------------------------------

    async def _choice(self, spawner: Any) -> Choice:
        try:
            return offered.choose(
                spawner.user_options or {}, await self._offered(spawner), self._most_minutes
            )
        except BadChoice as error:
            raise _refusal(400, error) from error

    async def _offered(self, spawner: Any) -> tuple[Offer, ...]:
        if callable(self._offers):
            return offered.read_offers(await _settled(self._offers(spawner)) or ())
        return self._offers

    async def _standing(self, spawner: Any) -> Standing | None:
        """Ask the pool, as this user; None when it does not answer."""
        client = AsyncPoolClient(self._connection(self._token(spawner, "read")), answer_seconds=FORM_SECONDS)
        try:
            usage, pool = await asyncio.gather(client.usage(), client.pool())
        except GPUPoolError as error:
            spawner.log.warning("gpupool: the spawn form cannot say what is free: %s", error)
            return None
        finally:
            client.close()
        quotas = [quota for doc in usage if doc.mine for quota in doc.quotas]
        return Standing(quotas=quotas, devices=pool.devices, queue=pool.queue, leases=pool.leases)

    def _token(self, spawner: Any, what: str) -> str:
        """Make a short-lived token of the user's, good for the pool alone."""
        scopes = [f"access:services!service={self._service}", f"custom:gpupool:{what}"]
        note = "spawn form of the GPU pool"
        return str(spawner.user.new_api_token(note=note, expires_in=_TOKEN_SECONDS, scopes=scopes))

    def _connection(self, token: str) -> Connection:
        return Connection(url=self._url, token=token, source=Source.HUB)


def _waiting(doc: LeaseDoc) -> str:
    place = f" (place {doc.position} in the queue)" if doc.position else ""
    return f"{doc.reason}{place}"


def _refusal(status: int, error: GPUPoolError) -> HTTPError:
    """Make a refusal that the Hub shows to whoever starts the server."""
    refused = HTTPError(status, "%s", str(error))
    refused.jupyterhub_message = str(error)  # type: ignore[attr-defined]
    return refused


def _default(spawner: Any, name: str) -> Any:
    """Return what a spawner's class has where nothing is configured."""
    if spawner is None:
        return None
    if name in spawner.traits():
        return spawner.trait_defaults(name)
    method = getattr(type(spawner), name, None)
    return method.__get__(spawner) if method is not None else None


def _innermost(spawner: Any) -> Any:
    """Return the spawner that really starts the server, and whose progress is shown."""
    construct = getattr(spawner, "construct_child", None)
    if construct is None:
        return spawner
    construct()
    return spawner.child_spawner


def _call(theirs: Callable[..., Any], spawner: Any) -> Any:
    return theirs(spawner)


def _simple(data: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Read a form as JupyterHub's “simple” does."""
    single = {key: values[0] if len(values) == 1 else list(values) for key, values in data.items()}
    return {key: True if value == "on" else value for key, value in single.items()}


def _set(spawner: Any, attribute: str, value: Any) -> None:
    """Set an attribute from an option, as JupyterHub does it for a mapping."""
    try:
        setattr(spawner, attribute, value)
    except Exception:
        trait = spawner.traits().get(attribute)
        if trait is None or not isinstance(value, str):
            raise
        setattr(spawner, attribute, trait.from_string(value))


async def _settled(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value
