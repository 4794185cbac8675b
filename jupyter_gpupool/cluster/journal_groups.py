"""Which group of the quotas each owner was in, from when on: what usage by group is counted by.

Rules of this module: a line says what is so from a moment on, and is never changed; what was before the first
line of a journal counts as that line says, because nobody wrote it down.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

#: {} stands for the rows.
MEMBERSHIPS = "INSERT OR REPLACE INTO memberships (owner, since_ms, in_group) VALUES {}"
READ_MEMBERSHIPS = "SELECT owner, since_ms, in_group FROM memberships ORDER BY owner, since_ms"
#: Forgets what another line had replaced before some moment.
FORGET_MEMBERSHIPS = (
    "DELETE FROM memberships WHERE EXISTS (SELECT 1 FROM memberships AS later WHERE "
    "later.owner = memberships.owner AND later.since_ms > memberships.since_ms AND later.since_ms <= ?)"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Membership:
    """An owner is in a group from a moment on.

    Attributes
    ----------
    owner : str
        Who.
    group : str
        The group; empty for none.
    since_ms : int
        UTC, milliseconds since the epoch.
    """

    owner: str
    group: str
    since_ms: int


class Memberships:
    """All that is known of who was in which group.

    Parameters
    ----------
    known : iterable of Membership
        From the journal, by time.
    """

    def __init__(self, known: Iterable[Membership] = ()) -> None:
        self._by_owner: dict[str, list[Membership]] = {}
        for one in known:
            self._by_owner.setdefault(one.owner, []).append(one)

    def now(self, owner: str) -> str:
        """Return the group that an owner is in; empty for none."""
        known = self._by_owner.get(owner)
        return known[-1].group if known else ""

    def take(self, group_of: Mapping[str, str], wall_ms: int) -> list[Membership]:
        """Take over who is in which group now; return what is new.

        Parameters
        ----------
        group_of : mapping of str to str
            Groups by owner; who is missing is in none.
        wall_ms : int
            Since when: UTC, milliseconds.
        """
        if not group_of and not self._by_owner:
            # that nobody is in a group is known, too: who is in one later was not before
            new = [Membership(owner="", group="", since_ms=0)]
            self._by_owner[""] = list(new)
            return new
        since_ms = wall_ms if self._by_owner else 0
        owners = {*group_of, *self._by_owner}
        new = [
            Membership(owner=owner, group=group_of.get(owner, ""), since_ms=self._after(owner, since_ms))
            for owner in sorted(owners)
            if group_of.get(owner, "") != self.now(owner)
        ]
        for one in new:
            self._by_owner.setdefault(one.owner, []).append(one)
        return new

    def _after(self, owner: str, wall_ms: int) -> int:
        """Return a moment, or one just after the last that is known: a clock may have gone back."""
        known = self._by_owner.get(owner)
        return max(wall_ms, known[-1].since_ms + 1) if known else wall_ms

    def times(self, owner: str, from_ms: int, until_ms: int) -> Iterator[tuple[str, int, int]]:
        """Yield the groups that an owner was in, and from when to when, over a time without a gap."""
        group, begun_ms = "", from_ms
        for one in self._by_owner.get(owner, ()):
            if one.since_ms >= until_ms:
                break
            if one.since_ms > begun_ms:
                yield group, begun_ms, one.since_ms
                begun_ms = one.since_ms
            group = one.group
        if begun_ms < until_ms:
            yield group, begun_ms, until_ms


def membership_row(one: Membership) -> tuple[object, ...]:
    """Return a line as it is written."""
    return (one.owner, one.since_ms, one.group)


def membership_of(row: tuple[object, ...]) -> Membership:
    """Return a line as it was written."""
    return Membership(owner=str(row[0]), since_ms=int(str(row[1])), group=str(row[2]))
