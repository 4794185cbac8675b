"""What people read about MPS.

Rule of this module: pure; every sentence names the device, its state and the next step; clauses begin small
and end without a full stop, because they are put into sentences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jupyter_gpupool.backends.nvidia.gpu import GPU
from jupyter_gpupool.backends.nvidia.mps.answers import MIB
from jupyter_gpupool.backends.nvidia.mps.ledger import Numbers
from jupyter_gpupool.backends.nvidia.mps.survey import ServerView
from jupyter_gpupool.core.shares import format_memory

#: What helps when CUDA has to read its environment again.
RESTART = "Restart the kernel."


# --- clauses: why MPS is refused ----------------------------------------------------------------------


def one_user(gpu: GPU, others: Mapping[str, int], uid: int) -> str:
    """Say that leases of another user are on the device."""
    lease_id, other = next(iter(others.items()))
    return (
        f"MPS serves one user at a time on {gpu.name}, and {lease_id} of uid {other} is on it: uid {uid}"
        " would wait until that lease ends (an administrator can set mps_multiuser)"
    )


def unreachable(uid: int) -> str:
    """Say that a holder cannot get to our daemon."""
    return (
        f"the agent is not root, so uid {uid} cannot reach its MPS daemon (run the agent as root, or let an"
        " administrator run one)"
    )


def behind(gpu: GPU, server: ServerView) -> str:
    """Say that a server of another user has clients."""
    return (
        f"MPS serves uid {server.uid} on {gpu.name} now ({_processes(server.clients)}), and CUDA of another"
        " user would hang until they end"
    )


def failed_clause(gpu: GPU, server: ServerView) -> str:
    """Say that the server waits for its clients to end after a fault."""
    return (
        f"the MPS server of {gpu.name} had a fatal fault and takes nobody until {_processes(server.clients)}"
        f" {'has' if len(server.clients) == 1 else 'have'} ended"
    )


def full(gpu: GPU, most: int) -> str:
    """Say that the server takes no more clients."""
    return f"the MPS server of {gpu.name} has its most clients, {most}: CUDA would fail to start"


# --- sentences ----------------------------------------------------------------------------------------


def waiting(gpu: GPU, server: ServerView) -> str:
    """Say what a holder waits for whose CUDA starts now."""
    return (
        f"MPS serves uid {server.uid} on {gpu.name} now: the first CUDA call of this process hangs until"
        f" {_processes(server.clients)} {'has' if len(server.clients) == 1 else 'have'} ended. Wait for"
        " that, or release this lease and ask for another device."
    )


def failed_sentence(gpu: GPU, server: ServerView) -> str:
    """Say that CUDA cannot start yet."""
    clause = failed_clause(gpu, server)
    return f"{clause[0].upper()}{clause[1:]}; CUDA works again after that."


def fault(gpu: GPU, whose: str, clients: int) -> str:
    """Say that the server failed and took all work on the device along."""
    by = f" ({whose} caused it)" if whose else ""
    return (
        f"A fatal fault ended the work of everybody on {gpu.name} that goes through MPS{by}. Restart the"
        f" kernel: CUDA works again on {gpu.name} when all {clients} processes that were on it have ended."
    )


def without_mps(gpu: GPU, pids: Sequence[int]) -> str:
    """Say that CUDA passed MPS by."""
    return (
        f"CUDA ran without MPS in {_processes(tuple(pids))} on {gpu.name}, so no limit of MPS holds there (it"
        " started before the lease, or its CUDA_MPS_PIPE_DIRECTORY was changed). Restart the kernel, and"
        " request the lease before CUDA starts."
    )


def no_daemon(gpu: GPU, problem: str) -> str:
    """Say that the daemon is gone, or talks nonsense."""
    return (
        f"The MPS daemon of {gpu.name} cannot be asked, so no limit of MPS is known to hold. {problem}"
        " Save your work and restart the kernel."
    )


def only_environment(reason: str) -> str:
    """Say that the server itself has not the limits."""
    return f"The limits are only in the environment of the process, not in the MPS server. {reason}"


def resized(running: Numbers, wanted: Numbers) -> str:
    """Say what a resize changes now, and what only after a restart."""
    return (
        f"CUDA reads its limits when it starts: this process keeps {running.percentage} % of the"
        f" multiprocessors and {format_memory(running.memory_mib * MIB)}. Processes that start now, and the"
        f" kernel after a restart, get {wanted.percentage} % and {format_memory(wanted.memory_mib * MIB)}."
    )


def _processes(pids: Sequence[int]) -> str:
    """Name processes: all of a few, else the first and how many more."""
    if len(pids) == 1:
        return f"process {pids[0]}"
    if len(pids) <= 3:
        return "processes " + ", ".join(map(str, pids[:-1])) + f" and {pids[-1]}"
    return f"process {pids[0]} and {len(pids) - 1} more"
