/**
 * Names that plugins agree on. Rule of this module: names and interfaces only.
 */
import { Token } from '@lumino/coreutils';
import { IDisposable } from '@lumino/disposable';
import { ISignal } from '@lumino/signaling';

import { Pieces } from './select';
import { Past } from './series';
import { IPoolSettings } from './settings';
import { IKernelEnvironment, IPool, ISnapshot, IUsage, IWhy } from './types';

/** Domain of the translation catalogues. */
export const I18N_DOMAIN = 'jupyter_gpupool';

/** Commands of this extension. */
export namespace CommandIDs {
  /** Show the sidebar. */
  export const open = 'gpupool:open';
  /** Show the sidebar with the form that asks for a share. */
  export const request = 'gpupool:request';
  /** Write a request into the notebook in front; argument `code`. */
  export const insert = 'gpupool:insert-request';
  /** Make a notebook that begins with a request; argument `code`. */
  export const createNotebook = 'gpupool:new-notebook';
  /** End the lease of the notebook in front, after asking. */
  export const release = 'gpupool:release';
  /** Take the request of the notebook in front out of the queue. */
  export const cancel = 'gpupool:cancel';
  /** Have the lease of the notebook in front not taken back, or let it be. */
  export const pin = 'gpupool:toggle-pin';
  /** Look for the pool now. */
  export const retry = 'gpupool:retry';
}

/** Where the page stands with the pool. */
export type Phase = 'starting' | 'connected' | 'reconnecting' | 'unavailable' | 'absent';

/** Everything that views show; a new value at each change. */
export interface IPoolState {
  /** Where the page stands with the pool. */
  readonly phase: Phase;
  /** One sentence about the phase; may be empty. */
  readonly message: string;
  /** The next step; may be empty. */
  readonly hint: string;
  /** The newest snapshot, also while it cannot be renewed; null before the first. */
  readonly pool: IPool | null;
  /** Whole seconds since that snapshot came, to be added to its elapsed times. */
  readonly age_seconds: number;
  /** Environments of this server's kernels, by kernel id. */
  readonly kernels: ReadonlyMap<string, IKernelEnvironment>;
  /** Leases whose end was asked for and not answered yet. */
  readonly ending: ReadonlySet<string>;
  /** What last changed for this person's leases, for the live region; may be empty. */
  readonly news: string;
  /** Which leases have a piece of which device. */
  readonly pieces: Pieces;
  /** What is known of this person's requests that wait, by lease id. */
  readonly whys: ReadonlyMap<string, IWhy>;
  /** What this person has used; null while it is not known. */
  readonly usage: IUsage | null;
  /** This person's snapshots, newest first. */
  readonly snapshots: readonly ISnapshot[];
  /** What the person chose. */
  readonly settings: IPoolSettings;
}

/** The one owner of state in a browser tab. */
export interface IPoolManager extends IDisposable {
  /** The newest state. */
  readonly state: IPoolState;
  /** Emitted at each change of `state`. */
  readonly stateChanged: ISignal<IPoolManager, IPoolState>;
  /** End a lease. Rejects with an `ApiError` that says why not. */
  release(leaseId: string): Promise<void>;
  /** Take a request out of the queue. Rejects with an `ApiError` that says why not. */
  cancel(leaseId: string): Promise<void>;
  /** Ask for another size. Rejects with an `ApiError` that says why not. */
  resize(leaseId: string, computeMilli: number, memoryBytes: number | null): Promise<void>;
  /** Have a lease not taken back, or let it be. Rejects with an `ApiError` that says why not. */
  pin(leaseId: string, pinned: boolean): Promise<void>;
  /** Read anew what is not told by itself: usage, snapshots and estimates. */
  refresh(): Promise<void>;
  /** The recent past, for charts; the same object for ever, filled as time goes on. */
  readonly past: Past;
  /** Take what the person chose. */
  setSettings(settings: IPoolSettings): void;
  /** Try to reach the pool now; resolves when the server has answered, whatever it said. */
  retry(): Promise<void>;
}

/** Other plugins ask for the state owner by this token. */
export const IPoolManager = new Token<IPoolManager>(
  'jupyter-gpupool:IPoolManager',
  'The one owner of the GPU pool’s state in a browser tab.'
);
