/**
 * Who waits, in which place, and why.
 */
import * as React from 'react';

import { bytes, clock, kindName, share } from '../format';
import { IQueueEntry } from '../types';
import { HolderName, MineBadges } from './HolderName';
import { IView } from './view';

/** Who waits, in which place, and why. */
export function QueueList(props: {
  readonly queue: readonly IQueueEntry[];
  readonly view: IView;
}): JSX.Element {
  const { queue, view } = props;
  if (queue.length === 0) {
    return <p className="jp-GPUPool-muted">{view.trans.__('Nobody is waiting.')}</p>;
  }
  return (
    <ol className="jp-GPUPool-queue" aria-label={view.trans.__('Requests that wait')}>
      {queue.map(entry => (
        <QueueItem key={entry.lease_id} entry={entry} view={view} />
      ))}
    </ol>
  );
}

function QueueItem(props: { readonly entry: IQueueEntry; readonly view: IView }): JSX.Element {
  const { entry, view } = props;
  const { trans, state, actions } = view;
  const lease = state.pool?.leases.find(candidate => candidate.id === entry.lease_id);
  const isEnding = state.ending.has(entry.lease_id);
  return (
    <li className={`jp-GPUPool-lease${entry.mine ? ' jp-mod-mine' : ''}`} value={entry.position}>
      <div className="jp-GPUPool-row">
        <span className="jp-GPUPool-position" aria-label={trans.__('Position %1', entry.position)}>
          {entry.position}
        </span>
        {lease ? (
          <HolderName lease={lease} view={view} />
        ) : (
          <span className="jp-GPUPool-name">{trans.__('somebody else')}</span>
        )}
        <span className="jp-GPUPool-grow" />
        {entry.mine && lease && (
          <button
            type="button"
            className="jp-GPUPool-button"
            disabled={isEnding}
            aria-label={trans.__('Cancel the request for %1', share(entry.compute_milli))}
            onClick={() => void actions.cancel(lease)}
          >
            {trans.__('Cancel')}
          </button>
        )}
      </div>
      <div className="jp-GPUPool-facts">
        {lease && <MineBadges lease={lease} view={view} />}
        <span className="jp-GPUPool-share">{share(entry.compute_milli)}</span>
        {entry.memory_bytes !== null && <span>{bytes(entry.memory_bytes)}</span>}
        {entry.kind && <span>{kindName(entry.kind)}</span>}
        <span>{trans.__('waiting for %1', clock(entry.waited_seconds + state.age_seconds))}</span>
      </div>
      <div className="jp-GPUPool-muted">{entry.reason}</div>
    </li>
  );
}
