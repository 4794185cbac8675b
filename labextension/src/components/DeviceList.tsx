/**
 * The devices of one node: whole devices, and MIG instances under the GPU that they are parts of.
 */
import * as React from 'react';

import { IDevice } from '../types';
import { DeviceCard } from './DeviceCard';
import { IView } from './view';

/** The devices of one node, in their order. */
export function DeviceList(props: {
  readonly devices: readonly IDevice[];
  readonly view: IView;
}): JSX.Element {
  const { devices, view } = props;
  return (
    <>
      {grouped(devices).map(group =>
        group[0].parent_id ? (
          <CutGPU key={group[0].parent_id} instances={group} view={view} />
        ) : (
          <DeviceCard key={group[0].id} device={group[0]} heading="h4" view={view} />
        )
      )}
    </>
  );
}

/** A GPU in MIG mode: itself it cannot be leased, only its instances. */
function CutGPU(props: {
  readonly instances: readonly IDevice[];
  readonly view: IView;
}): JSX.Element {
  const { instances, view } = props;
  const { trans } = view;
  const name = instances[0].name.replace(/-mig\d+$/, '');
  const headingId = `jp-GPUPool-gpu-${instances[0].parent_id}`;
  const free = instances.filter(instance => instance.free_compute_milli > 0 && instance.offered);
  return (
    <section className="jp-GPUPool-gpu" aria-labelledby={headingId} data-gpu={name}>
      <div className="jp-GPUPool-row jp-GPUPool-deviceHead">
        <h4 id={headingId}>{name}</h4>
        <span className="jp-GPUPool-badge">{trans.__('MIG')}</span>
        <span className="jp-GPUPool-muted">
          {trans._n('%1 instance, %2 free', '%1 instances, %2 free', instances.length, free.length)}
        </span>
      </div>
      {instances.map(instance => (
        <DeviceCard key={instance.id} device={instance} heading="h5" view={view} />
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
