/**
 * One of this person's leases: who uses it, how much of it, what is in force, and what can be done with it.
 */
import * as React from 'react';

import { bytes, bytesOf, partOf, share, stateName } from '../format';
import { isIdle, memoryPercent } from '../select';
import { ILease, IPart, IShare } from '../types';
import { Elapsed } from './Elapsed';
import { HolderName, MineBadges } from './HolderName';
import { buysNoCompute, Limits } from './Limits';
import { Notice } from './Notice';
import { ResizeForm } from './ResizeForm';
import { SegmentBar } from './SegmentBar';
import { IEnv } from './view';

interface ILeaseProps {
  readonly lease: ILease;
  readonly isEnding: boolean;
  readonly env: IEnv;
}

/** One of this person's leases. */
export const LeaseItem = React.memo(function LeaseItem(props: ILeaseProps): JSX.Element {
  const { lease, env } = props;
  const { trans } = env;
  const part = lease.shares[0] ?? null;
  return (
    <li className="jp-GPUPool-lease jp-mod-mine" data-lease={lease.id}>
      <div className="jp-GPUPool-row">
        <HolderName lease={lease} env={env} />
        <span className="jp-GPUPool-grow" />
        <span className="jp-GPUPool-share">{shareText(lease, part, env)}</span>
      </div>
      <div className="jp-GPUPool-facts">
        <MineBadges lease={lease} env={env} isAmongMine={true} />
        {lease.parts.length === 0 && <span>{whereText(lease.shares)}</span>}
        <Life lease={lease} env={env} />
      </div>
      {lease.parts.length > 0 && (
        <ul
          className="jp-GPUPool-parts jp-GPUPool-muted"
          aria-label={trans.__('What this lease has on each node')}
        >
          {lease.parts.map(it => (
            <li key={it.node_id}>
              {trans.__('%1: %2, %3', it.hostname, whereText(it.shares), joinedText(it, env))}
            </li>
          ))}
        </ul>
      )}
      <Memory lease={lease} part={part} env={env} />
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
      <Actions {...props} />
    </li>
  );
});

/** Where it is in its life, and for how long still. */
function Life(props: { readonly lease: ILease; readonly env: IEnv }): JSX.Element {
  const { lease, env } = props;
  const { trans } = env;
  return (
    <>
      <span>{stateName(lease, trans)}</span>
      {lease.state === 'active' && (
        <Elapsed
          seconds={lease.held_seconds}
          text={time => trans.__('for %1', time)}
          title={trans.__('Held for')}
        />
      )}
      {lease.utilization_percent !== null && (
        <span>{trans.__('%1 % busy', Math.round(lease.utilization_percent))}</span>
      )}
      {isIdle(lease, env.settings.idleSeconds) && (
        <Elapsed seconds={lease.idle_seconds ?? 0} text={time => trans.__('idle for %1', time)} />
      )}
      {lease.expires_seconds !== null && (
        <Elapsed
          isCountdown={true}
          seconds={lease.expires_seconds}
          text={time => trans.__('ends in %1', time)}
        />
      )}
      {lease.reclaim_seconds !== null && (
        <Elapsed
          isCountdown={true}
          seconds={lease.reclaim_seconds}
          text={time => trans.__('taken back in %1', time)}
        />
      )}
      {lease.pinned && <span>{trans.__('pinned')}</span>}
    </>
  );
}

/** Memory used of granted, as a bar where both are known. */
function Memory(props: {
  readonly lease: ILease;
  readonly part: IShare | null;
  readonly env: IEnv;
}): JSX.Element | null {
  const { lease, part, env } = props;
  const { trans } = env;
  const granted = part?.memory_bytes ?? lease.memory_bytes;
  if (granted === null) {
    return null;
  }
  const used = lease.memory_used_bytes;
  if (used === null) {
    return <div className="jp-GPUPool-muted">{trans.__('%1 of memory', bytes(granted))}</div>;
  }
  const percent = memoryPercent(lease) ?? 0;
  const text = trans.__('%1 used', bytesOf(used, granted * Math.max(1, lease.count), trans));
  const isHigh = percent >= env.settings.memoryWarnPercent;
  return (
    <div className={`jp-GPUPool-quota${isHigh ? ' jp-mod-warn' : ''}`}>
      <div className="jp-GPUPool-row jp-GPUPool-muted" aria-hidden="true">
        <span>{trans.__('Memory')}</span>
        <span className="jp-GPUPool-grow" />
        <span>{text}</span>
      </div>
      <SegmentBar
        label={trans.__('Memory: %1.', text)}
        segments={[{ key: 'used', fraction: percent / 100, tone: 'used', title: text }]}
      />
    </div>
  );
}

/** What can be done with it. */
function Actions(props: ILeaseProps): JSX.Element {
  const { lease, isEnding, env } = props;
  const { trans, actions } = env;
  const [isResizing, setResizing] = React.useState(false);
  const opener = React.useRef<HTMLButtonElement>(null);
  const close = (): void => {
    setResizing(false);
    opener.current?.focus();
  };
  const isOver = isEnding || lease.state === 'ending';
  const size = share(lease.compute_milli);
  const mayResize = !lease.shares.some(part => part.whole_only) && lease.state === 'active';
  return (
    <>
      <div className="jp-GPUPool-row jp-GPUPool-actions">
        {mayResize && (
          <button
            ref={opener}
            type="button"
            className="jp-GPUPool-button"
            disabled={isOver}
            aria-expanded={isResizing}
            onClick={() => setResizing(!isResizing)}
          >
            {trans.__('Resize')}
          </button>
        )}
        <button
          type="button"
          className="jp-GPUPool-button"
          disabled={isOver}
          aria-pressed={lease.pinned}
          title={trans.__(
            'A pinned lease is not taken back for somebody else, as far as the pool allows.'
          )}
          onClick={() => void actions.pin(lease, !lease.pinned)}
        >
          {lease.pinned ? trans.__('Unpin') : trans.__('Pin')}
        </button>
        <span className="jp-GPUPool-grow" />
        <button
          type="button"
          className="jp-GPUPool-button"
          disabled={isOver}
          aria-label={trans.__('Release %1', size)}
          onClick={() => void actions.release(lease)}
        >
          {isOver ? trans.__('Ending…') : trans.__('Release')}
        </button>
      </div>
      {isResizing && mayResize && <ResizeForm lease={lease} env={env} close={close} />}
    </>
  );
}

/** Whether a process uses what a lease has on a node. */
function joinedText(part: IPart, env: Pick<IEnv, 'trans'>): string {
  const { trans } = env;
  if (!part.joined) {
    return trans.__('no process has joined');
  }
  return part.pid === null ? trans.__('in use') : trans.__('process %1', part.pid);
}

/** Which devices these are; many are told by the first two and the last. */
function whereText(shares: readonly IShare[]): string {
  const names = shares.map(part => part.device_name);
  return names.length > 3
    ? `${names.slice(0, 2).join(', ')} … ${names[names.length - 1]}`
    : names.join(', ');
}

/** How much it is; of what is granted whole, which part of the GPU, and what was asked for. */
export function shareText(lease: ILease, part: IShare | null, env: Pick<IEnv, 'trans'>): string {
  const { trans } = env;
  const times = lease.count > 1 ? ` ×${lease.count}` : '';
  if (!part?.whole_only) {
    return share(part?.compute_milli ?? lease.compute_milli) + times;
  }
  const asked = lease.asked_compute_milli;
  const whole =
    part.parent_milli < 1000
      ? trans.__('all (%1 of a GPU)', partOf(part.parent_milli))
      : trans.__('all');
  return asked && asked !== part.parent_milli
    ? trans.__('%1 for the %2 asked for', whole, share(asked)) + times
    : whole + times;
}
