/**
 * One lease on a device: who holds it, how much, and what is in force.
 */
import * as React from 'react';

import { bytes, bytesOf, clock, partOf, share, stateName } from '../format';
import { ILease, IShare } from '../types';
import { HolderName, MineBadges } from './HolderName';
import { buysNoCompute, Limits } from './Limits';
import { Notice } from './Notice';
import { IView } from './view';

/** One lease on a device: who holds it, how much, and what is in force. */
export function LeaseItem(props: {
  readonly lease: ILease;
  readonly part: IShare | null;
  readonly view: IView;
}): JSX.Element {
  const { lease, part, view } = props;
  const { trans, state } = view;
  const isEnding = state.ending.has(lease.id) || lease.state === 'ending';
  return (
    <li className={`jp-GPUPool-lease${lease.mine ? ' jp-mod-mine' : ''}`} data-lease={lease.id}>
      <div className="jp-GPUPool-row">
        <HolderName lease={lease} view={view} />
        <span className="jp-GPUPool-grow" />
        {lease.mine && (
          <button
            type="button"
            className="jp-GPUPool-button"
            disabled={isEnding}
            aria-label={trans.__('Release %1', share(lease.compute_milli))}
            onClick={() => void view.actions.release(lease)}
          >
            {isEnding ? trans.__('Ending…') : trans.__('Release')}
          </button>
        )}
      </div>
      <div className="jp-GPUPool-facts">
        <MineBadges lease={lease} view={view} />
        <span className="jp-GPUPool-share">{shareText(lease, part, view)}</span>
        <span>{memoryText(lease, part, view)}</span>
        {lease.utilization_percent !== null && (
          <span>{trans.__('%1 % busy', Math.round(lease.utilization_percent))}</span>
        )}
        <span>{stateName(lease, trans)}</span>
        {lease.state === 'active' && (
          <span title={trans.__('Held for')}>{clock(lease.held_seconds + state.age_seconds)}</span>
        )}
        {lease.expires_seconds !== null && (
          <span>{trans.__('ends in %1', clock(lease.expires_seconds - state.age_seconds))}</span>
        )}
      </div>
      {lease.state !== 'active' && lease.reason && (
        <div className="jp-GPUPool-muted">{lease.reason}</div>
      )}
      {lease.notices.map(notice => (
        <Notice key={notice} tone="warn" message={notice} />
      ))}
      {lease.isolation.length > 0 && (
        <Limits isolation={lease.isolation} isPromise={false} trans={trans} />
      )}
      {lease.kind === 'cuda' && buysNoCompute(lease.isolation) && (
        <div className="jp-GPUPool-muted">
          {trans.__('Time-slicing: the fraction does not buy compute here.')}
        </div>
      )}
    </li>
  );
}

/** How much it is; of what is granted whole, which part of the GPU, and what was asked for. */
function shareText(lease: ILease, part: IShare | null, view: IView): string {
  const { trans } = view;
  if (!part?.whole_only) {
    return share(part?.compute_milli ?? lease.compute_milli);
  }
  const asked = lease.asked_compute_milli;
  const whole =
    part.parent_milli < 1000
      ? trans.__('all (%1 of a GPU)', partOf(part.parent_milli))
      : trans.__('all');
  return asked && asked !== part.parent_milli
    ? trans.__('%1 for the %2 asked for', whole, share(asked))
    : whole;
}

function memoryText(lease: ILease, part: IShare | null, view: IView): string {
  const granted = part?.memory_bytes ?? lease.memory_bytes;
  if (granted === null) {
    return '';
  }
  return lease.memory_used_bytes === null
    ? bytes(granted)
    : view.trans.__('%1 used', bytesOf(lease.memory_used_bytes, granted, view.trans));
}
