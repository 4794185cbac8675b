"""What no one can save: each kind with its reason, and what its user can do instead.

Rule of this module: types and sentences only; nothing here is ever made again.
"""

from __future__ import annotations

from typing import Any

from jupyter_gpupool.state.graph.capturing import Capturing
from jupyter_gpupool.state.recipes.registry import Recipe, Reduced, Reducer

_AGAIN = "Run the cell that makes it again after a restore."
_LIST = "Keep a list of what it yields, or an object with its position, where it has to survive."
_THREAD = "Start it again after a restore."
_POOL = "Make it again after a restore; results that you need belong into variables of their own."
_CONNECT = "Connect again after a restore."

#: Types (module, name) with the reason, and what to do.
HOPELESS: tuple[tuple[str, str, str, str], ...] = (
    ("types", "GeneratorType", "a generator cannot be saved: its place in its code is inside Python", _LIST),
    ("types", "CoroutineType", "a coroutine cannot be saved: its place in its code is inside Python", _AGAIN),
    ("types", "AsyncGeneratorType", "an asynchronous generator cannot be saved", _LIST),
    ("types", "FrameType", "a frame of a running function cannot be saved", ""),
    ("types", "TracebackType", "a traceback refers to frames that are gone after a restore", ""),
    ("_thread", "_ThreadHandle", "a thread runs in its process only", _THREAD),
    (
        "multiprocessing.process",
        "BaseProcess",
        "a process is not saved with the one that started it",
        _THREAD,
    ),
    ("multiprocessing.pool", "Pool", "a pool of processes or threads is not saved", _POOL),
    ("multiprocessing.pool", "ApplyResult", "the work of a pool is not saved", _POOL),
    ("multiprocessing.managers", "BaseManager", "a manager is another process", _POOL),
    ("multiprocessing.managers", "BaseProxy", "what it stands for is in another process", _POOL),
    ("multiprocessing.queues", "Queue", "a queue between processes is not saved", _POOL),
    ("multiprocessing.queues", "SimpleQueue", "a queue between processes is not saved", _POOL),
    ("multiprocessing.synchronize", "SemLock", "a lock between processes is not saved", _AGAIN),
    (
        "multiprocessing.connection",
        "_ConnectionBase",
        "a connection to another process is not saved",
        _CONNECT,
    ),
    ("multiprocessing.connection", "SocketListener", "a listening socket is not saved", _CONNECT),
    ("multiprocessing.connection", "Listener", "a listening socket is not saved", _CONNECT),
    ("multiprocessing.shared_memory", "SharedMemory", "memory shared between processes is not saved", _AGAIN),
    (
        "multiprocessing.sharedctypes",
        "SynchronizedBase",
        "memory shared between processes is not saved",
        _AGAIN,
    ),
    ("concurrent.futures._base", "Executor", "a pool of processes or threads is not saved", _POOL),
    ("socket", "socket", "a socket cannot be saved: the other end would not know", _CONNECT),
    ("_socket", "socket", "a socket cannot be saved: the other end would not know", _CONNECT),
    ("ssl", "SSLContext", "a TLS context cannot be read back from OpenSSL", _AGAIN),
    ("_ssl", "_SSLSocket", "a socket cannot be saved: the other end would not know", _CONNECT),
    ("ssl", "SSLObject", "a TLS session cannot be saved", _CONNECT),
    ("http.client", "HTTPConnection", "a connection cannot be saved: the other end would not know", _CONNECT),
    (
        "http.client",
        "HTTPResponse",
        "a response that is still being read cannot be saved",
        "Keep what it read.",
    ),
    ("select", "epoll", "it watches open files of its process", _AGAIN),
    ("selectors", "BaseSelector", "it watches open files of its process", _AGAIN),
    ("socketserver", "BaseServer", "a server listens on a socket, which cannot be saved", _THREAD),
    (
        "_hashlib",
        "HASH",
        "a hash in the middle of its data cannot be read back",
        "Keep the data, or its digest.",
    ),
    (
        "_hashlib",
        "HASHXOF",
        "a hash in the middle of its data cannot be read back",
        "Keep the data, or its digest.",
    ),
    (
        "_hashlib",
        "HMAC",
        "a hash in the middle of its data cannot be read back",
        "Keep the data, or its digest.",
    ),
    (
        "_blake2",
        "blake2b",
        "a hash in the middle of its data cannot be read back",
        "Keep the data, or its digest.",
    ),
    (
        "_blake2",
        "blake2s",
        "a hash in the middle of its data cannot be read back",
        "Keep the data, or its digest.",
    ),
    ("_bz2", "BZ2Compressor", "a compressor in the middle of its data cannot be read back", _AGAIN),
    ("_bz2", "BZ2Decompressor", "a decompressor in the middle of its data cannot be read back", _AGAIN),
    ("_lzma", "LZMACompressor", "a compressor in the middle of its data cannot be read back", _AGAIN),
    ("_lzma", "LZMADecompressor", "a decompressor in the middle of its data cannot be read back", _AGAIN),
    (
        "asyncio.tasks",
        "Task",
        "a task runs in its event loop only",
        "Keep its result in a variable of its own.",
    ),
    ("_asyncio", "Task", "a task runs in its event loop only", "Keep its result in a variable of its own."),
    ("_asyncio", "Future", "a future belongs to its event loop", "Keep its result in a variable of its own."),
    (
        "asyncio.futures",
        "Future",
        "a future belongs to its event loop",
        "Keep its result in a variable of its own.",
    ),
    ("asyncio.events", "Handle", "it waits in its event loop", _AGAIN),
    ("asyncio.transports", "BaseTransport", "a connection cannot be saved", _CONNECT),
    ("asyncio.streams", "StreamReader", "a connection cannot be saved", _CONNECT),
    ("asyncio.streams", "StreamWriter", "a connection cannot be saved", _CONNECT),
    ("ipywidgets.widgets.widget", "Widget", "a widget lives in the page of its kernel", _AGAIN),
    ("comm.base_comm", "BaseComm", "it is a line to the page of its kernel", _AGAIN),
    ("posix", "DirEntry", "it holds what a directory looked like", "Keep its path."),
    ("contextvars", "Token", "it undoes a change of a context that is gone after a restore", ""),
    ("sqlite3", "Blob", "an open blob cannot be saved", _AGAIN),
    ("zmq.sugar.socket", "Socket", "a socket cannot be saved: the other end would not know", _CONNECT),
    ("zmq.sugar.context", "Context", "a context of ZeroMQ belongs to its process", _CONNECT),
    (
        "torch.utils.data.dataloader",
        "_BaseDataLoaderIter",
        "its place in the epoch, and its workers, are not saved",
        "Make it again with iter(), or step over the batches that were done.",
    ),
    (
        "torch.cuda.graphs",
        "CUDAGraph",
        "a CUDA graph is made of addresses in the device's memory",
        "Capture it again.",
    ),
    (
        "torch._C",
        "_CUDAGraph",
        "a CUDA graph is made of addresses in the device's memory",
        "Capture it again.",
    ),
    ("torch.cuda.streams", "Stream", "a stream belongs to its process", _AGAIN),
    ("torch.cuda.streams", "Event", "an event belongs to its process", _AGAIN),
    ("torch.distributed.distributed_c10d", "ProcessGroup", "a group of processes is not saved", _CONNECT),
    ("torch._C._distributed_c10d", "ProcessGroup", "a group of processes is not saved", _CONNECT),
    ("torch.profiler.profiler", "profile", "a profiler that measures cannot be saved", _AGAIN),
    ("distributed.client", "Client", "a client is connected to its cluster", _CONNECT),
    ("distributed.client", "Future", "its result is on a cluster", "Gather it into a variable of its own."),
    ("distributed.deploy.cluster", "Cluster", "a cluster is made of other processes", _CONNECT),
    ("psycopg2.extensions", "connection", "a connection to a database server is not saved", _CONNECT),
    ("psycopg2.extensions", "cursor", "a connection to a database server is not saved", _CONNECT),
    ("psycopg", "Connection", "a connection to a database server is not saved", _CONNECT),
    ("sqlalchemy.engine.base", "Connection", "a connection to a database is not saved", _CONNECT),
)


def loser(reason: str, hint: str) -> Reducer:
    """Return the reducer of a kind that cannot be saved."""

    def reduce(value: Any, capturing: Capturing) -> Reduced:
        return capturing.lose(value, reason, hint)

    return reduce


RECIPES = tuple(
    Recipe(module=module, qualname=name, reduce=loser(reason, hint), subclasses=True)
    for module, name, reason, hint in HOPELESS
)
