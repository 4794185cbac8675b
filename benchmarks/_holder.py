"""A holder of a lease: it shows a ticket, tells what it was answered, and waits for its end.

One JSON object on standard input (socket, ticket), the agent's answer on standard output. It imports nothing
of ours, so that hundreds of it are small.
"""

from __future__ import annotations

import json
import signal
import socket
import sys


def main() -> None:
    """Attach, and hold."""
    order = json.loads(sys.stdin.readline())
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
        stream.settimeout(30)
        stream.connect(order["socket"])
        stream.sendall(json.dumps({"ticket": order["ticket"], "format": 1}).encode() + b"\n")
        with stream.makefile("r") as lines:
            print(lines.readline().strip(), flush=True)
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
