/**
 * Puts the pool into the status bar, where the application has one.
 */
import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IStatusBar } from '@jupyterlab/statusbar';
import { Signal } from '@lumino/signaling';

import { PoolStatus } from '../statusbar';
import { CommandIDs, IPoolManager } from '../tokens';
import { IPoolViews } from '../views';

const ID = 'jupyter-gpupool:statusbar';

/** Puts the pool into the status bar, where the application has one. */
export const statusbarPlugin: JupyterFrontEndPlugin<void> = {
  id: ID,
  description: 'Shows the lease of the notebook in front in the status bar.',
  autoStart: true,
  requires: [IPoolManager, IPoolViews],
  optional: [IStatusBar],
  activate: (
    app: JupyterFrontEnd,
    manager: IPoolManager,
    views: IPoolViews,
    bar: IStatusBar | null
  ): void => {
    if (!bar) {
      return;
    }
    const item = new PoolStatus(manager, views, () => void app.commands.execute(CommandIDs.open));
    const activeStateChanged = new Signal<object, void>(item);
    let wasActive = item.isActive;
    manager.stateChanged.connect(() => {
      if (wasActive !== item.isActive) {
        wasActive = item.isActive;
        activeStateChanged.emit();
      }
    });
    bar.registerStatusItem(ID, {
      item,
      align: 'left',
      rank: 20,
      isActive: () => item.isActive,
      activeStateChanged
    });
  }
};
