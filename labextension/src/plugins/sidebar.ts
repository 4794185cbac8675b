/**
 * Puts the pool into the left area, and the command that shows it into the palette.
 */
import { ILayoutRestorer, JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { INotebookTracker } from '@jupyterlab/notebook';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { poolIcon } from '../icon';
import { Notebooks } from '../notebooks';
import { PoolSidebar } from '../sidebar';
import { CommandIDs, I18N_DOMAIN, IPoolManager } from '../tokens';

/** Puts the pool into the left area, and the command that shows it into the palette. */
export const sidebarPlugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-gpupool:sidebar',
  description: 'Shows the GPU pool’s devices, leases and queue in the sidebar.',
  autoStart: true,
  requires: [IPoolManager],
  optional: [ITranslator, ILayoutRestorer, ICommandPalette, INotebookTracker],
  activate: (
    app: JupyterFrontEnd,
    manager: IPoolManager,
    translator: ITranslator | null,
    restorer: ILayoutRestorer | null,
    palette: ICommandPalette | null,
    tracker: INotebookTracker | null
  ): void => {
    const trans = (translator ?? nullTranslator).load(I18N_DOMAIN);
    const notebooks = new Notebooks(app.serviceManager.sessions, tracker);
    const openDocument = (path: string): void => {
      void app.commands.execute('docmanager:open', { path });
    };
    const sidebar = new PoolSidebar({ manager, notebooks, openDocument, trans });
    app.shell.add(sidebar, 'left', { rank: 450, type: 'GPU pool' });
    restorer?.add(sidebar, sidebar.id);

    app.commands.addCommand(CommandIDs.open, {
      label: trans.__('Show the GPU pool'),
      caption: trans.__('Devices, leases and queue of the GPU pool'),
      icon: poolIcon,
      execute: () => app.shell.activateById(sidebar.id)
    });
    palette?.addItem({ command: CommandIDs.open, category: trans.__('GPU pool') });
  }
};
