"""A pool service in name only, in a thread, for the synchronous client: it answers what a test scripts."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from jupyter_gpupool.client.calls import Connection
from jupyter_gpupool.protocol.codec import encode
from jupyter_gpupool.protocol.documents import ErrorDoc, HealthDoc
from jupyter_gpupool.protocol.names import API_MAJOR

#: (method, path with query, body) -> (status, struct to encode)
Script = Callable[[str, str, dict[str, Any] | None], tuple[int, object]]

TOKEN = "the-owners-token"


class ScriptedPool:
    """One such service; a context manager.

    Attributes
    ----------
    asked : list of tuple
        Every call: method, path with query, headers.
    """

    def __init__(self, script: Script | None = None, *, port: int = 0, api: int = API_MAJOR) -> None:
        self.script = script
        self.api = api
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", port), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def connection(self) -> Connection:
        return Connection(url=self.url, token=TOKEN)

    def paths(self, method: str) -> list[str]:
        return [path for asked, path, _ in self.asked if asked == method]

    def __enter__(self) -> ScriptedPool:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, method: str, path: str, body: dict[str, Any] | None) -> tuple[int, object]:
        if path == "/health":
            return 200, HealthDoc(status="ok", version="9", api=self.api)
        if self.script is None:
            return 404, ErrorDoc(code="not_found", message="There is nothing here.")
        return self.script(method, path, body)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        pool = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _serve(self) -> None:
                size = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(size)) if size else None
                pool.asked.append((self.command, self.path, dict(self.headers)))
                status, answer = pool.answer(self.command, self.path, body)
                data = answer if isinstance(answer, bytes) else encode(answer)
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PATCH = do_DELETE = _serve  # noqa: N815 - http.server's names

            def log_message(self, *_: object) -> None:
                pass

        return Handler
