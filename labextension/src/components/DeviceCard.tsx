/**
 * One device: what it is, what is free of it, and how busy it is.
 */
import * as React from 'react';

import { bytes, healthName, kindName, partOf, sharingName } from '../format';
import { IPiece } from '../select';
import { IDevice } from '../types';
import { ComputeBar, freeCompute, MemoryBar } from './DeviceBars';
import { buysNoCompute, Limits } from './Limits';
import { Notice } from './Notice';
import { Readings } from './Readings';
import { Sparkline } from './Sparkline';
import { Unmanaged } from './Unmanaged';
import { IEnv } from './view';

/** One device: what it is, what is free of it, and how busy it is. */
export const DeviceCard = React.memo(function DeviceCard(props: {
  readonly device: IDevice;
  readonly pieces: readonly IPiece[];
  readonly heading: 'h4' | 'h5';
  readonly env: IEnv;
}): JSX.Element {
  const { device, pieces, env } = props;
  const { trans } = env;
  const headingId = `jp-GPUPool-device-${device.id}`;
  return (
    <article className="jp-GPUPool-device" aria-labelledby={headingId} data-device={device.name}>
      <div className="jp-GPUPool-row jp-GPUPool-deviceHead">
        <props.heading id={headingId}>{device.name}</props.heading>
        <span className="jp-GPUPool-badge">{kindName(device.kind)}</span>
        {device.emulated && (
          <span
            className="jp-GPUPool-badge"
            title={trans.__('There is no such hardware: the pool only acts as if there were.')}
          >
            {trans.__('emulated')}
          </span>
        )}
        <HealthBadge device={device} env={env} />
      </div>
      <Facts device={device} env={env} />
      <Complaints device={device} env={env} />
      <div className="jp-GPUPool-meters">
        <span aria-hidden="true">{trans.__('Compute')}</span>
        <ComputeBar device={device} pieces={pieces} trans={trans} />
        <span aria-hidden="true">{freeCompute(device, trans)}</span>
        <span aria-hidden="true">{trans.__('Memory')}</span>
        <MemoryBar device={device} pieces={pieces} trans={trans} />
        <span aria-hidden="true">{trans.__('%1 free', bytes(device.free_memory_bytes))}</span>
        <Busy device={device} env={env} />
      </div>
      <Readings device={device} trans={trans} />
      <Unmanaged device={device} trans={trans} />
      {device.isolation.length > 0 && (
        <div className="jp-GPUPool-promise">
          <Limits isolation={device.isolation} isPromise={true} trans={trans} />
          {device.kind === 'cuda' && buysNoCompute(device.isolation) && (
            <div className="jp-GPUPool-muted">
              {trans.__(
                'Time-slicing: a fraction does not buy compute here. All processes get equal parts of the time.'
              )}
            </div>
          )}
        </div>
      )}
    </article>
  );
});

/** What is wrong with a device, in a word; the sentence is its title. */
export function HealthBadge(props: {
  readonly device: IDevice;
  readonly env: IEnv;
}): JSX.Element | null {
  const { device, env } = props;
  if (device.health === 'healthy') {
    return null;
  }
  return (
    <span
      className={`jp-GPUPool-badge jp-mod-${device.health === 'failed' ? 'error' : 'warn'}`}
      title={device.health_reason}
    >
      {healthName(device.health, env.trans)}
    </span>
  );
}

/** What it is, in one line. */
function Facts(props: { readonly device: IDevice; readonly env: IEnv }): JSX.Element {
  const { device, env } = props;
  const { trans } = env;
  const facts = [device.emulated ? device.model.replace(/ \(emulated\)$/, '') : device.model];
  if (device.sharing) {
    facts.push(sharingName(device.sharing, trans));
  }
  if (device.parent_milli < 1000) {
    facts.push(trans.__('%1 of its GPU', partOf(device.parent_milli)));
  }
  if (device.kind === 'cpu') {
    facts.push(trans._n('%1 core', '%1 cores', device.compute_units));
  }
  const text = facts.join(' · ');
  return (
    <div className="jp-GPUPool-muted jp-GPUPool-model" title={text}>
      {text}
    </div>
  );
}

/** Why it is not offered, and what is wrong with it. */
function Complaints(props: { readonly device: IDevice; readonly env: IEnv }): JSX.Element {
  const { device, env } = props;
  const { health, health_reason: reason, offered, withheld } = device;
  const isSaid = !offered && withheld.includes(bare(reason));
  return (
    <>
      {!offered && (
        <Notice
          tone="warn"
          message={sentence(withheld) || env.trans.__('Not offered at the moment.')}
        />
      )}
      {health !== 'healthy' && reason && !isSaid && (
        <Notice tone={health === 'failed' ? 'error' : 'warn'} message={reason} />
      )}
    </>
  );
}

/** How busy it is and was; nothing where that cannot be read. */
function Busy(props: { readonly device: IDevice; readonly env: IEnv }): JSX.Element | null {
  const { device, env } = props;
  const { utilization_percent: busy } = device.readings;
  if (busy === null) {
    return null;
  }
  return (
    <>
      <span aria-hidden="true">{env.trans.__('Busy')}</span>
      <Sparkline device={device} env={env} />
      <span aria-hidden="true">{env.trans.__('%1 %', Math.round(busy))}</span>
    </>
  );
}

/** The same with a full stop; nothing stays nothing. */
function sentence(text: string): string {
  return text && !text.endsWith('.') ? `${text}.` : text;
}

/** A sentence without its full stop, to look for it in another. */
function bare(text: string): string {
  return text.replace(/\.$/, '');
}
