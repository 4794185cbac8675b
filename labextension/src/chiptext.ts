/**
 * A notebook's lease in a few characters. Rule of this module: pure; the longer words say what the short ones mean.
 */
import { TranslationBundle } from '@jupyterlab/translation';

import { bytesOf, ordinal, share, stateName } from './format';
import { leasesOfKernel, memoryPercent } from './select';
import { IPoolState } from './tokens';
import { ILease } from './types';

/** A notebook's lease in a few characters. */
export interface IChip {
  /** How it is marked. */
  readonly tone: 'none' | 'held' | 'waiting' | 'warn' | 'away';
  /** What is shown. */
  readonly text: string;
  /** The same in full. */
  readonly title: string;
  /** What it is about; null when the notebook has nothing. */
  readonly lease: ILease | null;
}

/** Say how a notebook's kernel stands with the pool. */
export function chipOf(state: IPoolState, kernelId: string, trans: TranslationBundle): IChip {
  const lease = leasesOfKernel(state.pool, kernelId)[0] ?? null;
  if (state.phase === 'absent' || state.phase === 'unavailable') {
    return { tone: 'away', text: trans.__('no pool'), title: state.message, lease: null };
  }
  if (!lease) {
    const title = trans.__('This notebook has no share of a device. Click to get one.');
    return { tone: 'none', text: trans.__('no lease'), title, lease };
  }
  if (lease.state === 'queued') {
    const text =
      lease.position === null
        ? trans.__('waiting')
        : trans.__('waiting %1', ordinal(lease.position, trans));
    return { tone: 'waiting', text, title: lease.reason || text, lease };
  }
  return heldChip(lease, state, trans);
}

function heldChip(lease: ILease, state: IPoolState, trans: TranslationBundle): IChip {
  const size =
    lease.count > 1 ? `${lease.count}×${share(lease.compute_milli)}` : share(lease.compute_milli);
  const memory = memoryPercent(lease);
  const percent = lease.utilization_percent ?? memory;
  const isTight = memory !== null && memory >= state.settings.memoryWarnPercent;
  const tail =
    lease.state !== 'active'
      ? stateName(lease, trans)
      : percent === null
        ? ''
        : `${Math.round(percent)} %`;
  const where = lease.shares.map(part => part.device_name).join(', ');
  const sentences = [trans.__('This notebook holds %1 of %2.', size, where)];
  if (lease.utilization_percent !== null) {
    sentences.push(
      trans.__('The device is %1 % busy with it.', Math.round(lease.utilization_percent))
    );
  }
  if (lease.memory_used_bytes !== null && lease.memory_bytes) {
    sentences.push(
      trans.__('Memory used: %1.', bytesOf(lease.memory_used_bytes, lease.memory_bytes, trans))
    );
  }
  return {
    tone: isTight || lease.notices.length || lease.reclaim_seconds !== null ? 'warn' : 'held',
    text: tail ? `${size} · ${tail}` : size,
    title: [...sentences, ...lease.notices].join(' '),
    lease
  };
}
