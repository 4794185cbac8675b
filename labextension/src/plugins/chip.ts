/**
 * Puts a chip into each notebook's toolbar. Where it stands is in the settings, as of every toolbar item.
 */
import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IToolbarWidgetRegistry } from '@jupyterlab/apputils';
import { NotebookPanel } from '@jupyterlab/notebook';
import { Widget } from '@lumino/widgets';

import { PoolChip } from '../chip';
import { CommandIDs, IPoolManager } from '../tokens';
import { IPoolViews } from '../views';

/** Name of the toolbar item in `schema/manager.json`. */
const ITEM = 'gpupool';

/** Puts a chip into each notebook's toolbar. */
export const chipPlugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-gpupool:chip',
  description: 'Shows a notebook’s lease in its toolbar.',
  autoStart: true,
  requires: [IPoolManager, IPoolViews, IToolbarWidgetRegistry],
  activate: (
    app: JupyterFrontEnd,
    manager: IPoolManager,
    views: IPoolViews,
    toolbars: IToolbarWidgetRegistry
  ): void => {
    const showPanel = (): void => void app.commands.execute(CommandIDs.open);
    toolbars.addFactory('Notebook', ITEM, (widget: Widget) =>
      widget instanceof NotebookPanel
        ? new PoolChip({ manager, views, panel: widget, showPanel })
        : new Widget()
    );
  }
};
