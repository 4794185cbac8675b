/**
 * The sidebar's widget. Rule of this module: it joins the state owner, the notebooks and the components,
 * and turns clicks into the manager's actions; what is shown is decided in `components/`.
 */
import { Dialog, showDialog, showErrorMessage } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import { Message } from '@lumino/messaging';
import * as React from 'react';

import { IPanelActions } from './components/view';
import { PoolPanel } from './components/PoolPanel';
import { share } from './format';
import { poolIcon } from './icon';
import { Notebooks } from './notebooks';
import { ApiError } from './restapi';
import { IPoolManager } from './tokens';
import { ILease } from './types';

/** The sidebar's widget. */
export class PoolSidebar extends ReactWidget {
  /**
   * @param options - What it joins.
   */
  constructor(private readonly options: PoolSidebar.IOptions) {
    super();
    const { manager, notebooks, trans } = options;
    this.id = 'jupyter-gpupool-sidebar';
    this.addClass('jp-GPUPool');
    this.title.icon = poolIcon;
    this.title.caption = trans.__('GPU pool');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', trans.__('GPU pool'));
    this.node.tabIndex = -1;
    manager.stateChanged.connect(this.update, this);
    notebooks.changed.connect(this.update, this);
    this.actions = {
      openDocument: options.openDocument,
      retry: () => manager.retry(),
      release: lease => this.release(lease),
      cancel: lease => this.attempt(manager.cancel(lease.id), trans.__('Not cancelled'))
    };
  }

  /** Show the newest state. */
  protected override render(): JSX.Element {
    const { manager, notebooks, trans } = this.options;
    return (
      <PoolPanel
        state={manager.state}
        activeKernelId={notebooks.activeKernelId}
        documentOf={kernelId => notebooks.documentOf(kernelId)}
        actions={this.actions}
        trans={trans}
      />
    );
  }

  /** A hidden panel costs nothing: it is brought up to date when it is shown. */
  protected override onUpdateRequest(message: Message): void {
    if (this.isVisible) {
      super.onUpdateRequest(message);
    }
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

  private async release(lease: ILease): Promise<void> {
    const { manager, trans } = this.options;
    const where = lease.shares.map(part => part.device_name).join(', ');
    const answer = await showDialog({
      title: trans.__('Release %1 of %2?', share(lease.compute_milli), where),
      body: trans.__(
        'The kernel keeps running, without its share: its limits are taken away, and others may take the room.'
      ),
      buttons: [
        Dialog.cancelButton({ label: trans.__('Keep') }),
        Dialog.warnButton({ label: trans.__('Release') })
      ]
    });
    if (answer.button.accept) {
      await this.attempt(manager.release(lease.id), trans.__('Not released'));
    }
  }

  private async attempt(action: Promise<void>, title: string): Promise<void> {
    try {
      await action;
    } catch (error) {
      const hint = error instanceof ApiError && error.hint ? ` ${error.hint}` : '';
      const message = error instanceof Error ? error.message : String(error);
      await showErrorMessage(title, `${message}${hint}`);
    }
  }

  private readonly actions: IPanelActions;
}

/** Statics of `PoolSidebar`. */
export namespace PoolSidebar {
  /** What a sidebar joins. */
  export interface IOptions {
    /** The state owner. */
    readonly manager: IPoolManager;
    /** Names of the kernels' notebooks. */
    readonly notebooks: Notebooks;
    /** Bring a document to the front. */
    readonly openDocument: (path: string) => void;
    /** Words. */
    readonly trans: TranslationBundle;
  }
}
