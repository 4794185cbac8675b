/**
 * What a person should be told even when they look elsewhere. Rule of this module: no DOM; each matter is told once,
 * when it begins.
 */
import { TranslationBundle } from '@jupyterlab/translation';

import { about, bytesOf, share } from './format';
import { memoryPercent } from './select';
import { AlertKind } from './settings';
import { IPoolState } from './tokens';
import { ILease, IPool } from './types';

/** A wait that is shorter is no wait that a person looks away in, seconds. */
const SHORT_WAIT_SECONDS = 5;
/** Told again only after the memory in use fell so far below the threshold, percent. */
const SLACK_PERCENT = 10;

/** Ends that the person asked for, or that follow from what they did. */
const EXPECTED = new Set([
  'released',
  'cancelled',
  'kernel_shutdown',
  'holder_exited',
  'abandoned'
]);

/** One thing to tell. */
export interface IAlert {
  readonly kind: AlertKind;
  readonly tone: 'success' | 'info' | 'warning' | 'error';
  readonly message: string;
  /** The lease that can be kept by pinning it; empty when there is nothing to keep. */
  readonly keep: string;
}

/** Compares snapshots, and remembers what was told. */
export class Alerts {
  /**
   * @param trans - Words.
   * @param nameOf - What a person calls the holder of a lease.
   */
  constructor(
    private readonly trans: TranslationBundle,
    private readonly nameOf: (lease: ILease) => string
  ) {}

  /** What is new since the state before; nothing at the first. */
  next(state: IPoolState): IAlert[] {
    const { pool } = state;
    const before = this.before;
    if (!pool || pool === before) {
      return [];
    }
    this.before = pool;
    const old = before ? new Map(before.leases.map(lease => [lease.id, lease])) : null;
    const alerts: (IAlert | null)[] = [];
    for (const lease of pool.leases.filter(candidate => candidate.mine)) {
      const known = old?.get(lease.id) ?? null;
      alerts.push(old && known && this.granted(known, lease));
      alerts.push(
        this.reclaimed(known, lease),
        this.overMemory(lease, state),
        this.failing(lease, pool)
      );
    }
    this.forget(pool);
    return alerts.filter(
      (alert): alert is IAlert => alert !== null && state.settings.alerts.has(alert.kind)
    );
  }

  /** This person's leases that were held and are gone: why they ended has to be asked. */
  gone(before: IPool | null, after: IPool): ILease[] {
    const there = new Set(after.leases.filter(it => it.state !== 'ended').map(it => it.id));
    return (before?.leases ?? []).filter(
      it => it.mine && !there.has(it.id) && ['active', 'attaching', 'ending'].includes(it.state)
    );
  }

  /** What to tell of a lease that has ended; nothing when that was to be expected. */
  ended(lease: ILease): IAlert | null {
    if (!lease.end_reason || EXPECTED.has(lease.end_reason)) {
      return null;
    }
    const detail = lease.end_detail || lease.reason;
    const message =
      lease.end_reason === 'hold_expired'
        ? this.trans.__('%1: its lease has expired, as was asked for.', this.nameOf(lease))
        : this.trans.__('%1: its lease has ended. %2', this.nameOf(lease), detail);
    return { kind: 'ended', tone: 'warning', message, keep: '' };
  }

  private granted(before: ILease, lease: ILease): IAlert | null {
    const isNew = before.state === 'queued' && ['attaching', 'active'].includes(lease.state);
    if (!isNew || lease.waited_seconds < SHORT_WAIT_SECONDS) {
      return null;
    }
    const where = lease.shares.map(part => part.device_name).join(', ');
    const message = this.trans.__(
      '%1: %2 of %3 is granted, after %4.',
      this.nameOf(lease),
      share(lease.compute_milli),
      where,
      about(lease.waited_seconds, this.trans)
    );
    return { kind: 'granted', tone: 'success', message, keep: '' };
  }

  private reclaimed(before: ILease | null, lease: ILease): IAlert | null {
    if (lease.reclaim_seconds === null || (before && before.reclaim_seconds !== null)) {
      return null;
    }
    const message = this.trans.__(
      '%1: its lease is taken back in %2. Its state is saved before.',
      this.nameOf(lease),
      about(lease.reclaim_seconds, this.trans)
    );
    return { kind: 'reclaim', tone: 'warning', message, keep: lease.pinned ? '' : lease.id };
  }

  private overMemory(lease: ILease, state: IPoolState): IAlert | null {
    const percent = memoryPercent(lease);
    const key = `memory ${lease.id}`;
    const limit = state.settings.memoryWarnPercent;
    if (percent !== null && percent < limit - SLACK_PERCENT) {
      this.told.delete(key);
    }
    if (percent === null || percent < limit || this.told.has(key)) {
      return null;
    }
    this.told.add(key);
    const used = bytesOf(lease.memory_used_bytes ?? 0, lease.memory_bytes ?? 0, this.trans);
    const message = this.trans.__('%1 uses %2 of its memory.', this.nameOf(lease), used);
    return { kind: 'memory', tone: 'warning', message, keep: '' };
  }

  private failing(lease: ILease, pool: IPool): IAlert | null {
    const device = pool.devices.find(
      candidate =>
        candidate.health !== 'healthy' && lease.shares.some(part => part.device_id === candidate.id)
    );
    const key = `device ${lease.id}`;
    if (!device) {
      this.told.delete(key);
      return null;
    }
    if (this.told.has(key)) {
      return null;
    }
    this.told.add(key);
    const message = this.trans.__(
      '%1: its device %2 is failing. %3',
      this.nameOf(lease),
      device.name,
      device.health_reason
    );
    return { kind: 'device', tone: 'error', message, keep: '' };
  }

  /** What was told of leases that are gone need not be remembered. */
  private forget(pool: IPool): void {
    const there = new Set(pool.leases.map(lease => lease.id));
    for (const key of this.told) {
      if (!there.has(key.slice(key.indexOf(' ') + 1))) {
        this.told.delete(key);
      }
    }
  }

  private before: IPool | null = null;
  private readonly told = new Set<string>();
}
