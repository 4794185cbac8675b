/**
 * One device: what it is, what is free of it, and who has the rest.
 */
import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { bytes, bytesOf, healthName, kindName, partOf, share, sharingName } from '../format';
import { IDevice, ILease, IShare } from '../types';
import { LeaseItem } from './LeaseItem';
import { buysNoCompute, Limits } from './Limits';
import { Notice } from './Notice';
import { Readings } from './Readings';
import { ISegment, SegmentBar } from './SegmentBar';
import { Unmanaged } from './Unmanaged';
import { IView } from './view';

interface IHeld {
  readonly lease: ILease;
  readonly part: IShare;
}

/** One device: what it is, what is free of it, and who has the rest. */
export function DeviceCard(props: {
  readonly device: IDevice;
  readonly heading: 'h4' | 'h5';
  readonly view: IView;
}): JSX.Element {
  const { device, view } = props;
  const { trans } = view;
  const held = heldOn(device, view.state.pool?.leases ?? []);
  const headingId = `jp-GPUPool-device-${device.id}`;
  return (
    <article className="jp-GPUPool-device" aria-labelledby={headingId} data-device={device.name}>
      <div className="jp-GPUPool-row jp-GPUPool-deviceHead">
        <props.heading id={headingId}>{device.name}</props.heading>
        <span className="jp-GPUPool-badge">{kindName(device.kind)}</span>
        {device.emulated && (
          <span
            className="jp-GPUPool-badge jp-mod-warn"
            title={trans.__('There is no such hardware: the pool only acts as if there were.')}
          >
            {trans.__('emulated')}
          </span>
        )}
        {device.health !== 'healthy' && (
          <span
            className={`jp-GPUPool-badge jp-mod-${device.health === 'failed' ? 'error' : 'warn'}`}
            title={device.health_reason}
          >
            {healthName(device.health, trans)}
          </span>
        )}
      </div>
      <div className="jp-GPUPool-facts jp-GPUPool-model">
        <span>{device.model}</span>
        {device.sharing && <span>{sharingName(device.sharing, trans)}</span>}
        {device.parent_milli < 1000 && (
          <span>{trans.__('%1 of its GPU', partOf(device.parent_milli))}</span>
        )}
        {device.kind === 'cpu' && (
          <span>{trans._n('%1 core', '%1 cores', device.compute_units)}</span>
        )}
      </div>
      {!device.offered && (
        <Notice
          tone="warn"
          message={sentence(device.withheld) || trans.__('Not offered at the moment.')}
        />
      )}
      {device.health !== 'healthy' &&
        device.health_reason &&
        !(!device.offered && device.withheld.includes(bare(device.health_reason))) && (
          <Notice
            tone={device.health === 'failed' ? 'error' : 'warn'}
            message={device.health_reason}
          />
        )}
      <ComputeBar device={device} held={held} trans={trans} />
      <MemoryBar device={device} held={held} trans={trans} />
      <Readings device={device} trans={trans} />
      <Unmanaged device={device} trans={trans} />
      {held.length > 0 && (
        <ul className="jp-GPUPool-leases" aria-label={trans.__('Leases on %1', device.name)}>
          {held.map(({ lease, part }) => (
            <LeaseItem key={lease.id} lease={lease} part={part} view={view} />
          ))}
        </ul>
      )}
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
}

/** The same with a full stop; nothing stays nothing. */
function sentence(text: string): string {
  return text && !text.endsWith('.') ? `${text}.` : text;
}

/** A sentence without its full stop, to look for it in another. */
function bare(sentence: string): string {
  return sentence.replace(/\.$/, '');
}

function heldOn(device: IDevice, leases: readonly ILease[]): IHeld[] {
  const held: IHeld[] = [];
  for (const lease of leases) {
    const part = lease.shares.find(candidate => candidate.device_id === device.id);
    if (part && lease.state !== 'ended') {
      held.push({ lease, part });
    }
  }
  return held.sort((a, b) => Number(b.lease.mine) - Number(a.lease.mine));
}

function whose(lease: ILease, trans: TranslationBundle): string {
  return lease.mine ? trans.__('mine') : lease.owner || trans.__('somebody else');
}

interface IBarProps {
  readonly device: IDevice;
  readonly held: readonly IHeld[];
  readonly trans: TranslationBundle;
}

function ComputeBar(props: IBarProps): JSX.Element {
  const { device, held, trans } = props;
  const free = device.whole_only
    ? device.free_compute_milli > 0
      ? trans.__('free, as a whole')
      : trans.__('taken')
    : trans.__('%1 of 1 free', share(device.free_compute_milli));
  const segments = held.map(({ lease, part }): ISegment => ({
    key: lease.id,
    fraction: part.compute_milli / 1000,
    tone: lease.mine ? 'mine' : 'other',
    title: `${share(part.compute_milli)}: ${whose(lease, trans)}`
  }));
  return <Bar name={trans.__('Compute')} free={free} segments={segments} trans={trans} />;
}

function MemoryBar(props: IBarProps): JSX.Element {
  const { device, held, trans } = props;
  const total = device.memory_bytes;
  const free = trans.__('%1 free', bytesOf(device.free_memory_bytes, total, trans));
  const segments = held.map(({ lease, part }): ISegment => ({
    key: lease.id,
    fraction: part.memory_bytes / total,
    tone: lease.mine ? 'mine' : 'other',
    title: `${bytes(part.memory_bytes)}: ${whose(lease, trans)}`
  }));
  if (device.unmanaged_bytes) {
    segments.push({
      key: 'unmanaged',
      fraction: device.unmanaged_bytes / total,
      tone: 'unmanaged',
      title: trans.__('%1: used by processes without a lease', bytes(device.unmanaged_bytes))
    });
  }
  return <Bar name={trans.__('Memory')} free={free} segments={segments} trans={trans} />;
}

function Bar(props: {
  readonly name: string;
  readonly free: string;
  readonly segments: readonly ISegment[];
  readonly trans: TranslationBundle;
}): JSX.Element {
  const { name, free, segments, trans } = props;
  const parts = segments.map(segment => segment.title).join('; ');
  const label = parts
    ? trans.__('%1: %2. Taken: %3.', name, free, parts)
    : trans.__('%1: %2.', name, free);
  return (
    <div className="jp-GPUPool-dimension">
      <div className="jp-GPUPool-row" aria-hidden="true">
        <span>{name}</span>
        <span className="jp-GPUPool-grow" />
        <span>{free}</span>
      </div>
      <SegmentBar label={label} segments={segments} />
    </div>
  );
}
