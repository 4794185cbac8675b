"""What the journal keeps beside leases: standings, demand, drained nodes, and whose snapshots there are.

Rule of this module: rows to values and back; nothing here opens or commits anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.effects import WriteDown
from jupyter_gpupool.core.leases import HOLDING, LeaseEvent, LeaseState
from jupyter_gpupool.core.placement.demand import Shape
from jupyter_gpupool.core.quotas.usage import OwnerUsage

#: {} stands for the rows.
STANDINGS = (
    "INSERT OR REPLACE INTO standings (owner, kind, at_ms, used_milli_ms, attained_milli_ms, "
    "week_start_ms, week_milli_ms) VALUES {}"
)
READ_STANDINGS = (
    "SELECT owner, kind, at_ms, used_milli_ms, attained_milli_ms, week_start_ms, week_milli_ms "
    "FROM standings ORDER BY owner, kind"
)
DEMAND = "INSERT OR REPLACE INTO demand (cpu_milli, milli, devices, models, times) VALUES {}"
READ_DEMAND = "SELECT cpu_milli, milli, devices, models, times FROM demand"
JUDGED = "INSERT OR REPLACE INTO estimates (one, judged) VALUES (1, ?)"
READ_JUDGED = "SELECT judged FROM estimates"
#: The first key of an owner stays: what was signed with it is to be trusted for ever.
SNAPSHOT_KEY = "INSERT OR IGNORE INTO snapshot_keys (owner, key) VALUES (?, ?)"
READ_SNAPSHOT_KEY = "SELECT key FROM snapshot_keys WHERE owner = ?"
SNAPSHOTS = "INSERT OR REPLACE INTO snapshots (owner, store, docs, wall_ms) VALUES (?, ?, ?, ?)"
READ_SNAPSHOTS = "SELECT docs FROM snapshots WHERE owner = ? ORDER BY wall_ms DESC, store"
FORGET_SNAPSHOTS = (
    "DELETE FROM snapshots WHERE owner = ? AND store NOT IN "
    "(SELECT store FROM snapshots WHERE owner = ? ORDER BY wall_ms DESC, store LIMIT ?)"
)
DRAIN = "INSERT OR REPLACE INTO drains (node_id, hostname, message, until_ms) VALUES (?, ?, ?, ?)"
FORGET_DRAIN = "DELETE FROM drains WHERE node_id = ?"
READ_DRAINS = "SELECT node_id, hostname, message, until_ms FROM drains ORDER BY node_id"

#: Separates models: no name of one has it.
_SEPARATOR = "\x1f"
#: What can change what an owner holds, beside the end of a lease.
_CHANGES = frozenset(
    {
        *(LeaseEvent.GRANTED, LeaseEvent.RESTARTING),
        *(LeaseEvent.RESIZE_ASKED, LeaseEvent.LIMITS_APPLIED, LeaseEvent.LIMITS_REFUSED),
    }
)

#: Most rows in one statement. Their numbers are powers of two, so that few statements are ever prepared.
_ROWS = 64


def owners_changed(writes: Iterable[WriteDown]) -> set[str]:
    """Return the owners who hold something else after these transitions."""
    return {
        write.lease.owner
        for write in writes
        if write.event in _CHANGES or (write.lease.state is LeaseState.ENDED and write.before in HOLDING)
    }


def standing_row(row: OwnerUsage) -> tuple[object, ...]:
    """Return the values of one row of `STANDINGS`."""
    return (
        *(row.owner, row.kind.value, row.at_ms, row.used_milli_ms, row.attained_milli_ms),
        *(row.week_start_ms, row.week_milli_ms),
    )


def standing_of(row: tuple[object, ...]) -> OwnerUsage:
    """Return what a row of `READ_STANDINGS` says."""
    owner, kind, *numbers = row
    at_ms, used, attained, week_start_ms, week = (int(str(number)) for number in numbers)
    return OwnerUsage(
        owner=str(owner),
        kind=DeviceKind(kind),
        at_ms=at_ms,
        used_milli_ms=used,
        attained_milli_ms=attained,
        week_start_ms=week_start_ms,
        week_milli_ms=week,
    )


def demand_row(shape: Shape, times: int) -> tuple[object, ...]:
    """Return the values of one row of `DEMAND`."""
    return (shape.cpu_milli, shape.milli, shape.devices, _SEPARATOR.join(shape.models), times)


def demand_of(row: tuple[object, ...]) -> tuple[Shape, int]:
    """Return what a row of `READ_DEMAND` says."""
    models = tuple(str(row[3]).split(_SEPARATOR)) if row[3] else ()
    cpu_milli, milli, devices, times = (int(str(row[place])) for place in (0, 1, 2, 4))
    return Shape(cpu_milli, milli, devices, models), times


def inserts(statement: str, rows: Sequence[tuple[object, ...]]) -> Iterator[tuple[str, list[object]]]:
    """Split rows into statements of 64, 32, 16 … rows."""
    at, size = 0, _ROWS
    while at < len(rows):
        while size > len(rows) - at:
            size //= 2
        chunk = rows[at : at + size]
        row = f"({','.join('?' * len(chunk[0]))})"
        yield statement.format(",".join([row] * size)), [value for values in chunk for value in values]
        at += size
