"""The HTTP API, put together.

Rule of this module: it says which handler serves which path, and nothing else. The contract is openapi.yaml.
"""

from __future__ import annotations

from tornado import web
from tornado.httpserver import HTTPServer

from jupyter_gpupool.protocol.names import API_PREFIX
from jupyter_gpupool.service import handlers_leases as leases
from jupyter_gpupool.service import handlers_pool as pool
from jupyter_gpupool.service.handlers import BODY_BYTES, Context, Handler, NotFoundHandler

#: Handlers by path.
ROUTES: tuple[tuple[str, type[Handler]], ...] = (
    (f"{API_PREFIX}/leases", leases.LeasesHandler),
    (f"{API_PREFIX}/leases/([^/]{{1,200}})", leases.LeaseHandler),
    (f"{API_PREFIX}/events", pool.EventsHandler),
    (f"{API_PREFIX}/pool", pool.PoolHandler),
    (f"{API_PREFIX}/devices", pool.DevicesHandler),
    (f"{API_PREFIX}/nodes", pool.NodesHandler),
    (f"{API_PREFIX}/queue", pool.QueueHandler),
    (f"{API_PREFIX}/usage", pool.UsageHandler),
    (f"{API_PREFIX}/openapi.yaml", pool.ContractHandler),
    ("/health", pool.HealthHandler),
    ("/metrics", pool.MetricsHandler),
)


def make_server(context: Context) -> HTTPServer:
    """Make the HTTP server; it listens when sockets are added to it."""
    arguments = {"context": context}
    application = web.Application(
        [web.url(path, handler, arguments) for path, handler in ROUTES],
        default_handler_class=NotFoundHandler,
        default_handler_args=arguments,
        log_function=lambda handler: _count(context, handler),
    )
    # a body a little over the limit is answered with 413; one far over it is not even read
    return HTTPServer(application, max_body_size=4 * BODY_BYTES, idle_connection_timeout=300)


def _count(context: Context, handler: web.RequestHandler) -> None:
    context.metrics.answered(handler.request.method or "", handler.get_status())
