/**
 * Processes that use a device without a lease.
 */
import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { bytes } from '../format';
import { IDevice, IProcess } from '../types';

/** So many are shown without being asked for. */
const FEW = 3;

/** Who uses a device without a lease, and how much of its memory. */
export function Unmanaged(props: {
  readonly device: IDevice;
  readonly trans: TranslationBundle;
}): JSX.Element | null {
  const { device, trans } = props;
  const count = device.unmanaged.length;
  if (count === 0) {
    return null;
  }
  return (
    <details className="jp-GPUPool-inForce" open={count <= FEW}>
      <summary>
        {trans._n('%1 process without a lease', '%1 processes without a lease', count)}
      </summary>
      <ul className="jp-GPUPool-processes">
        {device.unmanaged.map(process => (
          <li key={process.pid}>
            <Process process={process} trans={trans} />
          </li>
        ))}
      </ul>
    </details>
  );
}

function Process(props: {
  readonly process: IProcess;
  readonly trans: TranslationBundle;
}): JSX.Element {
  const { process, trans } = props;
  const why = trans.__('The driver does not say how much memory this process uses.');
  return (
    <div className="jp-GPUPool-facts">
      <span>{process.name || trans.__('a process')}</span>
      <span>{trans.__('pid %1', process.pid)}</span>
      {process.user && <span>{process.user}</span>}
      {process.memory_bytes === null ? (
        <span className="jp-GPUPool-missing" role="img" tabIndex={0} title={why} aria-label={why}>
          —
        </span>
      ) : (
        <span>{bytes(process.memory_bytes)}</span>
      )}
    </div>
  );
}
