/**
 * The one live channel of a browser tab. Rule of this module: it is the only place that opens a
 * WebSocket or waits to open another; it knows nothing of what the messages mean.
 */
import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import { IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';

import { API_PATH, probe } from './restapi';
import { StreamMessage } from './types';

/** First and longest pause before the next try, milliseconds. */
const BACKOFF_MS = { first: 500, longest: 30_000 };

/** Answers after which no later try can help: signed out or not allowed, and no such extension. */
const FINAL_STATUSES = new Set([401, 403, 404]);

/** How the channel stands. */
export type ChannelState =
  | { readonly kind: 'connecting' }
  | { readonly kind: 'open' }
  | { readonly kind: 'lost' }
  | { readonly kind: 'stopped'; readonly status: number };

/** A WebSocket that comes back: with back-off, not while the page is hidden, not after a refusal. */
export class PoolStream implements IDisposable {
  /**
   * @param settings - The server's URLs, token and WebSocket class.
   */
  constructor(private readonly settings: ServerConnection.ISettings) {
    document.addEventListener('visibilitychange', this.onVisibility);
  }

  /** Emitted for each message. */
  get messageReceived(): ISignal<this, StreamMessage> {
    return this._messageReceived;
  }

  /** Emitted when the channel opens, is lost, or stops for good. */
  get stateChanged(): ISignal<this, ChannelState> {
    return this._stateChanged;
  }

  /** How the channel stands now. */
  get state(): ChannelState {
    return this._state;
  }

  /** True after `dispose`. */
  get isDisposed(): boolean {
    return this._isDisposed;
  }

  /** Try now, whatever the back-off says; also after the channel stopped. */
  connect(): void {
    if (this._isDisposed || this.socket) {
      return;
    }
    window.clearTimeout(this.timer);
    if (this._state.kind === 'stopped') {
      this.setState({ kind: 'connecting' });
    }
    const socket = new this.settings.WebSocket(this.url());
    this.socket = socket;
    socket.onopen = () => this.setState({ kind: 'open' });
    socket.onmessage = (event: MessageEvent<string>) => {
      // Only now: a server that accepts and closes at once must meet the back-off, too.
      this.failures = 0;
      const message = JSON.parse(event.data) as StreamMessage;
      this.mark = ('mark' in message && message.mark) || this.mark;
      this._messageReceived.emit(message);
    };
    socket.onclose = () => {
      this.drop();
      void this.closed();
    };
  }

  /** Close for good. */
  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    document.removeEventListener('visibilitychange', this.onVisibility);
    window.clearTimeout(this.timer);
    const socket = this.socket;
    this.drop();
    socket?.close();
    Signal.clearData(this);
  }

  private url(): string {
    const { wsUrl, token, appendToken } = this.settings;
    const query = {
      ...(this.mark ? { after: this.mark } : {}),
      ...(appendToken && token ? { token } : {})
    };
    const url = URLExt.join(wsUrl, API_PATH, 'stream');
    return url + (Object.keys(query).length ? URLExt.objectToQueryString(query) : '');
  }

  /** A browser does not tell why a WebSocket was refused, so ask over HTTP before trying again. */
  private async closed(): Promise<void> {
    if (this.state.kind !== 'open') {
      const status = await probe(this.settings);
      if (this._isDisposed || this.socket) {
        return;
      }
      if (FINAL_STATUSES.has(status)) {
        this.setState({ kind: 'stopped', status });
        return;
      }
    }
    this.setState({ kind: 'lost' });
    this.retryLater();
  }

  private retryLater(): void {
    const pause = Math.min(BACKOFF_MS.first * 2 ** this.failures, BACKOFF_MS.longest);
    this.failures += 1;
    // Spread over half the pause, so that a restarted server is not met by all tabs at once.
    this.timer = window.setTimeout(
      () => {
        if (!document.hidden) {
          this.connect();
        }
      },
      pause * (0.5 + Math.random() / 2)
    );
  }

  private drop(): void {
    if (this.socket) {
      this.socket.onopen = this.socket.onmessage = this.socket.onclose = null;
      this.socket = null;
    }
  }

  private setState(state: ChannelState): void {
    if (state.kind === this._state.kind) {
      return;
    }
    this._state = state;
    this._stateChanged.emit(state);
  }

  private readonly onVisibility = (): void => {
    if (!document.hidden && this._state.kind === 'lost') {
      this.connect();
    }
  };

  private socket: WebSocket | null = null;
  /** Of the newest message: a channel that comes back is told only what is newer. */
  private mark = '';
  private timer = 0;
  private failures = 0;
  private _state: ChannelState = { kind: 'connecting' };
  private _isDisposed = false;
  private readonly _messageReceived = new Signal<this, StreamMessage>(this);
  private readonly _stateChanged = new Signal<this, ChannelState>(this);
}
