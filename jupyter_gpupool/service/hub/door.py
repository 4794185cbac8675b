"""The application that the Hub's proxy sees: the page for people, and for all else the API.

Rules of this module: a cookie is good for the page only, never for the API; a form counts only from our own
page (its proof, and where the browser says it comes from); the page runs no script and is shown in no frame.
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from urllib.parse import parse_qs, urlsplit

from jupyter_gpupool.core.errors import GPUPoolError, InvalidValue
from jupyter_gpupool.core.shares import parse_duration
from jupyter_gpupool.protocol.administration import DrainRequest
from jupyter_gpupool.protocol.codec import encode
from jupyter_gpupool.protocol.limits import printable
from jupyter_gpupool.service import validate
from jupyter_gpupool.service.auth import Forbidden, Principal, Scope, Unauthenticated
from jupyter_gpupool.service.errors import answer_for
from jupyter_gpupool.service.hub import page
from jupyter_gpupool.service.hub.auth import HubAuthenticator
from jupyter_gpupool.service.hub.settings import HubSettings
from jupyter_gpupool.service.hub.visits import LOGIN_COOKIE, SESSION_COOKIE, Session, Visits
from jupyter_gpupool.service.logs import REQUEST_ID
from jupyter_gpupool.service.quota_config import BadQuotas
from jupyter_gpupool.service.reservation_config import BadReservations
from jupyter_gpupool.service.rule_files import RuleKind, RulesChanged
from jupyter_gpupool.service.web import ALWAYS, App, Context, Message, Receive, Request, Send

_log = logging.getLogger(__name__)
_Headers = Sequence[tuple[bytes, bytes]]
#: Does what a form with these fields asks.
_Act = Callable[[Principal, dict[str, str]], Awaitable[object]]

#: What a browser may do with the page: show it, and send its forms back here.
_POLICY = (
    (
        b"content-security-policy",
        b"default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; "
        b"frame-ancestors 'none'; base-uri 'none'",
    ),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
)


class HubDoor:
    """The application.

    Parameters
    ----------
    hub : HubSettings
        Where we are on the Hub's proxy.
    api : App
        The API.
    context : Context
        The parts of the service.
    auth : HubAuthenticator
        Who is behind a session.
    visits : Visits
        The sessions.
    """

    def __init__(
        self, hub: HubSettings, api: App, context: Context, auth: HubAuthenticator, visits: Visits
    ) -> None:
        self._hub = hub
        self._api = api
        self._context = context
        self._auth = auth
        self._visits = visits
        acts = {"/end": self._end, "/drain": self._drain, "/undrain": self._undrain}
        self._handlers: dict[str, Callable[[Request, Send], Awaitable[None]]] = {
            "/": self._page,
            "/oauth_callback": self._callback,
            "/rules": self._rules,
            **{path: partial(self._form, act) for path, act in acts.items()},
        }

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request."""
        prefix, path = self._hub.prefix, scope["path"]
        if not path.startswith(prefix):
            await self._api(scope, receive, send)
            return
        inner = "/" + path[len(prefix) :]
        # under which name the proxy is known is its own affair, and a bearer token is sent by nobody unasked
        headers = [(name, value) for name, value in scope["headers"] if name != b"host"]
        scope = {**scope, "path": inner, "headers": [*headers, (b"host", b"localhost")]}
        handler = self._handlers.get(inner)
        if handler is None:
            await self._api(scope, receive, send)
            return
        request = Request(self._context, scope, receive)
        REQUEST_ID.set(request.id)
        try:
            await handler(request, send)
        except GPUPoolError as error:
            status, doc = answer_for(error)
            await _html(send, status, page.failure(doc.message, doc.hint))
        except Exception:
            _log.exception("%s %s failed", request.method, printable(request.path))
            hint = f"Its log says more of request {request.id}."
            await _html(send, 500, page.failure("The pool made a mistake.", hint))

    async def _page(self, request: Request, send: Send) -> None:
        _only(request, "GET")
        if (visitor := await self._visitor(request, send)) is not None:
            who, session = visitor
            who.require(Scope.READ)
            await self._show(who, session, send)

    async def _visitor(self, request: Request, send: Send) -> tuple[Principal, Session] | None:
        """Find out whose browser this is; None when it was sent to the Hub to log in."""
        session = self._visits.session(request.header(b"cookie"))
        if session is not None:
            try:
                return await self._auth.of_token(session.token, fresh=True), session
            except Unauthenticated:
                self._visits.end(session)
        where, state = self._visits.begin()
        await _redirect(send, where, _cookie(request, LOGIN_COOKIE, state, self._hub.prefix, 600))
        return None

    async def _rules(self, request: Request, send: Send) -> None:
        """Show quotas and reservations to an administrator, or change one of the files."""
        if request.method == "POST":
            who, session, fields = await self._posted(request)
            kind, text, seen = fields.get("kind", ""), fields.get("text", ""), fields.get("seen", "")
            if kind not in {it.value for it in RuleKind}:
                raise InvalidValue("Which rules?", hint="Open the page of the rules again.")
            try:
                await self._context.rules.save(who, RuleKind(kind), text, seen)
            except (BadQuotas, BadReservations, RulesChanged) as error:
                await self._show_rules(session, send, {RuleKind(kind): (text, error)})
                return
            await _redirect(send, f"{self._hub.prefix}rules")
            return
        _only(request, "GET")
        if (visitor := await self._visitor(request, send)) is not None:
            who, session = visitor
            who.require(Scope.ADMIN)
            await self._show_rules(session, send, {})

    async def _show_rules(
        self, session: Session, send: Send, refused: Mapping[RuleKind, tuple[str, GPUPoolError]]
    ) -> None:
        shown = []
        for kind in RuleKind:
            now = self._context.rules.read(kind)
            text, error = refused.get(kind, (now.text, None))
            why = str(error) if error is not None else ""
            shown.append(page.RuleShown(kind=kind, path=now.path, text=text, seen=now.seen, refused=why))
        status = max((answer_for(error)[0] for _, error in refused.values()), default=200)
        await _html(send, status, page.rules(shown, proof=session.proof, prefix=self._hub.prefix))

    async def _show(self, who: Principal, session: Session, send: Send) -> None:
        context = self._context
        await context.host.settled()
        audit = context.audit.recent() if Scope.ADMIN in who.scopes else None
        text = page.overview(context.views.pool(who), audit, proof=session.proof, prefix=self._hub.prefix)
        await _html(send, 200, text)

    async def _callback(self, request: Request, send: Send) -> None:
        _only(request, "GET")
        code, state = request.query("code") or "", request.query("state") or ""
        name = await self._visits.finish(code, state, request.header(b"cookie"))
        if name is None:
            raise Forbidden("This is not a login that began here, or it took too long.", hint="Try again.")
        cookie = _cookie(request, SESSION_COOKIE, name, self._hub.prefix, 8 * 3600)
        await _redirect(send, self._hub.prefix, cookie)

    async def _form(self, act: _Act, request: Request, send: Send) -> None:
        """Do what one of the page's forms asks, and show the page again."""
        _only(request, "POST")
        who, _, fields = await self._posted(request)
        await act(who, fields)
        await _redirect(send, self._hub.prefix)

    async def _posted(self, request: Request) -> tuple[Principal, Session, dict[str, str]]:
        """Read a form of our own page, and see who sends it."""
        session = self._visits.session(request.header(b"cookie"))
        if session is None:
            raise Unauthenticated("You are not logged in.", hint="Open the page of the pool again.")
        await request.read_body()
        # a browser writes what is not ASCII as UTF-8 in escapes
        posted = parse_qs(request.body.decode("ascii", "replace"), errors="replace")
        fields = {name: values[0] for name, values in posted.items()}
        self._check_form(request, fields.get("proof", ""), session)
        return await self._auth.of_token(session.token, fresh=True), session, fields

    async def _end(self, who: Principal, fields: dict[str, str]) -> None:
        message = validate.message(fields.get("message", ""))
        await self._context.desk.end(who, fields.get("lease", ""), message)

    async def _drain(self, who: Principal, fields: dict[str, str]) -> None:
        grace = fields.get("grace", "").strip()
        wanted = DrainRequest(
            message=fields.get("message", ""),
            grace_seconds=None if not grace else 0.0 if grace == "0" else parse_duration(grace),
        )
        await self._context.maintenance.drain(who, fields.get("node", ""), encode(wanted))

    async def _undrain(self, who: Principal, fields: dict[str, str]) -> None:
        await self._context.maintenance.undrain(who, fields.get("node", ""))

    def _check_form(self, request: Request, proof: str, session: Session) -> None:
        """Refuse forms that are not of our own page."""
        site = request.header(b"sec-fetch-site")
        referer = request.header(b"referer")
        ours = referer is None or urlsplit(referer).path.startswith(self._hub.prefix)
        good = hmac.compare_digest(proof.encode(), session.proof.encode())
        if not good or not ours or site not in (None, "same-origin"):
            raise Forbidden("This form is not of the pool's own page.", hint="Open that page, and try again.")


def _only(request: Request, method: str) -> None:
    if request.method != method:
        raise Forbidden(f"{request.method} is not possible here.", hint=f"Use {method}.")


def _cookie(request: Request, name: str, value: str, path: str, seconds: int) -> tuple[bytes, bytes]:
    """Make a cookie; where the Hub's proxy was asked by HTTPS, it is never sent otherwise."""
    asked_by = (request.header(b"x-forwarded-proto") or "").partition(",")[0].strip()
    secure = "; Secure" if asked_by == "https" else ""
    parts = f"{name}={value}; Path={path}; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}"
    return b"set-cookie", parts.encode()


async def _redirect(send: Send, where: str, *headers: tuple[bytes, bytes]) -> None:
    await _send(send, 302, b"", [(b"location", where.encode()), *headers])


async def _html(send: Send, status: int, text: str) -> None:
    await _send(send, status, text.encode(), [(b"content-type", b"text/html; charset=utf-8"), *_POLICY])


async def _send(send: Send, status: int, body: bytes, headers: _Headers) -> None:
    always = [*headers, *ALWAYS, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": always})
    await send({"type": "http.response.body", "body": body})
