/**
 * Whether a request would be granted now, as far as the page can tell. Rule of this module: pure; it is a
 * forecast from the newest snapshot, and the pool alone decides.
 */
import { TranslationBundle } from '@jupyterlab/translation';

import { bytes, kindName, share } from './format';
import { DeviceKind, IDevice, ILease, IPool, Priority } from './types';

/** What a person asks for in the form. */
export interface IWish {
  readonly compute_milli: number;
  /** Null follows the compute. */
  readonly memory_bytes: number | null;
  readonly kind: DeviceKind | null;
  readonly priority: Priority;
  /** Seconds; null waits for ever, 0 not at all. */
  readonly wait_seconds: number | null;
  readonly count: number;
}

/** Whether it would fit, and what to know about it. */
export interface IForecast {
  readonly fits: boolean;
  /** One sentence. */
  readonly message: string;
}

/** The magic that asks for it. */
export function magicOf(wish: IWish): string {
  const words = ['%gpupool request', share(wish.compute_milli)];
  if (wish.count > 1) {
    words.push(`x${wish.count}`);
  }
  if (wish.memory_bytes !== null) {
    words.push(`--memory ${bytes(wish.memory_bytes).replace(' ', '')}`);
  }
  if (wish.kind) {
    words.push(`--kind ${wish.kind}`);
  }
  if (wish.priority !== 'normal') {
    words.push(`--priority ${wish.priority}`);
  }
  if (wish.wait_seconds === 0) {
    words.push('--no-wait');
  } else if (wish.wait_seconds !== null) {
    words.push(`--wait ${minutesText(wish.wait_seconds)}`);
  }
  return words.join(' ');
}

/** Say whether it would be granted now, where, and what would be in its way. */
export function forecast(wish: IWish, pool: IPool, trans: TranslationBundle): IForecast {
  const devices = pool.devices.filter(device => kindOf(wish, pool.devices) === device.kind);
  const offered = devices.filter(device => device.offered);
  if (!offered.length) {
    return { fits: false, message: nothingOffered(wish, devices, trans) };
  }
  const fitting = offered.filter(device => hasRoom(device, wish));
  if (fitting.length < wish.count) {
    return { fits: false, message: blocked(wish, offered, pool, trans) };
  }
  const before = pool.queue.filter(
    entry => (entry.kind ?? fitting[0].kind) === fitting[0].kind && !goesBehind(entry, wish)
  );
  if (before.length) {
    return {
      fits: false,
      message: trans._n(
        'There is room, but %1 request comes before it.',
        'There is room, but %1 requests come before it.',
        before.length
      )
    };
  }
  return { fits: true, message: trans.__('Fits now, on %1.', names(fitting, wish.count)) };
}

/** Which kind would be granted: what was asked for, else GPUs where there are any. */
function kindOf(wish: IWish, devices: readonly IDevice[]): DeviceKind {
  return wish.kind ?? (devices.some(device => device.kind === 'cuda') ? 'cuda' : 'cpu');
}

function hasRoom(device: IDevice, wish: IWish): boolean {
  if (device.whole_only) {
    return device.free_compute_milli > 0 && device.parent_milli >= wish.compute_milli;
  }
  const memory = wish.memory_bytes ?? (device.memory_bytes * wish.compute_milli) / 1000;
  // Without a wish for memory the pool takes what processes without a lease leave.
  const needed =
    wish.memory_bytes === null ? Math.max(0, memory - (device.unmanaged_bytes ?? 0)) : memory;
  return device.free_compute_milli >= wish.compute_milli && device.free_memory_bytes >= needed;
}

function goesBehind(entry: { readonly priority: Priority }, wish: IWish): boolean {
  const rank: Record<Priority, number> = { low: 0, normal: 1, high: 2 };
  return rank[entry.priority] < rank[wish.priority];
}

function nothingOffered(
  wish: IWish,
  devices: readonly IDevice[],
  trans: TranslationBundle
): string {
  if (!devices.length) {
    return wish.kind
      ? trans.__('This pool has no %1 device.', kindName(wish.kind))
      : trans.__('This pool has no device yet.');
  }
  return devices[0].withheld || trans.__('No such device is offered at the moment.');
}

function blocked(
  wish: IWish,
  offered: readonly IDevice[],
  pool: IPool,
  trans: TranslationBundle
): string {
  const most = Math.max(...offered.map(device => device.free_compute_milli));
  const memory = Math.max(...offered.map(device => device.free_memory_bytes));
  if (wish.count > offered.length) {
    return trans._n(
      'Only %1 such device is offered.',
      'Only %1 such devices are offered.',
      offered.length
    );
  }
  if (most >= wish.compute_milli) {
    return trans.__('Would wait: at most %1 of memory is free on one device.', bytes(memory));
  }
  const free =
    most > 0
      ? trans.__('Would wait: at most %1 of a device is free.', share(most))
      : trans.__('Would wait: every device is taken.');
  return [free, holders(offered, pool, trans)].filter(Boolean).join(' ');
}

/** Who has the rest: what is this person's own can be released at once. */
function holders(offered: readonly IDevice[], pool: IPool, trans: TranslationBundle): string {
  const ids = new Set(offered.map(device => device.id));
  const there = (lease: ILease) => lease.shares.some(part => ids.has(part.device_id));
  const own = pool.leases.filter(lease => lease.mine && there(lease));
  if (own.length) {
    return trans._n(
      '%1 of the leases in its way is yours.',
      '%1 of the leases in its way are yours.',
      own.length
    );
  }
  const ends = pool.leases
    .filter(lease => there(lease) && lease.expires_seconds !== null)
    .map(lease => lease.expires_seconds ?? 0);
  return ends.length
    ? trans.__('The next lease ends in %1 at the latest.', minutesText(Math.min(...ends)))
    : '';
}

function names(devices: readonly IDevice[], count: number): string {
  return devices
    .slice(0, count)
    .map(device => device.name)
    .join(', ');
}

/** Seconds as the magic takes them: "90s", "5m", "2h". */
export function minutesText(seconds: number): string {
  const whole = Math.max(1, Math.round(seconds));
  if (whole % 3600 === 0) {
    return `${whole / 3600}h`;
  }
  return whole % 60 === 0 || whole > 600 ? `${Math.round(whole / 60)}m` : `${whole}s`;
}
