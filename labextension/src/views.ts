/**
 * What all views of the pool share. Rule of this module: an interface and a token of our own; the parts are put
 * together in `plugins/views.ts`.
 */
import { TranslationBundle } from '@jupyterlab/translation';
import { Token } from '@lumino/coreutils';
import { ISignal } from '@lumino/signaling';

import { LeaseActions } from './actions';
import { IEnv } from './components/view';
import { Documents } from './documents';
import { Notebooks } from './notebooks';

/** What a view is told beside the state, but for what is its own. */
export type SharedEnv = Omit<IEnv, 'closed' | 'asked'>;

/** What all views of the pool share. */
export interface IPoolViews {
  /** Names of the kernels' notebooks. */
  readonly notebooks: Notebooks;
  /** What can be done with documents. */
  readonly documents: Documents;
  /** What can be done with leases. */
  readonly leases: LeaseActions;
  /** Words. */
  readonly trans: TranslationBundle;
  /** Emitted when `env` would answer something else. */
  readonly changed: ISignal<IPoolViews, void>;
  /** What a view is told beside the state. */
  env(): SharedEnv;
}

/** Our own plugins ask for it by this token. */
export const IPoolViews = new Token<IPoolViews>(
  'jupyter-gpupool:IPoolViews',
  'What all views of the GPU pool share.'
);
