/**
 * The one owner of state in a browser tab. Rule of this module: every change makes a new state value
 * and is announced once; it touches no DOM but the page's clock and visibility.
 */
import { ServerConnection } from '@jupyterlab/services';
import { TranslationBundle } from '@jupyterlab/translation';
import { ISignal, Signal } from '@lumino/signaling';

import { newsOf } from './news';
import { endLease, probe } from './restapi';
import { ChannelState, PoolStream } from './stream';
import { IPoolManager, IPoolState } from './tokens';
import { StreamMessage } from './types';

/** Views count elapsed times in whole seconds. */
const TICK_MS = 1000;

const EMPTY: IPoolState = {
  phase: 'starting',
  message: '',
  hint: '',
  pool: null,
  age_seconds: 0,
  kernels: new Map(),
  ending: new Set(),
  news: ''
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

  /** Try to reach the pool now; resolves when the server has answered, whatever it said. */
  async retry(): Promise<void> {
    if (this.stream.state.kind !== 'open') {
      this.stream.connect();
    }
    // A call for the pool is what makes the server look for it, and start a dead one again.
    await probe(this.settings);
  }

  /** Close the channel and forget the listeners. */
  dispose(): void {
    if (this.isDisposed) {
      return;
    }
    this.stream.dispose();
    window.clearTimeout(this.clock);
    Signal.clearData(this);
  }

  private async end(leaseId: string, reason: 'released' | 'cancelled'): Promise<void> {
    this.update({ ending: new Set(this._state.ending).add(leaseId) });
    try {
      await endLease(leaseId, reason, this.settings);
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
      case 'pool': {
        const news = newsOf(this._state.pool, message.pool, this.trans) || this._state.news;
        this.received = Date.now();
        this.update({ pool: message.pool, age_seconds: 0, news });
        this.tick();
        break;
      }
      case 'kernels':
        this.update({ kernels: new Map(message.kernels.map(k => [k.kernel_id, k])) });
        break;
    }
  }

  private onChannel(channel: ChannelState): void {
    const trans = this.trans;
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
  private received = 0;
  private _state = EMPTY;
  private readonly _stateChanged = new Signal<this, IPoolState>(this);
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
