/**
 * What every component is given. Rule of this folder: components are pure; they show what they are given
 * and hand clicks to the actions.
 */
import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { IDocument } from '../notebooks';
import { Past } from '../series';
import { IPoolSettings } from '../settings';
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
  /** Ask for another size; resolves to the refusal in words, or to nothing when it is done. */
  resize(lease: ILease, computeMilli: number): Promise<string>;
  /** Have a lease not taken back, or let it be. */
  pin(lease: ILease, pinned: boolean): Promise<void>;
  /** Write code into the notebook in front. */
  insert(code: string): void;
  /** Make a notebook that begins with code. */
  createNotebook(code: string): void;
  /** Note that a part of the panel was opened or closed. */
  toggle(section: string, isOpen: boolean): void;
}

/** Everything that a component may show or do, but for the state: it is the same from tick to tick. */
export interface IEnv {
  /** Kernel id of the notebook in front; empty when there is none. */
  readonly activeKernelId: string;
  /** Name of the notebook in front; empty when there is none. */
  readonly activeName: string;
  /** The document that runs on a kernel. */
  readonly documentOf: (kernelId: string) => IDocument | null;
  /** What clicks do. */
  readonly actions: IPanelActions;
  /** Words. */
  readonly trans: TranslationBundle;
  /** What the person chose. */
  readonly settings: IPoolSettings;
  /** The recent past, for charts. */
  readonly past: Past;
  /** Name of the theme: with another one, charts take other colours. */
  readonly theme: string;
  /** The parts of the panel that are closed. */
  readonly closed: ReadonlySet<string>;
  /** Counts how often somebody asked for the form. */
  readonly asked: number;
}

/** The same with the newest state. */
export interface IView extends IEnv {
  readonly state: IPoolState;
}

/** Whole seconds since the newest snapshot; of its own, so that only what shows times follows it. */
export const Age = React.createContext(0);

/** How often the charts have something new to draw; likewise. */
export const Beat = React.createContext(0);
