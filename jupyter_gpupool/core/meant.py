"""The devices that a request means, one by one: for refusals and reasons, which people read.

Rule of this module: it looks at every device, so nothing that decides uses it.
"""

from __future__ import annotations

from collections.abc import Set

from jupyter_gpupool.core.accounts import Account
from jupyter_gpupool.core.asks import ask_of, is_model, is_named
from jupyter_gpupool.core.devices import Device, DeviceKind
from jupyter_gpupool.core.fields import Fields
from jupyter_gpupool.core.fitting import Obstacle, large_enough, obstacle
from jupyter_gpupool.core.leases import Want
from jupyter_gpupool.core.ledger import Ledger
from jupyter_gpupool.core.wording import describe_host

#: How many different combinations of kind and name are remembered with the devices they mean.
_REMEMBERED = 256


class Meant:
    """Looks devices up by what requests say."""

    def __init__(self, ledger: Ledger, fields: Fields) -> None:
        self._ledger = ledger
        self._fields = fields
        #: Kind and name of a request -> the devices it means, as long as no device is described anew.
        self._matching: dict[tuple[DeviceKind | None, str, str], list[tuple[Account, Device]]] = {}
        self._topology = -1

    def matching(self, want: Want) -> list[tuple[Account, Device]]:
        """Return the devices that a request means, offered or not, large enough or not.

        Where real devices match, emulated ones do not, unless one is meant by name or id alone. The name or
        id of a GPU that is split means its instances.
        """
        if self._topology != self._ledger.topology or len(self._matching) > _REMEMBERED:
            self._topology = self._ledger.topology
            self._matching.clear()
        key = (want.kind, want.device, want.model)
        found = self._matching.get(key)
        if found is None:
            found = self._matching[key] = self._match(want)
        return found

    def _match(self, want: Want) -> list[tuple[Account, Device]]:
        kind = want.kind or (None if want.device else self._fields.default_kind())
        found = [
            (account, device)
            for account in self._ledger.accounts.values()
            if (device := account.device) is not None
            and (kind is None or device.kind is kind)
            and (not want.device or is_named(device, want.device))
            and (not want.model or is_model(device.model, want.model))
        ]
        real = [it for it in found if not it[1].emulated]
        return real or found

    def offered(self) -> set[str]:
        """Return the ids of the devices that are offered now."""
        withheld = self._ledger.withheld
        return {key for key, account in self._ledger.accounts.items() if withheld(account) is None}

    def usable(self, want: Want, offered: Set[str]) -> list[tuple[Account, Device]]:
        """Return those of the ``offered`` devices that a request could use, whether or not there is room."""
        return [
            (account, device)
            for account, device in self.matching(want)
            if device.id in offered and large_enough(want, device)
        ]

    def short_host(self, want: Want, owner: str, usable: list[tuple[Account, Device]]) -> str:
        """Say what is left of a node beside its devices where only that keeps a request; else nothing."""
        if not want.asks_host:
            return ""
        ask = ask_of(want, devices=1 if want.spread else None)
        nodes: dict[str, int] = {}
        for account, device in usable:
            if obstacle(account, device, want, owner) is None:
                nodes[device.node_id] = nodes.get(device.node_id, 0) + 1
        hosts = {it: self._ledger.host_of(it) for it, count in nodes.items() if count >= ask.devices}
        known = [(it, account) for it, account in hosts.items() if account is not None]
        if not known or any(
            ask.cpu_milli <= it.free_cpu_milli and ask.memory_bytes <= it.free_memory_bytes for _, it in known
        ):
            return ""
        node_id, host = max(known, key=lambda it: (it[1].free_cpu_milli, it[1].free_memory_bytes))
        return describe_host(self._ledger, node_id, host)

    def nearest(
        self, want: Want, owner: str, usable: list[tuple[Account, Device]]
    ) -> tuple[Account, Device, Obstacle | None]:
        """Choose the ``usable`` device that comes nearest to having room; with what is in the way."""
        found = [(account, device, obstacle(account, device, want, owner)) for account, device in usable]
        return max(
            found,
            key=lambda it: (
                it[2] in (None, Obstacle.OWNER, Obstacle.LEASES),
                it[0].free_compute_milli,
                it[0].free_memory_bytes,
            ),
        )
