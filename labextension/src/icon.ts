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
