/**
 * Who waits, in which place, why, and for how long still.
 */
import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { about, bytes, kindName, share } from '../format';
import { IPool, IQueueEntry, IWhy } from '../types';
import { Elapsed } from './Elapsed';
import { HolderName, MineBadges } from './HolderName';
import { Section } from './Section';
import { IEnv, IView } from './view';

/** Who waits, in which place, and why. */
export function Queue(props: {
  readonly pool: IPool;
  readonly view: IView;
  readonly env: IEnv;
}): JSX.Element {
  const { pool, view, env } = props;
  const { trans } = env;
  const note = pool.queue.length ? String(pool.queue.length) : '';
  return (
    <Section id="queue" title={trans.__('Queue')} note={note} env={env}>
      {pool.queue.length === 0 ? (
        <p className="jp-GPUPool-muted">{trans.__('Nobody is waiting.')}</p>
      ) : (
        <ol className="jp-GPUPool-queue" aria-label={trans.__('Requests that wait')}>
          {pool.queue.map(entry => (
            <QueueItem key={entry.lease_id} entry={entry} view={view} env={env} />
          ))}
        </ol>
      )}
    </Section>
  );
}

function QueueItem(props: {
  readonly entry: IQueueEntry;
  readonly view: IView;
  readonly env: IEnv;
}): JSX.Element {
  const { entry, view, env } = props;
  const { state } = view;
  const { trans, actions } = env;
  const lease = state.pool?.leases.find(candidate => candidate.id === entry.lease_id);
  return (
    <li className={`jp-GPUPool-lease${entry.mine ? ' jp-mod-mine' : ''}`} value={entry.position}>
      <div className="jp-GPUPool-row">
        <span className="jp-GPUPool-position">
          <span className="jp-GPUPool-srOnly">{trans.__('Position')} </span>
          {entry.position}
        </span>
        {lease ? (
          <HolderName lease={lease} env={env} />
        ) : (
          <span className="jp-GPUPool-name">{trans.__('somebody else')}</span>
        )}
        <span className="jp-GPUPool-grow" />
        {entry.mine && lease && (
          <button
            type="button"
            className="jp-GPUPool-button"
            disabled={state.ending.has(entry.lease_id)}
            aria-label={trans.__('Cancel the request for %1', share(entry.compute_milli))}
            onClick={() => void actions.cancel(lease)}
          >
            {trans.__('Cancel')}
          </button>
        )}
      </div>
      <div className="jp-GPUPool-facts">
        {lease && <MineBadges lease={lease} env={env} />}
        <span className="jp-GPUPool-share">
          {share(entry.compute_milli)}
          {entry.count > 1 && ` ×${entry.count}`}
        </span>
        {entry.memory_bytes !== null && <span>{bytes(entry.memory_bytes)}</span>}
        {entry.kind && <span>{kindName(entry.kind)}</span>}
        {entry.priority !== 'normal' && <span>{priorityText(entry.priority, trans)}</span>}
        <Elapsed seconds={entry.waited_seconds} text={time => trans.__('waiting for %1', time)} />
      </div>
      {entry.reason && <div className="jp-GPUPool-muted">{entry.reason}</div>}
      <Estimate why={state.whys.get(entry.lease_id) ?? null} trans={trans} />
    </li>
  );
}

/** When it is probably granted, and what would be granted now. */
function Estimate(props: {
  readonly why: IWhy | null;
  readonly trans: TranslationBundle;
}): JSX.Element | null {
  const { why, trans } = props;
  if (!why || (!why.estimate && !why.would_fit)) {
    return null;
  }
  const { estimate } = why;
  return (
    <div className="jp-GPUPool-facts">
      {estimate && (
        <span
          title={trans.__(
            'Between %1 and %2, if things go as usual.',
            about(estimate.low_seconds, trans),
            about(estimate.high_seconds, trans)
          )}
        >
          {trans.__('probably in about %1', about(estimate.seconds, trans))}
        </span>
      )}
      {why.would_fit && <span>{trans.__('would fit now: %1', why.would_fit)}</span>}
    </div>
  );
}

function priorityText(priority: IQueueEntry['priority'], trans: TranslationBundle): string {
  return priority === 'high' ? trans.__('high priority') : trans.__('low priority');
}
