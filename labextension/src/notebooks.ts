/**
 * Which notebook a kernel belongs to. Rule of this module: it only looks at what JupyterLab knows
 * already, and asks the server nothing.
 */
import { INotebookTracker } from '@jupyterlab/notebook';
import { Session } from '@jupyterlab/services';
import { PathExt } from '@jupyterlab/coreutils';
import { IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';

/** A document that runs on a kernel. */
export interface IDocument {
  /** What a person calls it. */
  readonly name: string;
  /** Where it can be opened; empty when it is no file. */
  readonly path: string;
}

/** Answers by kernel id, and follows renames and the person's attention. */
export class Notebooks implements IDisposable {
  /**
   * @param sessions - The server's running sessions.
   * @param tracker - The open notebooks; null where the application has none.
   */
  constructor(
    private readonly sessions: Session.IManager,
    private readonly tracker: INotebookTracker | null
  ) {
    sessions.runningChanged.connect(this.emit, this);
    tracker?.currentChanged.connect(this.follow, this);
    this.follow();
  }

  /** Emitted when an answer may have changed. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** True after `dispose`. */
  get isDisposed(): boolean {
    return this._isDisposed;
  }

  /** Kernel id of the notebook in front; empty when there is none. */
  get activeKernelId(): string {
    return this.tracker?.currentWidget?.sessionContext.session?.kernel?.id ?? '';
  }

  /** Name of the notebook in front; empty when there is none. */
  get activeName(): string {
    return PathExt.basename(this.tracker?.currentWidget?.context.path ?? '');
  }

  /** The document that runs on a kernel; null when this server knows none. */
  documentOf(kernelId: string): IDocument | null {
    if (!kernelId) {
      return null;
    }
    for (const session of this.sessions.running()) {
      if (session.kernel?.id === kernelId) {
        const isFile = session.type === 'notebook';
        const name = isFile ? PathExt.basename(session.path) : session.name;
        return { name: name || session.path, path: isFile ? session.path : '' };
      }
    }
    return null;
  }

  /** Stop following. */
  dispose(): void {
    if (!this._isDisposed) {
      this._isDisposed = true;
      Signal.clearData(this);
    }
  }

  /** Follow the kernel of the notebook in front, too: it may be replaced while the notebook stays. */
  private follow(): void {
    const context = this.tracker?.currentWidget?.sessionContext;
    if (context && !this.followed.has(context)) {
      this.followed.add(context);
      context.kernelChanged.connect(this.emit, this);
    }
    this.emit();
  }

  private emit(): void {
    this._changed.emit();
  }

  private readonly followed = new WeakSet<object>();
  private _isDisposed = false;
  private readonly _changed = new Signal<this, void>(this);
}
