/**
 * Provides the one owner of the pool's state, and tells it what the person chose.
 */
import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { PoolManager } from '../manager';
import { parseSettings } from '../settings';
import { I18N_DOMAIN, IPoolManager } from '../tokens';

/** Provides the one owner of the pool's state. */
export const managerPlugin: JupyterFrontEndPlugin<IPoolManager> = {
  id: 'jupyter-gpupool:manager',
  description: 'Keeps the GPU pool’s state, fed by one live channel.',
  autoStart: true,
  optional: [ITranslator, ISettingRegistry],
  provides: IPoolManager,
  activate: (
    app: JupyterFrontEnd,
    translator: ITranslator | null,
    registry: ISettingRegistry | null
  ): IPoolManager => {
    const manager = new PoolManager({
      serverSettings: app.serviceManager.serverSettings,
      trans: (translator ?? nullTranslator).load(I18N_DOMAIN)
    });
    void follow(manager, registry);
    return manager;
  }
};

/** Settings that cannot be read are no reason to show nothing. */
async function follow(manager: IPoolManager, registry: ISettingRegistry | null): Promise<void> {
  try {
    const settings = await registry?.load(managerPlugin.id);
    const take = (): void => manager.setSettings(parseSettings(settings?.composite ?? {}));
    settings?.changed.connect(take);
    take();
  } catch (error) {
    console.warn('The settings of the GPU pool cannot be read; the defaults hold.', error);
  }
}
