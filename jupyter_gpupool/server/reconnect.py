"""A kernel that was started at another address: what in this server was connected to the old one.

A Jupyter server connects its own look at a kernel, and each browser's channel, to the address that the kernel
had, and looks again only after a restart that somebody asked for. After a start on another node both would
wait for ever for the old one.

Rule of this module: it asks the server's own parts to connect anew, and changes nothing where these have
other shapes than it knows: then a browser has to connect again by hand, as it had before.
"""

from __future__ import annotations

import logging
from typing import Any


def connect_anew(manager: Any, kernel_id: str, *, log: logging.Logger) -> None:
    """Look at a kernel at its new address, and have browsers' channels connect again.

    Parameters
    ----------
    manager : MultiKernelManager
        The server's.
    kernel_id : str
        The kernel.
    log : logging.Logger
        The server's.
    """
    if kernel_id not in manager or not hasattr(manager, "start_watching_activity"):
        return
    manager.stop_watching_activity(kernel_id)
    manager.get_kernel(kernel_id).execution_state = "starting"
    manager.start_watching_activity(kernel_id)
    closed = 0
    for channels in _channels(kernel_id):
        channels.websocket_handler.close()  # the browser opens another one, which finds the new address
        closed += 1
    log.info("Kernel %s has another address; %d channels are to connect again.", kernel_id, closed)


def _channels(kernel_id: str) -> list[Any]:
    """List the open channels of a kernel."""
    from jupyter_server.services.kernels.connection.channels import ZMQChannelsWebsocketConnection

    known = getattr(ZMQChannelsWebsocketConnection, "_open_sockets", ())
    return [it for it in list(known) if it.kernel_id == kernel_id]
