/**
 * The pool's icon: a device cut into shares.
 */
import { LabIcon } from '@jupyterlab/ui-components';

const SVG = `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">
  <g class="jp-icon3" fill="#616161">
    <path d="M7 2h2v3H7zM11 2h2v3h-2zM15 2h2v3h-2zM7 19h2v3H7zM11 19h2v3h-2zM15 19h2v3h-2zM2 7h3v2H2zM2 11h3v2H2zM2 15h3v2H2zM19 7h3v2h-3zM19 11h3v2h-3zM19 15h3v2h-3z"/>
    <path fill-rule="evenodd" d="M7 5h10a2 2 0 0 1 2 2v10a2 2 0 0 1-2 2H7a2 2 0 0 1-2-2V7a2 2 0 0 1 2-2zm6 2v4h4V7zm0 6v4h4v-4z"/>
  </g>
</svg>`;

/** The pool's icon: a device cut into shares. */
export const poolIcon = new LabIcon({ name: 'jupyter-gpupool:pool', svgstr: SVG });

const small = (path: string): string =>
  `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24"><path class="jp-icon3" fill="#616161" d="${path}"/></svg>`;

/** A limit that holds whatever its holder does: a closed lock. */
export const hardIcon = new LabIcon({
  name: 'jupyter-gpupool:hard',
  svgstr: small(
    'M18 9h-1V7A5 5 0 0 0 7 7v2H6a2 2 0 0 0-2 2v9a2 2 0 0 0 2 2h12a2 2 0 0 0 2-2v-9a2 2 0 0 0-2-2zM9 7a3 3 0 0 1 6 0v2H9z'
  )
});

/** A limit that its holder could undo: an open lock. */
export const softIcon = new LabIcon({
  name: 'jupyter-gpupool:soft',
  svgstr: small(
    'M18 9H9V6a3 3 0 0 1 5.8-1l1.9-.7A5 5 0 0 0 7 6v3H6a2 2 0 0 0-2 2v9a2 2 0 0 0 2 2h12a2 2 0 0 0 2-2v-9a2 2 0 0 0-2-2zm0 11H6v-9h12z'
  )
});

/** Nothing limits it: an empty ring, crossed out. */
export const noLimitIcon = new LabIcon({
  name: 'jupyter-gpupool:no-limit',
  svgstr: small(
    'M12 2a10 10 0 1 0 0 20 10 10 0 0 0 0-20zm0 18A8 8 0 0 1 5.7 7.1l11.2 11.2A8 8 0 0 1 12 20zm6.3-3.1L7.1 5.7a8 8 0 0 1 11.2 11.2z'
  )
});

/** A limit that is not in force yet: a clock. */
export const pendingIcon = new LabIcon({
  name: 'jupyter-gpupool:pending',
  svgstr: small(
    'M12 2a10 10 0 1 0 0 20 10 10 0 0 0 0-20zm0 18a8 8 0 1 1 0-16 8 8 0 0 1 0 16zm1-13h-2v6l5 3 1-1.6-4-2.4z'
  )
});
