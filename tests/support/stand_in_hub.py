"""What the pool asks of a JupyterHub, answered over HTTP by a table: whom a token belongs to."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

ACCESS = "access:services!service=gpupool"
USER = (ACCESS, "custom:gpupool:read", "custom:gpupool:lease")
ADMIN = (*USER, "custom:gpupool:admin", "custom:gpupool:report")


class StandInHub:
    """A Hub with people in it; `identities` is by token, and may be changed at any time."""

    def __init__(self) -> None:
        self.identities: dict[str, dict[str, Any]] = {}
        #: How often it was asked about a token.
        self.asked: Counter[str] = Counter()
        #: True while it answers everything with 503.
        self.broken = False
        self.url = ""
        #: Tokens of people who have logged in, by the code that their browser brings back.
        self.codes: dict[str, str] = {}

    def add(self, token: str, name: str, scopes: tuple[str, ...] = USER, kind: str = "user") -> str:
        """Let a token be somebody's, and return it."""
        self.identities[token] = {"name": name, "kind": kind, "scopes": list(scopes), "groups": []}
        return token

    def answer(self, path: str, token: str) -> tuple[int, Any]:
        """Answer a question."""
        if self.broken:
            return 503, {"message": "starting"}
        if path != "/hub/api/user":
            return 404, {}
        self.asked[token] += 1
        found = self.identities.get(token)
        return (200, found) if found else (403, {"message": "Forbidden"})


@contextmanager
def stand_in_hub() -> Iterator[StandInHub]:
    """Serve one for the length of a ``with`` block."""
    hub = StandInHub()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            token = (self.headers.get("Authorization") or "").removeprefix("token ")
            status, content = hub.answer(self.path, token)
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            """Exchange a code for a token, as the Hub's OAuth does."""
            length = int(self.headers.get("Content-Length") or 0)
            posted = parse_qs(self.rfile.read(length).decode())
            token = hub.codes.pop(posted.get("code", [""])[0], "")
            good = token and self.path == "/hub/api/oauth2/token"
            body = json.dumps({"access_token": token} if good else {"error": "invalid_grant"}).encode()
            self.send_response(200 if good else 400)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    hub.url = f"http://127.0.0.1:{server.server_address[1]}/hub/api"
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()
