/**
 * The sidebar's widget. Rule of this module: it joins the state owner, the notebooks and the components; what is
 * shown is decided in `components/`. While nobody can see it, it costs nothing but its first drawing.
 */
import { ReactWidget } from '@jupyterlab/ui-components';
import { Message } from '@lumino/messaging';
import * as React from 'react';

import { IEnv } from './components/view';
import { PoolPanel } from './components/PoolPanel';
import { FocusKeeper } from './focus';
import { poolIcon } from './icon';
import { IPoolManager } from './tokens';
import { IPoolViews } from './views';

/** The sidebar's widget. */
export class PoolSidebar extends ReactWidget {
  /**
   * @param options - What it joins.
   */
  constructor(private readonly options: PoolSidebar.IOptions) {
    super();
    const { manager, views } = options;
    const title = views.trans.__('GPU pool');
    this.id = 'jupyter-gpupool-sidebar';
    this.addClass('jp-GPUPool');
    this.title.icon = poolIcon;
    this.title.caption = title;
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', title);
    this.node.tabIndex = -1;
    this.keeper = new FocusKeeper(this.node);
    manager.stateChanged.connect(this.update, this);
    views.changed.connect(this.renew, this);
    document.addEventListener('visibilitychange', this.onVisibility);
  }

  /** The parts of the panel that are closed. */
  get closed(): readonly string[] {
    return [...this._closed];
  }

  /** Close these parts of the panel, as they were left. */
  setClosed(sections: readonly string[]): void {
    this._closed = new Set(sections);
    this.renew();
  }

  /** Show the form that asks for a share. */
  askForShare(): void {
    this.asked += 1;
    this.renew();
  }

  /** Let everything go. */
  override dispose(): void {
    document.removeEventListener('visibilitychange', this.onVisibility);
    this.keeper.dispose();
    super.dispose();
  }

  /** Show the newest state. */
  protected override render(): JSX.Element {
    const { state } = this.options.manager;
    if (!this.env || this.env.settings !== state.settings) {
      this.env = this.makeEnv();
    }
    return <PoolPanel view={{ ...this.env, state }} env={this.env} />;
  }

  /**
   * A hidden panel is brought up to date when it is shown. Only the first snapshot is drawn at once: it comes
   * before JupyterLab shows the panel, and would wait for all else that JupyterLab does when it has started.
   */
  protected override onUpdateRequest(message: Message): void {
    const isFirst = !this.isDrawn && this.options.manager.state.pool !== null;
    if (document.hidden || !(this.isVisible || isFirst)) {
      return;
    }
    this.isDrawn ||= isFirst;
    super.onUpdateRequest(message);
  }

  /** Show what came while it was hidden. */
  protected override onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this.update();
  }

  /** Take the keyboard when the panel is opened. */
  protected override onActivateRequest(): void {
    this.node.focus();
  }

  private makeEnv(): IEnv {
    const env = this.options.views.env();
    const toggle = (section: string, isOpen: boolean): void => this.toggle(section, isOpen);
    return {
      ...env,
      actions: { ...env.actions, toggle },
      closed: this._closed,
      asked: this.asked
    };
  }

  /** Something other than the state has changed: everything may look different. */
  private renew(): void {
    this.env = null;
    this.update();
  }

  private toggle(section: string, isOpen: boolean): void {
    const closed = new Set(this._closed);
    if (isOpen) {
      closed.delete(section);
    } else {
      closed.add(section);
    }
    this._closed = closed;
    this.renew();
    this.options.closedChanged(this.closed);
  }

  private readonly onVisibility = (): void => {
    this.update();
  };

  private readonly keeper: FocusKeeper;
  private env: IEnv | null = null;
  private asked = 0;
  private isDrawn = false;
  private _closed: ReadonlySet<string> = new Set(['history', 'usage', 'snapshots', 'nodes']);
}

/** Statics of `PoolSidebar`. */
export namespace PoolSidebar {
  /** What a sidebar joins. */
  export interface IOptions {
    /** The state owner. */
    readonly manager: IPoolManager;
    /** What all views share. */
    readonly views: IPoolViews;
    /** Called when a part was opened or closed, with those that are closed. */
    readonly closedChanged: (closed: readonly string[]) => void;
  }
}
