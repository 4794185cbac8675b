"""What an administrator, or the person at the terminal, decides about a pool service.

Rule of this module: traits are read once, into one frozen value.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from traitlets import Bool, Dict, Enum, Float, Int, List, Unicode
from traitlets.config import Configurable

from jupyter_gpupool.backends.emulated_models import parse_emulation
from jupyter_gpupool.backends.rules import NodeRules
from jupyter_gpupool.core.config import PoolConfig
from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.core.policies import ORDERS, PLACEMENTS
from jupyter_gpupool.core.policies.evictions import EVICTIONS
from jupyter_gpupool.core.quotas import Quotas
from jupyter_gpupool.core.reservations import Reserved
from jupyter_gpupool.protocol import paths
from jupyter_gpupool.protocol.join import API_PORT, CONTROL_PORT
from jupyter_gpupool.service.hub.settings import HubSettings, read_hub
from jupyter_gpupool.service.quota_config import read_quotas
from jupyter_gpupool.service.reservation_config import read_reservations

#: Requests in a second, and event streams at once, of one owner under a Hub.
HUB_LIMIT = 50
#: File name of the journal in the data directory.
JOURNAL_FILE = "journal.sqlite3"
#: The same of the rules that administrators write in a browser, where no other files are named.
QUOTAS_FILE, RESERVATIONS_FILE = "quotas.yaml", "reservations.yaml"


class BadSettings(GPUPoolError):
    """Raised when settings contradict each other, or cannot work. The message names the trait."""

    code = "bad_settings"


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceSettings:
    """Everything `run_service` is told. Durations are seconds; for the rest see `PoolService`."""

    runtime: Path
    data: Path
    owner: str
    config: PoolConfig = field(default_factory=PoolConfig)
    ip: str = "127.0.0.1"
    port: int = 0
    listen: str = ""
    listen_port: int = API_PORT
    control_port: int = CONTROL_PORT
    embedded: bool = False
    emulate: str = ""
    emulate_beside: bool = False
    tokens: Mapping[str, str] = field(default_factory=dict, repr=False)
    allowed_hosts: tuple[str, ...] = ()
    sweep_seconds: float = 30.0
    waiter_grace_seconds: float = 5.0
    show_owners: bool = False
    idle_exit_seconds: float = 600.0
    worker_ttl_seconds: float = 8.0
    keep_days: float = 30.0
    requests_per_second: float = 0.0
    owner_streams: int = 0
    hub: HubSettings | None = None
    quotas_path: Path | None = None
    reservations_path: Path | None = None
    usage_keep_days: float = 400.0
    prices: Mapping[str, float] = field(default_factory=dict)
    start_agent: bool = True
    rules: NodeRules = field(default_factory=NodeRules)

    @property
    def journal(self) -> Path:
        """Path of the journal; emulated devices have one of their own: they never mix with real ones."""
        return (self.data / "emulated" if self.emulate else self.data) / JOURNAL_FILE


class PoolService(Configurable):
    """The pool service: grants leases, and writes down what happens to them."""

    ip = Unicode(
        "127.0.0.1",
        help="Loopback address on which this machine's own clients are served, in plain HTTP.",
    ).tag(config=True)
    port = Int(
        0, min=0, max=65535, help="Port to listen on; 0 for the one it had last, or any that is free."
    ).tag(config=True)
    listen = Unicode(
        "",
        help="Name or address on which other machines are served, always with TLS: nodes, and clients."
        " 0.0.0.0 for all addresses; empty for none.",
    ).tag(config=True)
    listen_port = Int(
        API_PORT, min=0, max=65535, help="Port of the HTTPS API for other machines; 0 for any."
    ).tag(config=True)
    control_port = Int(
        CONTROL_PORT,
        min=0,
        max=65535,
        help="Port on which the agents of other machines are served, with mutual TLS; they remember it. 0 for"
        " the one it had last, or any.",
    ).tag(config=True)
    emulate = Unicode(
        "", help="Emulated devices instead of real ones, such as “8xA100-80GB,2xH100-80GB”; empty for none."
    ).tag(config=True)
    emulate_beside = Bool(False, help="Offer the real devices beside the emulated ones.").tag(config=True)
    tokens = Dict(
        value_trait=Unicode(),
        key_trait=Unicode(),
        help="Shared mode: owner to bearer token (at least 16 characters). Empty for a pool of one's own.",
    ).tag(config=True)
    allowed_hosts = List(
        Unicode(), help="Further names that requests may have in their Host header, beside loopback's."
    ).tag(config=True)
    order = Enum(sorted(ORDERS), "fair", help="Who in the queue is next.").tag(config=True)
    place = Enum(sorted(PLACEMENTS), "bid_price", help="Which device a request gets.").tag(config=True)
    quotas_file = Unicode(
        "",
        help="A YAML file with quotas: what owners and groups of owners may have, and deserve. Empty for"
        " quotas.yaml in the data directory; without it no limits, and the same weight for all.",
    ).tag(config=True)
    reservations_file = Unicode(
        "",
        help="A YAML file with reservations: devices that are kept free for a group at some times. Empty for"
        " reservations.yaml in the data directory; without it none.",
    ).tag(config=True)
    usage_half_life_hours = Float(
        4.0,
        min=0.01,
        max=10_000.0,
        help="After how long half of what an owner has used counts no more when the queue is ordered.",
    ).tag(config=True)
    aging_minutes = Float(
        30.0,
        min=0.0,
        max=100_000.0,
        help="After how long an owner's oldest request comes before those of others: so nothing starves.",
    ).tag(config=True)
    evict = Enum(
        sorted(EVICTIONS), "longest_idle", help="Which of the leases that may be taken back goes first."
    ).tag(config=True)
    reclaim_idle_minutes = Float(
        10.0,
        min=0.0,
        allow_none=True,
        help="After how long without a running cell and without activity on its device a lease may be taken"
        " back. It is only when somebody waits for it. 0 or None for never.",
    ).tag(config=True)
    release_idle_minutes = Float(
        None,
        min=0.0,
        allow_none=True,
        help="After how long without any activity a lease is taken back though nobody waits. 0 or None for"
        " never.",
    ).tag(config=True)
    notice_seconds = Float(
        60.0,
        min=0.0,
        help="How long the holder of a lease is told before it is taken back. 0 for not at all.",
    ).tag(config=True)
    least_run_minutes = Float(
        5.0, min=0.0, help="For how long after its grant a lease is not taken back, whatever happens."
    ).tag(config=True)
    preempt = Bool(
        True,
        help="Take leases that are in use back from owners who have more than they deserve: for owners who"
        " have less, or, above the fair share of both, for a request of a higher priority.",
    ).tag(config=True)
    cores_per_device = Float(
        0.0,
        min=0.0,
        help="How many cores of its node go with a whole accelerator where a request says nothing of that; a"
        " share has its part. They are counted, so that no node gives more than it has. 0 for none.",
    ).tag(config=True)
    memory_gib_per_device = Float(
        0.0,
        min=0.0,
        help="How much main memory goes with a whole accelerator where a request says nothing of that, GiB; a"
        " share has its part. 0 for none.",
    ).tag(config=True)
    attach_seconds = Float(60.0, min=1.0, help="How long a granted lease waits for its holder.").tag(
        config=True
    )
    restart_seconds = Float(10.0, min=1.0, help="How long a lease waits for its kernel to come back.").tag(
        config=True
    )
    ending_seconds = Float(
        30.0, min=1.0, help="How long an agent may take to confirm an end before the device is quarantined."
    ).tag(config=True)
    agent_grace_seconds = Float(
        15.0, min=1.0, help="How long an agent may be away before the leases on its node end."
    ).tag(config=True)
    show_owners = Bool(
        False,
        help="Whether everybody sees whose the leases of others are. Names of notebooks, and what is"
        " measured, are shown to their owners and to administrators only.",
    ).tag(config=True)
    waiter_grace_seconds = Float(
        5.0, min=0.5, help="How long a request stays in the queue when nobody listens for it."
    ).tag(config=True)
    sweep_seconds = Float(
        30.0, min=0.1, help="How often leases are compared with the processes that live."
    ).tag(config=True)
    idle_exit_seconds = Float(
        600.0, min=1.0, help="An embedded pool ends when it has had no lease and no client for this long."
    ).tag(config=True)
    worker_ttl_seconds = Float(
        8.0, min=2.0, help="How long an agent may be silent on an open connection before it counts as away."
    ).tag(config=True)
    keep_days = Float(
        30.0,
        min=0.0,
        help="How long leases that ended are kept in the journal; the sum of their usage is kept for ever.",
    ).tag(config=True)
    usage_keep_days = Float(
        400.0,
        min=1.0,
        help="How long it is kept who held and used what, and when: what `jupyter gpupool usage` reports.",
    ).tag(config=True)
    prices = Dict(
        value_trait=Float(min=0.0),
        key_trait=Unicode(),
        help="Price of a whole device for an hour, by words of its model's name: {'A100': 1.8, 'H100': 3.5}.",
    ).tag(config=True)

    hub = Bool(
        False,
        help="This is a service of JupyterHub: users are the Hub's, who show tokens of the Hub. What else it"
        " needs, the Hub puts into its environment.",
    ).tag(config=True)
    requests_per_second = Float(
        0.0,
        min=0.0,
        help="How often one owner may ask the pool for something in the long run (four seconds' worth at"
        " once). 0 for no limit; under a Hub 50 unless you say otherwise.",
    ).tag(config=True)
    owner_streams = Int(
        0,
        min=0,
        help="How many event streams one owner may have open: one for each Jupyter server. 0 for no limit;"
        " under a Hub 50 unless you say otherwise.",
    ).tag(config=True)

    start_agent = Bool(
        True,
        help="Start the agent of this machine, and again when it dies. False where a service manager runs"
        " “jupyter gpupool agent”.",
    ).tag(config=True)

    def settings(self, *, embedded: bool = False, rules: NodeRules | None = None) -> ServiceSettings:
        """Return everything as one frozen value; ``rules`` are for the agent that the service starts.

        Raises
        ------
        BadSettings, BadQuotas, InvalidValue
            If it cannot work.
        """
        _check_address(self.ip)
        if self.listen and embedded:
            raise BadSettings("A user's own pool serves no other machines.", hint="Leave --embedded away.")
        if self.emulate:
            parse_emulation(self.emulate)
        _check_tokens(self.tokens, embedded=embedded)
        if self.hub and embedded:
            raise BadSettings("A user's own pool is no service of a Hub.", hint="Leave --embedded away.")
        hub = read_hub(os.environ) if self.hub else None
        return ServiceSettings(
            runtime=paths.runtime_dir(),
            data=paths.data_dir(),
            owner=paths.os_user(),
            config=self.pool_config(),
            ip=self.ip,
            port=self.port,
            listen=self.listen,
            listen_port=self.listen_port,
            control_port=self.control_port,
            embedded=embedded,
            emulate=self.emulate,
            emulate_beside=self.emulate_beside,
            tokens=dict(self.tokens),
            allowed_hosts=tuple(self.allowed_hosts),
            sweep_seconds=self.sweep_seconds,
            waiter_grace_seconds=self.waiter_grace_seconds,
            show_owners=self.show_owners,
            idle_exit_seconds=self.idle_exit_seconds,
            worker_ttl_seconds=self.worker_ttl_seconds,
            keep_days=self.keep_days,
            requests_per_second=self.requests_per_second or (HUB_LIMIT if hub else 0),
            owner_streams=self.owner_streams or (HUB_LIMIT if hub else 0),
            hub=hub,
            quotas_path=self.quotas_path,
            reservations_path=self.reservations_path,
            usage_keep_days=self.usage_keep_days,
            prices=dict(self.prices),
            start_agent=self.start_agent,
            rules=rules or NodeRules(),
        )

    def pool_config(self) -> PoolConfig:
        """Return the pool's rules."""
        quotas = self.quotas()
        return PoolConfig(
            order=self.order,
            place=self.place,
            evict=self.evict,
            reclaim_idle_ms=_minutes_ms(self.reclaim_idle_minutes),
            release_idle_ms=_minutes_ms(self.release_idle_minutes),
            notice_ms=round(self.notice_seconds * 1000),
            least_run_ms=round(self.least_run_minutes * 60_000),
            preempt=self.preempt,
            host_cpu_milli=round(self.cores_per_device * 1000),
            host_memory_bytes=round(self.memory_gib_per_device * 2**30),
            attach_ms=round(self.attach_seconds * 1000),
            restart_grace_ms=round(self.restart_seconds * 1000),
            ending_ms=round(self.ending_seconds * 1000),
            agent_grace_ms=round(self.agent_grace_seconds * 1000),
            quotas=quotas,
            reservations=self.reservations(quotas),
            half_life_ms=round(self.usage_half_life_hours * 3_600_000),
            aging_ms=round(self.aging_minutes * 60_000),
        )

    def quotas(self) -> Quotas:
        """Return what the file of quotas says.

        Raises
        ------
        BadQuotas
            If it cannot be read or understood.
        """
        path = self.quotas_path
        return read_quotas(path) if self.quotas_file or path.exists() else Quotas()

    @property
    def quotas_path(self) -> Path:
        """Where quotas are written: the file that is named, or the one in the data directory."""
        return Path(self.quotas_file).expanduser() if self.quotas_file else paths.data_dir() / QUOTAS_FILE

    @property
    def reservations_path(self) -> Path:
        """Where reservations are written."""
        named = self.reservations_file
        return Path(named).expanduser() if named else paths.data_dir() / RESERVATIONS_FILE

    def reservations(self, quotas: Quotas) -> tuple[Reserved, ...]:
        """Return what the file of reservations says.

        Raises
        ------
        BadReservations
            If it cannot be read or understood, or names a group that the quotas do not have.
        """
        path = self.reservations_path
        return read_reservations(path, quotas) if self.reservations_file or path.exists() else ()


def _minutes_ms(minutes: float | None) -> int | None:
    """Turn minutes into whole milliseconds; none of them mean never."""
    return round(minutes * 60_000) if minutes else None


def _check_address(ip: str) -> None:
    try:
        loopback = ip == "localhost" or ipaddress.ip_address(ip).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise BadSettings(
            f"PoolService.ip is “{ip}”, no loopback address: plain HTTP never leaves the machine.",
            hint=f"Use --listen {ip or 'HOST'} instead, which serves other machines with TLS.",
        )


def _check_tokens(tokens: Mapping[str, str], *, embedded: bool) -> None:
    if embedded and tokens:
        raise BadSettings("PoolService.tokens is for shared pools.", hint="Leave --embedded away.")
    short = sorted(owner for owner, token in tokens.items() if len(token) < 16 or not owner)
    if short:
        raise BadSettings(
            f"PoolService.tokens has unusable tokens for: {', '.join(short) or '(no name)'}.",
            hint="Use at least 16 random characters, as secrets.token_hex() of Python makes them.",
        )
    if len(set(tokens.values())) < len(tokens):
        raise BadSettings("PoolService.tokens gives one token to two owners.", hint="Give each its own.")
