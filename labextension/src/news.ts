/**
 * What changed for this person between two snapshots, in one sentence for the live region. Rule of this
 * module: pure; other people's leases are no news.
 */
import { TranslationBundle } from '@jupyterlab/translation';

import { share } from './format';
import { ILease, IPool } from './types';

/** Describe the changes of this person's leases; empty when there are none. */
export function newsOf(before: IPool | null, after: IPool, trans: TranslationBundle): string {
  if (!before) {
    return '';
  }
  const old = new Map(before.leases.filter(lease => lease.mine).map(lease => [lease.id, lease]));
  const sentences: string[] = [];
  for (const lease of after.leases.filter(candidate => candidate.mine)) {
    sentences.push(changed(old.get(lease.id) ?? null, lease, trans));
    old.delete(lease.id);
  }
  for (const lease of old.values()) {
    sentences.push(gone(lease, trans));
  }
  return sentences.filter(sentence => sentence).join(' ');
}

function changed(before: ILease | null, after: ILease, trans: TranslationBundle): string {
  const size = share(after.compute_milli);
  const where = after.shares.map(part => part.device_name).join(', ');
  if (after.state === 'active' && before?.state !== 'active') {
    return trans.__('%1 of %2 is yours.', size, where);
  }
  if (after.state === 'active' && before && before.compute_milli !== after.compute_milli) {
    return trans.__('Your lease is now %1 of %2.', size, where);
  }
  if (after.state === 'queued' && before?.position !== after.position && after.position !== null) {
    return trans.__('Your request for %1 waits at position %2.', size, after.position);
  }
  if (after.state === 'ended' && before && before.state !== 'ended') {
    return gone(before, trans);
  }
  return after.notices.filter(notice => !before?.notices.includes(notice)).join(' ');
}

function gone(lease: ILease, trans: TranslationBundle): string {
  const size = share(lease.compute_milli);
  if (lease.state === 'queued') {
    return trans.__('Your request for %1 left the queue.', size);
  }
  if (lease.state === 'ended') {
    return '';
  }
  const where = lease.shares.map(part => part.device_name).join(', ');
  return trans.__('Your lease of %1 of %2 ended.', size, where);
}
