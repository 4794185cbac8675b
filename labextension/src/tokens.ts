/**
 * Names that plugins agree on. Rule of this module: names and interfaces only.
 */
import { Token } from '@lumino/coreutils';
import { IDisposable } from '@lumino/disposable';
import { ISignal } from '@lumino/signaling';

import { IKernelEnvironment, IPool } from './types';

/** Domain of the translation catalogues. */
export const I18N_DOMAIN = 'jupyter_gpupool';

/** Commands of this extension. */
export namespace CommandIDs {
  /** Show the sidebar. */
  export const open = 'gpupool:open';
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
  /** Try to reach the pool now; resolves when the server has answered, whatever it said. */
  retry(): Promise<void>;
}

/** Other plugins ask for the state owner by this token. */
export const IPoolManager = new Token<IPoolManager>(
  'jupyter-gpupool:IPoolManager',
  'The one owner of the GPU pool’s state in a browser tab.'
);
