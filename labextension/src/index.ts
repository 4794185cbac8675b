/**
 * The plugins of the GPU pool's front end. Rule of this module: it only lists them.
 */
import { managerPlugin } from './plugins/manager';
import { offersPlugin } from './plugins/offers';
import { sidebarPlugin } from './plugins/sidebar';

export { CommandIDs, IPoolManager, IPoolState } from './tokens';
export * from './types';

export default [managerPlugin, offersPlugin, sidebarPlugin];
