/**
 * What arrives from the server extension, word for word as `jupyter_gpupool/protocol/documents.py`
 * defines it. Rule of this module: no behaviour, and a missing reading is `null`, never 0.
 */

/** What kind of accelerator a device is. */
export type DeviceKind = 'cpu' | 'cuda';

/** What the agent's indicators say about a device. */
export type Health = 'healthy' | 'degraded' | 'failed';

/** What a node is good for. */
export type NodeState = 'ready' | 'away' | 'draining' | 'drained';

/** Where a lease is in its life. */
export type LeaseState = 'queued' | 'attaching' | 'active' | 'ending' | 'ended';

/** What a limit is about. */
export type Resource = 'memory' | 'compute' | 'host_memory' | 'host_compute' | 'processes';

/** How well a limit holds. */
export type Strength = 'hard' | 'soft' | 'none';

/** How it is known that a limit is in force. */
export type Verified = 'pending' | 'read-back' | 'probed';

/** How urgent a request is. */
export type Priority = 'low' | 'normal' | 'high';

/** A part of one device. */
export interface IShare {
  readonly device_id: string;
  readonly device_name: string;
  readonly compute_milli: number;
  readonly memory_bytes: number;
  readonly parent_milli: number;
  readonly whole_only: boolean;
  readonly hostname: string;
}

/** What is in force for one resource of a lease. */
export interface IIsolation {
  readonly resource: Resource;
  readonly strength: Strength;
  readonly mechanism: string;
  readonly limit: string;
  readonly verified: Verified;
  readonly note: string;
}

/** A process that uses a device without a lease. */
export interface IProcess {
  readonly pid: number;
  readonly user: string;
  readonly name: string;
  readonly memory_bytes: number | null;
}

/** Who uses a lease. */
export interface IHolder {
  readonly key: string;
  readonly kernel_id: string;
  readonly label: string;
  readonly pid: number | null;
  readonly restartable: boolean;
}

/** What a lease with devices on several nodes has on one of them. */
export interface IPart {
  readonly node_id: string;
  readonly hostname: string;
  readonly shares: readonly IShare[];
  readonly holder: boolean;
  readonly joined: boolean;
  readonly pid: number | null;
  readonly isolation: readonly IIsolation[];
}

/** A lease; of other owners' leases only the size, kind and state are told. */
export interface ILease {
  readonly id: string;
  readonly state: LeaseState;
  readonly mine: boolean;
  readonly owner: string;
  readonly compute_milli: number;
  readonly memory_bytes: number | null;
  readonly kind: DeviceKind | null;
  readonly device: string;
  readonly shares: readonly IShare[];
  readonly node_id: string;
  readonly holder: IHolder;
  readonly isolation: readonly IIsolation[];
  readonly generation: number;
  readonly position: number | null;
  readonly reason: string;
  readonly waited_seconds: number;
  readonly held_seconds: number;
  readonly expires_seconds: number | null;
  readonly wait_left_seconds: number | null;
  readonly memory_used_bytes: number | null;
  readonly end_reason: string | null;
  readonly end_detail: string;
  readonly resizing: boolean;
  readonly tag: string;
  readonly notices: readonly string[];
  readonly utilization_percent: number | null;
  readonly asked_compute_milli: number;
  readonly asked_memory_bytes: number | null;
  readonly priority: Priority;
  readonly pinned: boolean;
  readonly reclaim_seconds: number | null;
  readonly idle_seconds: number | null;
  readonly count: number;
  readonly host_cpu_milli: number;
  readonly host_memory_bytes: number;
  readonly model: string;
  readonly parts: readonly IPart[];
}

/** Telemetry of a device. */
export interface IReadings {
  readonly utilization_percent: number | null;
  readonly memory_used_bytes: number | null;
  readonly temperature_celsius: number | null;
  readonly power_watts: number | null;
}

/** One schedulable accelerator. */
export interface IDevice {
  readonly id: string;
  readonly name: string;
  readonly node_id: string;
  readonly kind: DeviceKind;
  readonly model: string;
  readonly emulated: boolean;
  readonly memory_bytes: number;
  readonly compute_units: number;
  readonly free_compute_milli: number;
  readonly free_memory_bytes: number;
  readonly unmanaged_bytes: number | null;
  readonly health: Health;
  readonly offered: boolean;
  readonly withheld: string;
  readonly readings: IReadings;
  readonly leases: readonly string[];
  readonly health_reason: string;
  readonly parent_id: string;
  readonly parent_milli: number;
  readonly whole_only: boolean;
  readonly sharing: string;
  readonly isolation: readonly IIsolation[];
  readonly unmanaged: readonly IProcess[];
  readonly missing: Readonly<Record<string, string>>;
}

/** One machine in the pool. */
export interface INode {
  readonly id: string;
  readonly hostname: string;
  readonly connected: boolean;
  readonly state: NodeState;
  readonly drain_message: string;
  readonly drain_seconds: number | null;
}

/** One request that waits. */
export interface IQueueEntry {
  readonly position: number;
  readonly lease_id: string;
  readonly mine: boolean;
  readonly kind: DeviceKind | null;
  readonly compute_milli: number;
  readonly memory_bytes: number | null;
  readonly reason: string;
  readonly waited_seconds: number;
  readonly count: number;
  readonly priority: Priority;
}

/** The pool snapshot. */
export interface IPool {
  readonly revision: number;
  readonly version: string;
  readonly me: string;
  readonly embedded: boolean;
  readonly nodes: readonly INode[];
  readonly devices: readonly IDevice[];
  readonly leases: readonly ILease[];
  readonly queue: readonly IQueueEntry[];
  readonly warnings: readonly string[];
}

/** A snapshot, as the kernel that saved it told the pool. */
export interface ISnapshot {
  readonly id: string;
  readonly name: string;
  /** When it was taken: UTC, milliseconds since the epoch. */
  readonly created_ms: number;
  readonly note: string;
  /** Path of its notebook, as its kernel knows it. */
  readonly notebook: string;
  readonly kernel_id: string;
  readonly hostname: string;
  readonly store: string;
  /** True when nobody asked for it by name. */
  readonly automatic: boolean;
  readonly total_bytes: number;
  readonly new_bytes: number;
  /** How many variables. */
  readonly count: number;
  /** About how long it takes to restore it. */
  readonly restore_seconds: number;
  /** True when it is what is left of its kernel, should that be gone. */
  readonly last_words: boolean;
}

/** When something will probably be, from now. */
export interface ISpread {
  readonly low_seconds: number;
  readonly seconds: number;
  readonly high_seconds: number;
}

/** A lease that has what a request waits for. */
export interface IBlocker {
  readonly lease_id: string;
  readonly mine: boolean;
  readonly compute_milli: number;
  readonly devices: readonly string[];
  readonly ends: ISpread | null;
}

/** Why a lease is as it is. */
export interface IWhy {
  readonly lease_id: string;
  readonly state: LeaseState;
  readonly reason: string;
  readonly sentences: readonly string[];
  readonly blockers: readonly IBlocker[];
  readonly estimate: ISpread | null;
  readonly would_fit: string;
}

/** One limit that an owner is under. */
export interface IQuota {
  readonly group: string;
  readonly what: string;
  readonly kind: DeviceKind | null;
  readonly limit: number;
  readonly used: number;
  readonly left: number;
}

/** How an owner stands with one kind of device. */
export interface IHeld {
  readonly kind: DeviceKind;
  readonly held_devices: number;
  readonly deserved_devices: number;
  readonly fair_devices: number;
  readonly faded_hours: number;
  readonly week_hours: number;
}

/** What one owner has used. */
export interface IUsage {
  readonly owner: string;
  readonly mine: boolean;
  readonly device_seconds: number;
  readonly leases: number;
  readonly live_leases: number;
  readonly held: readonly IHeld[];
  readonly quotas: readonly IQuota[];
}

/** What the Jupyter server remembers of the pool's recent past, each series with its newest value last. */
export interface IHistory {
  readonly step_seconds: number;
  /** Seconds since the newest value was taken. */
  readonly age_seconds: number;
  readonly leased: readonly (number | null)[];
  readonly busy: readonly (number | null)[];
  readonly memory: readonly (number | null)[];
  readonly waiting: readonly (number | null)[];
  /** By device id: how busy, percent; the last minutes only. */
  readonly devices: Readonly<Record<string, readonly (number | null)[]>>;
}

/** What is known of one kernel's environment. */
export interface IKernelEnvironment {
  readonly kernel_id: string;
  readonly installed: boolean;
  readonly language: string;
  readonly install_command: string;
}

/** How the server extension stands with the pool service. */
export type ServerState = 'starting' | 'connected' | 'reconnecting' | 'unavailable';

/** What a message of the live channel has that is not told twice. */
interface IMarked {
  /** Which message it is; missing from a server that does not say. */
  readonly mark?: string;
}

/** The server extension's word about its link to the pool. */
export interface IStatusMessage {
  readonly type: 'status';
  readonly state: ServerState;
  readonly message: string;
  readonly hint: string;
}

/** A new snapshot; the newest wins. */
export interface IPoolMessage extends IMarked {
  readonly type: 'pool';
  readonly pool: IPool;
}

/** All kernels of this Jupyter server. */
export interface IKernelsMessage extends IMarked {
  readonly type: 'kernels';
  readonly kernels: readonly IKernelEnvironment[];
}

/** Everything that the live channel carries. */
export type StreamMessage = IStatusMessage | IPoolMessage | IKernelsMessage;
