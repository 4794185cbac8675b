"""Which snapshots are kept.

Rules of this module: the newest snapshot is always kept; one that was asked for by name outlives those that
were taken by themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from jupyter_gpupool.state.model import Manifest


@dataclass(frozen=True, kw_only=True, slots=True)
class Retention:
    """How long snapshots are kept; None where there is no limit.

    Attributes
    ----------
    count : int or None
        How many that were taken by themselves, of each notebook.
    age_seconds : float or None
        How old those may become.
    bytes : int or None
        How much of the store everything may take: while it is more, the oldest of those go.
    named_count : int or None
        How many that were asked for, of all notebooks together.
    named_age_seconds : float or None
        How old those may become.
    """

    count: int | None = None
    age_seconds: float | None = None
    bytes: int | None = None
    named_count: int | None = None
    named_age_seconds: float | None = None


def outlived(manifests: Iterable[Manifest], rule: Retention, now_seconds: float) -> list[Manifest]:
    """Return the snapshots that counts and ages let go, the oldest first."""
    newest_first = sorted(manifests, key=lambda manifest: manifest.id, reverse=True)
    counts: Counter[str] = Counter()
    gone = []
    for number, manifest in enumerate(newest_first):
        kind = f"automatic:{manifest.notebook}" if manifest.automatic else "named"
        counts[kind] += 1
        most = rule.count if manifest.automatic else rule.named_count
        oldest = rule.age_seconds if manifest.automatic else rule.named_age_seconds
        age = now_seconds - manifest.created_ms / 1000
        late = (most is not None and counts[kind] > most) or (oldest is not None and age > oldest)
        if late and number > 0:
            gone.append(manifest)
    return gone[::-1]


def too_large(
    manifests: Iterable[Manifest], limit: int, holds: Callable[[Manifest], Iterable[tuple[object, int]]]
) -> list[Manifest]:
    """Return the automatic snapshots to let go until what is left takes at most ``limit`` bytes.

    Parameters
    ----------
    manifests : iterable of Manifest
        All that there are.
    limit : int
        Bytes.
    holds : callable
        The chunks of a snapshot with their sizes.
    """
    oldest_first = sorted(manifests, key=lambda manifest: manifest.id)
    held = {manifest.id: dict(holds(manifest)) for manifest in oldest_first}
    users = Counter(chunk for chunks in held.values() for chunk in chunks)
    taken = sum({chunk: size for chunks in held.values() for chunk, size in chunks.items()}.values())
    gone = []
    for manifest in oldest_first[:-1]:
        if taken <= limit:
            break
        if manifest.automatic:
            gone.append(manifest)
            users.subtract(held[manifest.id].keys())
            taken -= sum(size for chunk, size in held[manifest.id].items() if users[chunk] == 0)
    return gone
