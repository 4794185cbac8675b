/**
 * One lease on a device: who holds it, how much, and what is in force.
 */
import * as React from 'react';

import {
  bytes,
  bytesOf,
  clock,
  resourceName,
  share,
  stateName,
  strengthName,
  verifiedName
} from '../format';
import { IIsolation, ILease, IShare } from '../types';
import { HolderName, MineBadges } from './HolderName';
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
        <span className="jp-GPUPool-share">
          {share(part?.compute_milli ?? lease.compute_milli)}
        </span>
        <span>{memoryText(lease, part, view)}</span>
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
      {lease.isolation.length > 0 && <InForce lease={lease} view={view} />}
    </li>
  );
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

/** What is in force, each resource in words; how and since when it is known, on demand. */
function InForce(props: { readonly lease: ILease; readonly view: IView }): JSX.Element {
  const { lease, view } = props;
  const { trans } = view;
  return (
    <details className="jp-GPUPool-inForce">
      <summary>
        {lease.isolation.map(isolation => (
          <span key={isolation.resource} className={`jp-GPUPool-limit jp-mod-${tone(isolation)}`}>
            {trans.__(
              '%1: %2',
              resourceName(isolation.resource, trans),
              strengthName(isolation, trans)
            )}
          </span>
        ))}
      </summary>
      <dl>
        {lease.isolation.map(isolation => (
          <React.Fragment key={isolation.resource}>
            <dt>{resourceName(isolation.resource, trans)}</dt>
            <dd>
              <div>{isolation.limit}</div>
              <div>{isolation.mechanism}</div>
              <div className="jp-GPUPool-muted">{verifiedName(isolation, trans)}</div>
              {isolation.note && <div className="jp-GPUPool-muted">{isolation.note}</div>}
            </dd>
          </React.Fragment>
        ))}
      </dl>
    </details>
  );
}

function tone(isolation: IIsolation): string {
  return isolation.verified === 'pending' ? 'pending' : isolation.strength;
}
