/**
 * What the views read out of a snapshot. Rule of this module: pure; what is the same as before is the same value.
 */
import { reuse } from './sharing';
import { IDevice, ILease, INode, IPool } from './types';

/** A piece of a device that a lease has. */
export interface IPiece {
  /** The lease. */
  readonly id: string;
  /** Whether it is this person's. */
  readonly mine: boolean;
  /** Whose it is; empty where that is not told. */
  readonly owner: string;
  /** True when it has done nothing for a while. */
  readonly idle: boolean;
  readonly compute_milli: number;
  readonly memory_bytes: number;
}

/** The pieces of each device, by its id. */
export type Pieces = Readonly<Record<string, readonly IPiece[]>>;

/** A device that nobody has a piece of. */
export const NO_PIECES: readonly IPiece[] = [];

/** Which leases have a piece of which device: mine first, then as they came. */
export function piecesOf(pool: IPool, idleSeconds: number, before: Pieces): Pieces {
  const pieces: Record<string, IPiece[]> = {};
  for (const lease of pool.leases) {
    if (lease.state === 'ended') {
      continue;
    }
    for (const part of lease.shares) {
      (pieces[part.device_id] ??= []).push({
        id: lease.id,
        mine: lease.mine,
        owner: lease.owner,
        idle: isIdle(lease, idleSeconds),
        compute_milli: part.compute_milli,
        memory_bytes: part.memory_bytes
      });
    }
  }
  for (const list of Object.values(pieces)) {
    list.sort((a, b) => Number(b.mine) - Number(a.mine));
  }
  return reuse(before, pieces);
}

/** True when a lease has done nothing for a while, as far as that is told. */
export function isIdle(lease: ILease, idleSeconds: number): boolean {
  return lease.idle_seconds !== null && lease.idle_seconds >= idleSeconds;
}

/** The leases that hold a share. */
export function held(pool: IPool): ILease[] {
  return pool.leases.filter(lease => lease.shares.length > 0 && lease.state !== 'ended');
}

/** This person's leases that hold a share, and those that wait. */
export function mine(pool: IPool): ILease[] {
  return held(pool).filter(lease => lease.mine);
}

/** The leases of one kernel: what it holds first, then what it waits for. */
export function leasesOfKernel(pool: IPool | null, kernelId: string): ILease[] {
  if (!pool || !kernelId) {
    return [];
  }
  return pool.leases
    .filter(
      lease =>
        lease.mine &&
        lease.state !== 'ended' &&
        lease.holder.kernel_id === kernelId &&
        ['', kernelId].includes(lease.holder.key)
    )
    .sort((a, b) => Number(a.state === 'queued') - Number(b.state === 'queued'));
}

/** How much of its memory a lease uses, percent; null when it is not known. */
export function memoryPercent(lease: ILease): number | null {
  const { memory_used_bytes: used, memory_bytes: granted } = lease;
  return used === null || !granted ? null : (100 * used) / (granted * Math.max(1, lease.count));
}

/** The devices of each node, in the order of the devices; null for a node that is not known. */
export function byNode(pool: IPool): [INode | null, IDevice[]][] {
  const nodes = new Map(pool.nodes.map(node => [node.id, node]));
  const groups = new Map<string, IDevice[]>();
  for (const device of pool.devices) {
    const group = groups.get(device.node_id);
    if (group) {
      group.push(device);
    } else {
      groups.set(device.node_id, [device]);
    }
  }
  return [...groups].map(([nodeId, devices]) => [nodes.get(nodeId) ?? null, devices]);
}
