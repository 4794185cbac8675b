/**
 * The one owner of state in a browser tab. Rule of this module: every change makes a new state value
 * and is announced once; it touches no DOM but the page's clock and visibility.
 */
import { ServerConnection } from '@jupyterlab/services';
import { TranslationBundle } from '@jupyterlab/translation';
import { ISignal, Signal } from '@lumino/signaling';

import { newsOf } from './news';
import * as api from './restapi';
import { piecesOf } from './select';
import { Past } from './series';
import { DEFAULTS, IPoolSettings } from './settings';
import { reuse, reuseById } from './sharing';
import { ChannelState, PoolStream } from './stream';
import { IPoolManager, IPoolState } from './tokens';
import { ILease, IPool, IWhy, StreamMessage } from './types';

/** Views count elapsed times in whole seconds. */
const TICK_MS = 1000;
/** Usage, snapshots and estimates are read at most so often without being asked for, milliseconds. */
const REFRESH_MS = 15_000;

/** Snapshots that come about as often as wanted are not put off because of a few milliseconds. */
const SLACK_MS = 100;

const EMPTY: IPoolState = {
  phase: 'starting',
  message: '',
  hint: '',
  pool: null,
  age_seconds: 0,
  kernels: new Map(),
  ending: new Set(),
  news: '',
  pieces: {},
  whys: new Map(),
  usage: null,
  snapshots: [],
  settings: DEFAULTS
};

/** Combines the channel, the server's status and the newest snapshot into one state. */
export class PoolManager implements IPoolManager {
  /**
   * @param options - What it works with.
   */
  constructor(options: PoolManager.IOptions) {
    this.settings = options.serverSettings;
    this.trans = options.trans;
    this.stream = options.stream ?? new PoolStream(options.serverSettings);
    this.stream.messageReceived.connect((_, message) => this.onMessage(message));
    this.stream.stateChanged.connect((_, channel) => this.onChannel(channel));
    this.stream.connect();
  }

  /** The recent past, for charts. */
  readonly past = new Past();

  /** The newest state. */
  get state(): IPoolState {
    return this._state;
  }

  /** Emitted at each change of `state`. */
  get stateChanged(): ISignal<this, IPoolState> {
    return this._stateChanged;
  }

  /** True after `dispose`. */
  get isDisposed(): boolean {
    return this.stream.isDisposed;
  }

  /** End a lease. Rejects with an `ApiError` that says why not. */
  release(leaseId: string): Promise<void> {
    return this.end(leaseId, 'released');
  }

  /** Take a request out of the queue. Rejects with an `ApiError` that says why not. */
  cancel(leaseId: string): Promise<void> {
    return this.end(leaseId, 'cancelled');
  }

  /** Ask for another size. Rejects with an `ApiError` that says why not. */
  async resize(leaseId: string, computeMilli: number, memoryBytes: number | null): Promise<void> {
    const size = { compute_milli: computeMilli, memory_bytes: memoryBytes };
    await api.resizeLease(leaseId, size, this.settings);
  }

  /** Have a lease not taken back, or let it be. Rejects with an `ApiError` that says why not. */
  async pin(leaseId: string, pinned: boolean): Promise<void> {
    await api.pinLease(leaseId, pinned, this.settings);
  }

  /** Take what the person chose. */
  setSettings(settings: IPoolSettings): void {
    this.update({ settings });
    if (this._state.pool) {
      this.show(this._state.pool);
    }
  }

  /** Read anew what is not told by itself; what cannot be read now stays as it was. */
  async refresh(): Promise<void> {
    this.refreshed = Date.now();
    const waiting = (this._state.pool?.queue ?? []).filter(entry => entry.mine);
    const [usage, snapshots, ...whys] = await Promise.all([
      api.readUsage(this.settings).catch(() => null),
      api.allSnapshots(this.settings).catch(() => null),
      ...waiting.map(entry => api.whyLease(entry.lease_id, this.settings).catch(() => null))
    ]);
    if (this.isDisposed) {
      return;
    }
    const state = this._state;
    const known = whys.filter((why): why is IWhy => why !== null);
    const mine = Array.isArray(usage) ? usage.find(row => row.mine) : null;
    this.update({
      usage: mine ? reuse(state.usage, mine) : state.usage,
      snapshots: Array.isArray(snapshots) ? reuse(state.snapshots, snapshots) : state.snapshots,
      whys: new Map(known.map(why => [why.lease_id, reuse(state.whys.get(why.lease_id), why)]))
    });
  }

  /** Try to reach the pool now; resolves when the server has answered, whatever it said. */
  async retry(): Promise<void> {
    if (this.stream.state.kind !== 'open') {
      this.stream.connect();
    }
    // A call for the pool is what makes the server look for it, and start a dead one again.
    await api.probe(this.settings);
  }

  /** Close the channel and forget the listeners. */
  dispose(): void {
    if (this.isDisposed) {
      return;
    }
    this.stream.dispose();
    window.clearTimeout(this.clock);
    window.clearTimeout(this.later);
    Signal.clearData(this);
  }

  private async end(leaseId: string, reason: 'released' | 'cancelled'): Promise<void> {
    this.update({ ending: new Set(this._state.ending).add(leaseId) });
    try {
      await api.endLease(leaseId, reason, this.settings);
    } finally {
      const ending = new Set(this._state.ending);
      ending.delete(leaseId);
      this.update({ ending });
    }
  }

  private onMessage(message: StreamMessage): void {
    switch (message.type) {
      case 'status':
        this.update({ phase: message.state, message: message.message, hint: message.hint });
        break;
      case 'pool':
        this.onPool(message.pool);
        break;
      case 'kernels':
        this.update({ kernels: new Map(message.kernels.map(k => [k.kernel_id, k])) });
        break;
    }
  }

  /** A change is shown at once; new readings only as often as the person wants to see them. */
  private onPool(pool: IPool): void {
    const shown = this._state.pool;
    this.past.add(Date.now() / 1000, pool);
    window.clearTimeout(this.later);
    const wait = this.received + 1000 * this._state.settings.refreshSeconds - Date.now() - SLACK_MS;
    if (shown && shown.revision === pool.revision && wait > 0) {
      this.later = window.setTimeout(() => this.show(pool), wait);
      return;
    }
    this.show(pool);
    if (!shown) {
      void this.recall();
    } else if (newlyWaiting(shown, pool)) {
      void this.refresh();
    }
  }

  private show(pool: IPool): void {
    const before = this._state.pool;
    const shared: IPool = before
      ? {
          ...pool,
          nodes: reuse(before.nodes, pool.nodes),
          devices: reuseById(before.devices, pool.devices),
          leases: reuseMine(before.leases, pool.leases),
          queue: reuse(before.queue, pool.queue),
          warnings: reuse(before.warnings, pool.warnings)
        }
      : pool;
    const { settings, pieces, news } = this._state;
    this.received = Date.now();
    this.update({
      pool: shared,
      age_seconds: 0,
      pieces: piecesOf(shared, settings.idleSeconds, pieces),
      news: newsOf(before, shared, this.trans) || news
    });
    this.tick();
  }

  /** Fill the charts with what the Jupyter server remembers, and read the rest for the first time. */
  private async recall(): Promise<void> {
    void this.refresh();
    const history = await api.readHistory(this.settings).catch(() => null);
    if (history && Array.isArray(history.leased) && !this.isDisposed) {
      this.past.seed(Date.now() / 1000, history);
      this.update({});
    }
  }

  private onChannel(channel: ChannelState): void {
    const trans = this.trans;
    if (channel.kind !== 'open') {
      this.past.gap(Date.now() / 1000);
    }
    if (channel.kind === 'lost') {
      const message = trans.__('The connection to the Jupyter server is lost.');
      this.update({ phase: 'reconnecting', message, hint: '' });
    } else if (channel.kind === 'stopped') {
      const absent = channel.status === 404;
      this.update({
        phase: 'absent',
        message: absent
          ? trans.__('This Jupyter server has no GPU pool extension.')
          : trans.__('You are signed out, or may not see the GPU pool of this Jupyter server.'),
        hint: absent
          ? trans.__('Install jupyter_gpupool where the server runs, and start the server again.')
          : trans.__('Sign in again and reload this page, or ask whoever runs the server.')
      });
    } else if (channel.kind === 'connecting') {
      this.update({ phase: 'starting', message: '', hint: '' });
    }
  }

  /** Let the elapsed times go on between snapshots, as long as there are any to show. */
  private tick(): void {
    window.clearTimeout(this.clock);
    this.clock = window.setTimeout(() => {
      const pool = this._state.pool;
      if (this.isDisposed || !pool || pool.leases.length === 0) {
        return;
      }
      if (this._state.phase === 'connected' && !document.hidden) {
        if (Date.now() - this.refreshed > REFRESH_MS) {
          void this.refresh();
        }
        this.update({ age_seconds: Math.floor((Date.now() - this.received) / TICK_MS) });
      }
      this.tick();
    }, TICK_MS);
  }

  private update(change: Partial<IPoolState>): void {
    this._state = { ...this._state, ...change };
    this._stateChanged.emit(this._state);
  }

  private readonly settings: ServerConnection.ISettings;
  private readonly trans: TranslationBundle;
  private readonly stream: PoolStream;
  private clock = 0;
  private later = 0;
  private received = 0;
  private refreshed = 0;
  private _state = EMPTY;
  private readonly _stateChanged = new Signal<this, IPoolState>(this);
}

/** Of others' leases only the pieces are shown, which are compared by themselves. */
function reuseMine(before: readonly ILease[], after: readonly ILease[]): readonly ILease[] {
  const old = new Map(before.filter(lease => lease.mine).map(lease => [lease.id, lease]));
  return after.map(lease => (lease.mine ? reuse(old.get(lease.id), lease) : lease));
}

/** True when a request of this person's waits that did not before: then there is an estimate to read. */
function newlyWaiting(before: IPool, after: IPool): boolean {
  const known = new Map(before.queue.map(entry => [entry.lease_id, entry.position]));
  return after.queue.some(entry => entry.mine && known.get(entry.lease_id) !== entry.position);
}

/** Statics of `PoolManager`. */
export namespace PoolManager {
  /** What a manager works with. */
  export interface IOptions {
    /** The server's URLs and token. */
    readonly serverSettings: ServerConnection.ISettings;
    /** Words. */
    readonly trans: TranslationBundle;
    /** The live channel; one to `serverSettings` by default. */
    readonly stream?: PoolStream;
  }
}
