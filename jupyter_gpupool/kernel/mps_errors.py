"""Errors of CUDA MPS in one sentence each: what happened, and what to do next.

Rule of this module: it looks at the error's own words, as the driver, the runtime and frameworks write them;
it runs in a process whose CUDA may be broken, so it touches none of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_AGAIN = "restart the kernel, then request a share again"


@dataclass(frozen=True, slots=True)
class _Trouble:
    """One error: how it is recognised, and what is said, with ``{device}`` for the device's name."""

    pattern: re.Pattern[str]
    sentence: str


def _names(symbol: str, *texts: str) -> re.Pattern[str]:
    """Match an error by its names in driver and runtime ("MPS_SERVER_NOT_READY"), or by its description."""
    words = symbol.split("_")
    runtime = "cudaErrorMps" + "".join(word.capitalize() for word in words)
    return re.compile("|".join([f"CUDA_ERROR_MPS_{symbol}", runtime, *texts]), re.IGNORECASE)


_TROUBLES = (
    _Trouble(
        _names("CLIENT_TERMINATED", "MPS client has been terminated"),
        "The MPS server of {device} took this process off the GPU: its share ended, or it was asked to leave "
        f"before a signal. CUDA does not work in this process any more: {_AGAIN}.",
    ),
    _Trouble(
        _names("SERVER_NOT_READY", "MPS server is not ready"),
        "The MPS server of {device} takes no process now: it starts, serves another user, or waits for all "
        "its processes to end because one of them failed. `%gpupool devices` says how the device is; when it "
        f"is well, {_AGAIN}.",
    ),
    _Trouble(
        _names("CONNECTION_FAILED", "MPS client failed to connect"),
        "This process cannot reach the MPS control program of {device}, so CUDA did not start: "
        f"`%gpupool why` says how the lease is; {_AGAIN}.",
    ),
    _Trouble(
        _names("RPC_FAILURE", "remote procedural call between the MPS server"),
        "The MPS server of {device} does not answer this process any more, most likely because another "
        f"process on the GPU failed: {_AGAIN}.",
    ),
    _Trouble(
        _names("MAX_CLIENTS_REACHED", "resources required to create MPS client have been exhausted"),
        "The MPS server of {device} serves as many processes as it can: end child processes that use the GPU "
        "(data loaders, pools), or ask for another device with `%gpupool request … --device NAME`.",
    ),
    _Trouble(
        _names("MAX_CONNECTIONS_REACHED", "resources required to support device connections have been"),
        "The MPS server of {device} has no connection left for this process: end child processes that use "
        "the GPU (data loaders, pools), and try again.",
    ),
)
#: What every client of a server is told when another client did something fatal.
_FAULT = re.compile(
    r"CUDA_ERROR_(?:LAUNCH_FAILED|ILLEGAL_ADDRESS|ASSERT|MISALIGNED_ADDRESS|ILLEGAL_INSTRUCTION)"
    r"|cudaError(?:LaunchFailure|IllegalAddress|Assert|MisalignedAddress|IllegalInstruction)"
    r"|illegal memory access was encountered|unspecified launch failure|device-side assert",
    re.IGNORECASE,
)
_FAULT_SENTENCE = (
    "On {device} all processes share one MPS server, and a fatal error of one ends CUDA in all: it may have "
    f"been another's. To go on, {_AGAIN}."
)


def sentence_for(error: BaseException, device: str, *, under_mps: bool) -> str:
    """Say what an error of MPS means; empty for any other error.

    Parameters
    ----------
    error : BaseException
        What was raised.
    device : str
        The device's name.
    under_mps : bool
        True when the lease shares the device through MPS: then others' faults arrive here, too.
    """
    text = f"{type(error).__name__}: {error}"
    for trouble in _TROUBLES:
        if trouble.pattern.search(text):
            return trouble.sentence.format(device=device)
    return _FAULT_SENTENCE.format(device=device) if under_mps and _FAULT.search(text) else ""
