/**
 * The whole panel: state of the pool, devices with their leases, and the queue.
 */
import * as React from 'react';

import { IDevice, ILease, INode, IPool } from '../types';
import { CopyLine } from './CopyLine';
import { DeviceList } from './DeviceList';
import { KernelNotice } from './KernelNotice';
import { LeaseItem } from './LeaseItem';
import { Notice } from './Notice';
import { PhaseNotice, phaseName } from './PhaseNotice';
import { QueueList } from './QueueList';
import { IView } from './view';

/** The line that a person tries first. */
const FIRST_REQUEST = '%gpupool request 0.25';

/** The whole panel: state of the pool, devices with their leases, and the queue. */
export function PoolPanel(view: IView): JSX.Element {
  const { state, trans } = view;
  const pool = state.phase === 'absent' ? null : state.pool;
  return (
    <div className="jp-GPUPool-panel">
      <Header view={view} />
      <div className="jp-GPUPool-srOnly" role="status" aria-live="polite">
        <span>{state.phase === 'connected' ? '' : phaseName(state.phase, trans)}</span>
        <span>{state.news}</span>
      </div>
      <div className="jp-GPUPool-content">
        <PhaseNotice view={view} />
        {pool?.warnings.map(warning => (
          <Notice key={warning} tone="warn" message={warning} />
        ))}
        <KernelNotice view={view} />
        {pool && (
          <div className={state.phase === 'connected' ? '' : 'jp-GPUPool-stale'}>
            <Devices pool={pool} view={view} />
            <section aria-label={trans.__('Queue')}>
              <h3>{trans.__('Queue')}</h3>
              <QueueList queue={pool.queue} view={view} />
            </section>
          </div>
        )}
      </div>
    </div>
  );
}

function Header(props: { readonly view: IView }): JSX.Element {
  const { state, trans } = props.view;
  const { pool, phase } = state;
  return (
    <div className="jp-GPUPool-header">
      <div className="jp-GPUPool-row">
        <h2>{trans.__('GPU pool')}</h2>
        <span className="jp-GPUPool-grow" />
        <span className={`jp-GPUPool-phase jp-mod-${phase}`}>{phaseName(phase, trans)}</span>
      </div>
      {pool && phase !== 'absent' && (
        <div className="jp-GPUPool-facts">
          <span>{trans._n('%1 device', '%1 devices', pool.devices.length)}</span>
          <span>{trans._n('%1 lease', '%1 leases', held(pool).length)}</span>
          <span>{trans.__('%1 waiting', pool.queue.length)}</span>
        </div>
      )}
    </div>
  );
}

function Devices(props: { readonly pool: IPool; readonly view: IView }): JSX.Element {
  const { pool, view } = props;
  const { trans } = view;
  const stray = strayLeases(pool);
  return (
    <section aria-label={trans.__('Devices')}>
      <h3>{trans.__('Devices')}</h3>
      {pool.devices.length === 0 && (
        <p className="jp-GPUPool-muted">
          {trans.__('No device has been reported yet. The agent may still be looking for them.')}
        </p>
      )}
      {byNode(pool).map(([node, devices]) => (
        <React.Fragment key={node?.id ?? ''}>
          {pool.nodes.length > 1 && <NodeHeading node={node} view={view} />}
          <DeviceList devices={devices} view={view} />
        </React.Fragment>
      ))}
      {stray.length > 0 && (
        <ul className="jp-GPUPool-leases" aria-label={trans.__('Leases whose node is away')}>
          {stray.map(lease => (
            <LeaseItem key={lease.id} lease={lease} part={null} view={view} />
          ))}
        </ul>
      )}
      {held(pool).length === 0 && (
        <div className="jp-GPUPool-teach">
          <p>{trans.__('Nothing is leased. Take a quarter of a device from a cell:')}</p>
          <CopyLine text={FIRST_REQUEST} trans={trans} />
        </div>
      )}
    </section>
  );
}

function NodeHeading(props: { readonly node: INode | null; readonly view: IView }): JSX.Element {
  const { node, view } = props;
  return (
    <div className="jp-GPUPool-row jp-GPUPool-node">
      <span>{node?.hostname ?? view.trans.__('unknown node')}</span>
      {node && !node.connected && (
        <span className="jp-GPUPool-badge jp-mod-warn">{view.trans.__('away')}</span>
      )}
    </div>
  );
}

function held(pool: IPool): ILease[] {
  return pool.leases.filter(lease => lease.shares.length > 0 && lease.state !== 'ended');
}

function strayLeases(pool: IPool): ILease[] {
  const known = new Set(pool.devices.map(device => device.id));
  return held(pool).filter(lease => !lease.shares.some(part => known.has(part.device_id)));
}

function byNode(pool: IPool): [INode | null, IDevice[]][] {
  const nodes = new Map(pool.nodes.map(node => [node.id, node]));
  const groups = new Map<string, IDevice[]>();
  for (const device of pool.devices) {
    const group = groups.get(device.node_id);
    if (group) {
      group.push(device);
    } else {
      groups.set(device.node_id, [device]);
    }
  }
  return [...groups].map(([nodeId, devices]) => [nodes.get(nodeId) ?? null, devices]);
}
