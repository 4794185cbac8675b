/**
 * What every component is given. Rule of this folder: components are pure; they show what they are given
 * and hand clicks to the actions.
 */
import { TranslationBundle } from '@jupyterlab/translation';

import { IDocument } from '../notebooks';
import { IPoolState } from '../tokens';
import { ILease } from '../types';

/** What a person can do from the panel. */
export interface IPanelActions {
  /** Bring a document to the front. */
  openDocument(path: string): void;
  /** Try to reach the pool now. */
  retry(): Promise<void>;
  /** End a lease, after asking. */
  release(lease: ILease): Promise<void>;
  /** Take a request out of the queue. */
  cancel(lease: ILease): Promise<void>;
}

/** Everything that a component may show or do. */
export interface IView {
  /** The newest state. */
  readonly state: IPoolState;
  /** Kernel id of the notebook in front; empty when there is none. */
  readonly activeKernelId: string;
  /** The document that runs on a kernel. */
  readonly documentOf: (kernelId: string) => IDocument | null;
  /** What clicks do. */
  readonly actions: IPanelActions;
  /** Words. */
  readonly trans: TranslationBundle;
}
