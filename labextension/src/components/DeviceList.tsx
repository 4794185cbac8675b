/**
 * The devices of one node: whole devices, and MIG instances under the GPU that they are parts of.
 */
import * as React from 'react';

import { NO_PIECES, Pieces } from '../select';
import { IDevice } from '../types';
import { DeviceCard } from './DeviceCard';
import { IEnv } from './view';

interface IListProps {
  readonly devices: readonly IDevice[];
  readonly pieces: Pieces;
  readonly env: IEnv;
}

/** The devices of one node, in their order. */
export function DeviceList(props: IListProps): JSX.Element {
  const { devices, pieces, env } = props;
  return (
    <>
      {grouped(devices).map(group =>
        group[0].parent_id ? (
          <CutGPU key={group[0].parent_id} devices={group} pieces={pieces} env={env} />
        ) : (
          <DeviceCard
            key={group[0].id}
            device={group[0]}
            pieces={pieces[group[0].id] ?? NO_PIECES}
            heading="h4"
            env={env}
          />
        )
      )}
    </>
  );
}

/** A GPU in MIG mode: itself it cannot be leased, only its instances. */
function CutGPU(props: IListProps): JSX.Element {
  const { devices, pieces, env } = props;
  const { trans } = env;
  const name = devices[0].name.replace(/-mig\d+$/, '');
  const headingId = `jp-GPUPool-gpu-${devices[0].parent_id}`;
  const free = devices.filter(instance => instance.free_compute_milli > 0 && instance.offered);
  return (
    <section className="jp-GPUPool-gpu" aria-labelledby={headingId} data-gpu={name}>
      <div className="jp-GPUPool-row jp-GPUPool-deviceHead">
        <h4 id={headingId}>{name}</h4>
        <span className="jp-GPUPool-badge">{trans.__('MIG')}</span>
        <span className="jp-GPUPool-muted">
          {trans._n('%1 instance, %2 free', '%1 instances, %2 free', devices.length, free.length)}
        </span>
      </div>
      {devices.map(instance => (
        <DeviceCard
          key={instance.id}
          device={instance}
          pieces={pieces[instance.id] ?? NO_PIECES}
          heading="h5"
          env={env}
        />
      ))}
    </section>
  );
}

/** Put the instances of one GPU together, where the first of them stands. */
function grouped(devices: readonly IDevice[]): IDevice[][] {
  const groups = new Map<string, IDevice[]>();
  for (const device of devices) {
    const key = device.parent_id || device.id;
    const group = groups.get(key);
    if (group) {
      group.push(device);
    } else {
      groups.set(key, [device]);
    }
  }
  return [...groups.values()];
}
