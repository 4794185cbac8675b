/**
 * Provides the one owner of the pool's state.
 */
import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { PoolManager } from '../manager';
import { I18N_DOMAIN, IPoolManager } from '../tokens';

/** Provides the one owner of the pool's state. */
export const managerPlugin: JupyterFrontEndPlugin<IPoolManager> = {
  id: 'jupyter-gpupool:manager',
  description: 'Keeps the GPU pool’s state, fed by one live channel.',
  autoStart: true,
  optional: [ITranslator],
  provides: IPoolManager,
  activate: (app: JupyterFrontEnd, translator: ITranslator | null): IPoolManager =>
    new PoolManager({
      serverSettings: app.serviceManager.serverSettings,
      trans: (translator ?? nullTranslator).load(I18N_DOMAIN)
    })
};
