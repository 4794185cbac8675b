/**
 * All devices: cards while they are few, a table when they are many.
 */
import * as React from 'react';

import { byNode } from '../select';
import { INode, IPool } from '../types';
import { DeviceList } from './DeviceList';
import { DeviceTable } from './DeviceTable';
import { NodeBadge } from './NodeBadge';
import { Section } from './Section';
import { IEnv, IView } from './view';

/** All devices: cards while they are few, a table when they are many. */
export function Devices(props: {
  readonly pool: IPool;
  readonly view: IView;
  readonly env: IEnv;
}): JSX.Element {
  const { pool, view, env } = props;
  const { trans } = env;
  return (
    <Section id="devices" title={trans.__('Devices')} note={freeNote(pool, env)} env={env}>
      {pool.devices.length === 0 && (
        <p className="jp-GPUPool-muted">
          {trans.__('No device has been reported yet. The agent may still be looking for them.')}
        </p>
      )}
      {pool.devices.length >= env.settings.compactFrom ? (
        <DeviceTable pool={pool} state={view.state} env={env} />
      ) : (
        byNode(pool).map(([node, devices]) => (
          <React.Fragment key={node?.id ?? ''}>
            {pool.nodes.length > 1 && <NodeHeading node={node} env={env} />}
            <DeviceList devices={devices} pieces={view.state.pieces} env={env} />
          </React.Fragment>
        ))
      )}
      {pool.leases.length > 0 && <Legend env={env} />}
    </Section>
  );
}

/** How many devices' worth is free, of those that are offered. */
function freeNote(pool: IPool, env: IEnv): string {
  const offered = pool.devices.filter(device => device.offered);
  const free = offered.reduce((sum, device) => sum + device.free_compute_milli / 1000, 0);
  return offered.length
    ? env.trans.__('%1 of %2 free', String(Number(free.toFixed(2))), offered.length)
    : '';
}

function NodeHeading(props: { readonly node: INode | null; readonly env: IEnv }): JSX.Element {
  const { node, env } = props;
  return (
    <div className="jp-GPUPool-row jp-GPUPool-node">
      <span>{node?.hostname ?? env.trans.__('unknown node')}</span>
      {node && <NodeBadge node={node} env={env} />}
    </div>
  );
}

/** What the tones of the bars mean; the bars say it themselves to who cannot see them. */
function Legend(props: { readonly env: IEnv }): JSX.Element {
  const { trans } = props.env;
  const tones: readonly [string, string][] = [
    ['jp-mod-mine', trans.__('mine')],
    ['jp-mod-other', trans.__('others')],
    ['jp-mod-other jp-mod-idle', trans.__('idle')],
    ['jp-mod-free', trans.__('free')]
  ];
  return (
    <div className="jp-GPUPool-legend" aria-hidden="true">
      {tones.map(([tone, name]) => (
        <span key={tone}>
          <span className={`jp-GPUPool-swatch jp-GPUPool-segment ${tone}`} />
          {name}
        </span>
      ))}
    </div>
  );
}
