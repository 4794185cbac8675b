/**
 * The plugins of the GPU pool's front end. Rule of this module: it only lists them.
 */
import { alertsPlugin } from './plugins/alerts';
import { chipPlugin } from './plugins/chip';
import { commandsPlugin } from './plugins/commands';
import { managerPlugin } from './plugins/manager';
import { offersPlugin } from './plugins/offers';
import { sidebarPlugin } from './plugins/sidebar';
import { statusbarPlugin } from './plugins/statusbar';
import { viewsPlugin } from './plugins/views';

export { CommandIDs, IPoolManager, IPoolState } from './tokens';
export * from './types';

export default [
  managerPlugin,
  viewsPlugin,
  sidebarPlugin,
  commandsPlugin,
  chipPlugin,
  statusbarPlugin,
  alertsPlugin,
  offersPlugin
];
