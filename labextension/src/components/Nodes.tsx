/**
 * The machines of the pool, where it has several.
 */
import * as React from 'react';

import { share } from '../format';
import { byNode } from '../select';
import { IPool } from '../types';
import { NodeBadge, stateOf } from './NodeBadge';
import { Section } from './Section';
import { IEnv } from './view';

/** The machines of the pool: what each has, and what is free of it. */
export function Nodes(props: { readonly pool: IPool; readonly env: IEnv }): JSX.Element {
  const { pool, env } = props;
  const { trans } = env;
  const devices = new Map(byNode(pool).map(([node, list]) => [node?.id ?? '', list]));
  return (
    <Section id="nodes" title={trans.__('Nodes')} note={String(pool.nodes.length)} env={env}>
      <ul className="jp-GPUPool-plain">
        {pool.nodes.map(node => {
          const own = (devices.get(node.id) ?? []).filter(device => device.offered);
          const free = own.reduce((sum, device) => sum + device.free_compute_milli, 0);
          return (
            <li key={node.id} className="jp-GPUPool-row jp-GPUPool-item">
              <span className="jp-GPUPool-name" title={node.hostname}>
                {node.hostname}
              </span>
              <span className="jp-GPUPool-grow" />
              <span className="jp-GPUPool-muted">
                {stateOf(node) === 'ready' ? (
                  trans.__('%1 of %2 free', share(free), own.length)
                ) : (
                  <NodeBadge node={node} env={env} />
                )}
              </span>
            </li>
          );
        })}
      </ul>
    </Section>
  );
}
