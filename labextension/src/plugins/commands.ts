/**
 * What can be done with the lease of the notebook in front, as commands.
 */
import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';

import { leasesOfKernel } from '../select';
import { CommandIDs, IPoolManager } from '../tokens';
import { ILease } from '../types';
import { IPoolViews } from '../views';

const NO_ARGUMENTS = { type: 'object', properties: {} } as const;
const CODE_ARGUMENT = {
  type: 'object',
  properties: { code: { type: 'string', description: 'The line to write' } }
} as const;

/** What can be done with the lease of the notebook in front, as commands. */
export const commandsPlugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-gpupool:commands',
  description: 'Commands for the GPU pool’s lease of the notebook in front.',
  autoStart: true,
  requires: [IPoolManager, IPoolViews],
  optional: [ICommandPalette],
  activate: (
    app: JupyterFrontEnd,
    manager: IPoolManager,
    views: IPoolViews,
    palette: ICommandPalette | null
  ): void => {
    const { trans, notebooks, leases, documents } = views;
    const { commands } = app;
    const find = (isWaiting: boolean): ILease | undefined =>
      leasesOfKernel(manager.state.pool, notebooks.activeKernelId).find(
        lease => (lease.state === 'queued') === isWaiting
      );

    commands.addCommand(CommandIDs.release, {
      label: trans.__('Release the notebook’s lease…'),
      caption: trans.__('Give the share of the notebook in front back'),
      describedBy: { args: NO_ARGUMENTS },
      isEnabled: () => Boolean(find(false)),
      execute: () => act(find(false), lease => leases.release(lease))
    });
    commands.addCommand(CommandIDs.cancel, {
      label: trans.__('Cancel the notebook’s request'),
      caption: trans.__('Take the request of the notebook in front out of the queue'),
      describedBy: { args: NO_ARGUMENTS },
      isEnabled: () => Boolean(find(true)),
      execute: () => act(find(true), lease => leases.cancel(lease))
    });
    commands.addCommand(CommandIDs.pin, {
      label: trans.__('Pin the notebook’s lease'),
      caption: trans.__('Have the lease not taken back for somebody else'),
      describedBy: { args: NO_ARGUMENTS },
      isToggleable: true,
      isToggled: () => find(false)?.pinned ?? false,
      isEnabled: () => Boolean(find(false)),
      execute: () => act(find(false), lease => leases.pin(lease, !lease.pinned))
    });
    commands.addCommand(CommandIDs.retry, {
      label: trans.__('Look for the GPU pool now'),
      describedBy: { args: NO_ARGUMENTS },
      execute: () => manager.retry()
    });
    commands.addCommand(CommandIDs.insert, {
      label: trans.__('Write a request into the notebook'),
      describedBy: { args: CODE_ARGUMENT },
      isEnabled: () => Boolean(notebooks.activeName),
      execute: args => documents.insert(codeOf(args))
    });
    commands.addCommand(CommandIDs.createNotebook, {
      label: trans.__('New notebook with a request'),
      describedBy: { args: CODE_ARGUMENT },
      execute: args => documents.create(codeOf(args))
    });
    for (const command of Object.values(CommandIDs)) {
      if (command !== CommandIDs.open && command !== CommandIDs.request) {
        palette?.addItem({ command, category: trans.__('GPU pool') });
      }
    }
    const changed = (): void => commands.notifyCommandChanged(CommandIDs.pin);
    views.changed.connect(changed);
  }
};

async function act(
  lease: ILease | undefined,
  action: (lease: ILease) => Promise<void>
): Promise<void> {
  if (lease) {
    await action(lease);
  }
}

function codeOf(args: { readonly code?: unknown }): string {
  return typeof args.code === 'string' && args.code ? args.code : '%gpupool request 0.25';
}
