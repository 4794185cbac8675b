/**
 * Puts the pool into the left area, and the commands that show it into the palette.
 */
import { ILayoutRestorer, JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { IStateDB } from '@jupyterlab/statedb';

import { poolIcon } from '../icon';
import { PoolSidebar } from '../sidebar';
import { CommandIDs, IPoolManager } from '../tokens';
import { IPoolViews } from '../views';

const ID = 'jupyter-gpupool:sidebar';
const ARGUMENTS = {
  type: 'object',
  properties: {
    isPalette: { type: 'boolean', description: 'Whether the command palette runs it' }
  }
} as const;
/** When the command palette closes it gives the keyboard to the document in front: this is after that, milliseconds. */
const PALETTE_MS = 100;

/** Puts the pool into the left area, and the commands that show it into the palette. */
export const sidebarPlugin: JupyterFrontEndPlugin<void> = {
  id: ID,
  description: 'Shows the GPU pool’s devices, leases and queue in the sidebar.',
  autoStart: true,
  requires: [IPoolManager, IPoolViews],
  optional: [ILayoutRestorer, ICommandPalette, IStateDB],
  activate: (
    app: JupyterFrontEnd,
    manager: IPoolManager,
    views: IPoolViews,
    restorer: ILayoutRestorer | null,
    palette: ICommandPalette | null,
    stateDB: IStateDB | null
  ): void => {
    const { trans } = views;
    const closedChanged = (closed: readonly string[]): void => {
      void stateDB?.save(ID, { closed: [...closed] });
    };
    const sidebar = new PoolSidebar({ manager, views, closedChanged });
    app.shell.add(sidebar, 'left', { rank: 450, type: 'GPU pool' });
    restorer?.add(sidebar, sidebar.id);
    void restoreClosed(sidebar, stateDB);

    app.commands.addCommand(CommandIDs.open, {
      label: trans.__('Show the GPU pool'),
      caption: trans.__('Devices, leases and queue of the GPU pool'),
      icon: poolIcon,
      describedBy: { args: ARGUMENTS },
      execute: async args => {
        await paletteIsClosed(args);
        app.shell.activateById(sidebar.id);
      }
    });
    app.commands.addCommand(CommandIDs.request, {
      label: trans.__('Request a share of a device…'),
      caption: trans.__('Show the form that says what would fit now, and writes the request'),
      icon: poolIcon,
      describedBy: { args: ARGUMENTS },
      execute: async args => {
        await paletteIsClosed(args);
        app.shell.activateById(sidebar.id);
        sidebar.askForShare();
      }
    });
    for (const command of [CommandIDs.open, CommandIDs.request]) {
      palette?.addItem({ command, category: trans.__('GPU pool'), args: { isPalette: true } });
    }
  }
};

/** Wait, where the command palette runs a command, until it has given the keyboard away. */
async function paletteIsClosed(args: { readonly isPalette?: unknown }): Promise<void> {
  if (args.isPalette) {
    await new Promise(resolve => window.setTimeout(resolve, PALETTE_MS));
  }
}

/** Close the parts of the panel that were closed when it was last seen. */
async function restoreClosed(sidebar: PoolSidebar, stateDB: IStateDB | null): Promise<void> {
  const saved: unknown = await stateDB?.fetch(ID).catch(() => null);
  const closed = (saved as { closed?: unknown } | null | undefined)?.closed;
  if (Array.isArray(closed)) {
    sidebar.setClosed(closed.filter((name): name is string => typeof name === 'string'));
  }
}
