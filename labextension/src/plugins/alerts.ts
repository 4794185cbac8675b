/**
 * Tells through JupyterLab's notifications what a person should know even when they look elsewhere.
 */
import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';

import { Alerts, IAlert } from '../alerts';
import { getLease } from '../restapi';
import { IPoolManager, IPoolState } from '../tokens';
import { ILease, IPool } from '../types';
import { IPoolViews } from '../views';

/** How long what needs no answer stays, milliseconds. */
const STAY_MS = 10_000;

/** Tells through JupyterLab's notifications what a person should know even when they look elsewhere. */
export const alertsPlugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-gpupool:alerts',
  description: 'Notifies about the person’s leases in the GPU pool.',
  autoStart: true,
  requires: [IPoolManager, IPoolViews],
  activate: (app: JupyterFrontEnd, manager: IPoolManager, views: IPoolViews): void => {
    const { trans, notebooks, leases } = views;
    const nameOf = (lease: ILease): string =>
      notebooks.documentOf(lease.holder.kernel_id)?.name ||
      lease.holder.label ||
      trans.__('A process');
    const alerts = new Alerts(trans, nameOf);
    const say = (alert: IAlert): void => {
      const find = (): ILease | undefined =>
        manager.state.pool?.leases.find(lease => lease.id === alert.keep);
      const keep = (): void => {
        const lease = find();
        if (lease) {
          void leases.pin(lease, true);
        }
      };
      Notification.emit(alert.message, alert.tone, {
        autoClose: alert.tone === 'error' || alert.keep ? false : STAY_MS,
        actions: alert.keep
          ? [{ label: trans.__('Keep'), callback: keep, displayType: 'accent' }]
          : []
      });
    };
    let shown: IPool | null = null;
    manager.stateChanged.connect((_, state: IPoolState) => {
      const { pool } = state;
      if (!pool || pool === shown) {
        return;
      }
      const gone = state.settings.alerts.has('ended') ? alerts.gone(shown, pool) : [];
      shown = pool;
      alerts.next(state).forEach(say);
      for (const lease of gone) {
        void getLease(lease.id, app.serviceManager.serverSettings).then(
          ended => {
            const alert = alerts.ended({ ...ended, holder: lease.holder });
            if (alert) {
              say(alert);
            }
          },
          () => undefined // a pool that forgot it cannot say why it ended
        );
      }
    });
  }
};
