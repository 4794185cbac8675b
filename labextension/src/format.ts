/**
 * Numbers as people read them. Rule of this module: pure, and an unknown number never looks like one.
 */
import { TranslationBundle } from '@jupyterlab/translation';

import { DeviceKind, Health, ILease, IIsolation, Resource } from './types';

const GIB = 1024 ** 3;
/** Bytes of one MiB. */
export const MIB = 1024 ** 2;
/** Into how many parts GPUs are cut at most. */
const FINEST = 8;

/** Thousandths as a fraction of one device: 250 is "0.25", 1000 is "1". */
export function share(milli: number): string {
  return String(Number((milli / 1000).toFixed(3)));
}

/** Bytes in the unit that reads best: "5.2 GiB", "320 MiB". */
export function bytes(count: number): string {
  if (count >= GIB) {
    const gib = count / GIB;
    return `${gib >= 100 ? gib.toFixed(0) : trim(gib.toFixed(1))} GiB`;
  }
  return `${Math.round(count / MIB)} MiB`;
}

/** A part of a whole, the unit said once where it is the same: "1.2 of 5.3 GiB". */
export function bytesOf(part: number, whole: number, trans: TranslationBundle): string {
  const [first, second] = [bytes(part), bytes(whole)];
  const unit = second.slice(second.indexOf(' '));
  const shown = first.endsWith(unit) ? first.slice(0, -unit.length) : first;
  return trans.__('%1 of %2', shown, second);
}

/** Seconds as a clock: "0:07", "12:40", "3:05:09". */
export function clock(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  const two = (value: number) => String(value).padStart(2, '0');
  const hours = Math.floor(whole / 3600);
  const minutes = Math.floor((whole % 3600) / 60);
  return hours ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
}

/** Seconds in the unit that reads best: "40 s", "12 min", "3.5 h". */
export function about(seconds: number, trans: TranslationBundle): string {
  if (seconds < 60) {
    return trans.__('%1 s', Math.max(1, Math.round(seconds)));
  }
  if (seconds < 5400) {
    return trans.__('%1 min', Math.round(seconds / 60));
  }
  return trans.__('%1 h', trim((seconds / 3600).toFixed(1)));
}

/** A place in a queue: "1st", "2nd", "3rd", "4th". */
export function ordinal(place: number, trans: TranslationBundle): string {
  const last = place % 100 > 10 && place % 100 < 14 ? 0 : place % 10;
  switch (last) {
    case 1:
      return trans.__('%1st', place);
    case 2:
      return trans.__('%1nd', place);
    case 3:
      return trans.__('%1rd', place);
    default:
      return trans.__('%1th', place);
  }
}

/** A device kind as people write it. */
export function kindName(kind: DeviceKind): string {
  return kind.toUpperCase();
}

/** A resource, to begin a line with. */
export function resourceName(resource: Resource, trans: TranslationBundle): string {
  switch (resource) {
    case 'memory':
      return trans.__('Memory');
    case 'compute':
      return trans.__('Compute');
    case 'host_memory':
      return trans.__('Main memory');
    case 'host_compute':
      return trans.__('Processor');
    case 'processes':
      return trans.__('Processes');
  }
}

/** Thousandths of a GPU as the fraction that they are: GPUs are cut into sevenths, mostly. */
export function partOf(milli: number): string {
  for (let below = 2; below <= FINEST; below++) {
    const above = Math.ceil((milli * below) / 1000);
    if (above < below && Math.floor((1000 * above) / below) === milli) {
      return `${above}/${below}`;
    }
  }
  return share(milli);
}

/** How a device is shared, in words; empty where nobody says. */
export function sharingName(sharing: string, trans: TranslationBundle): string {
  switch (sharing) {
    case 'mig':
      return trans.__('MIG instance');
    case 'mps':
      return trans.__('shared by MPS');
    case 'timeslice':
      return trans.__('time-slicing');
    case 'exclusive':
      return trans.__('one lease at a time');
    default:
      return sharing;
  }
}

/** Where a lease is in its life, for its badge; empty for the normal case. */
export function stateName(lease: ILease, trans: TranslationBundle): string {
  switch (lease.state) {
    case 'queued':
      return trans.__('waiting');
    case 'attaching':
      return trans.__('attaching');
    case 'active':
      return lease.resizing ? trans.__('resizing') : trans.__('active');
    case 'ending':
      return trans.__('ending');
    case 'ended':
      return trans.__('ended');
  }
}

/** Health in a word; empty when there is nothing to say. */
export function healthName(health: Health, trans: TranslationBundle): string {
  switch (health) {
    case 'healthy':
      return '';
    case 'degraded':
      return trans.__('degraded');
    case 'failed':
      return trans.__('failed');
  }
}

/** How well a limit holds, in words. */
export function strengthName(isolation: IIsolation, trans: TranslationBundle): string {
  if (isolation.verified === 'pending') {
    return trans.__('not yet in force');
  }
  switch (isolation.strength) {
    case 'hard':
      return trans.__('hard limit');
    case 'soft':
      return trans.__('soft limit');
    case 'none':
      return trans.__('no limit');
  }
}

/** How well a limit would hold, in a word. */
export function strengthWord(isolation: IIsolation, trans: TranslationBundle): string {
  switch (isolation.strength) {
    case 'hard':
      return trans.__('hard');
    case 'soft':
      return trans.__('soft');
    case 'none':
      return trans.__('no limit');
  }
}

/** By which mechanism, without its strength; empty where nothing limits and nothing explains it. */
export function mechanismName(isolation: IIsolation): string {
  const { mechanism, strength } = isolation;
  return mechanism === 'none' ? '' : mechanism.replace(new RegExp(`^${strength} `), '');
}

/** One limit in one line: "soft limit by MPS", "not yet in force (soft, by MPS)", "no limit". */
export function limitText(
  isolation: IIsolation,
  isPromise: boolean,
  trans: TranslationBundle
): string {
  const how = mechanismName(isolation);
  const known: IIsolation = { ...isolation, verified: 'read-back' };
  if (isolation.strength === 'none') {
    return how ? trans.__('no limit (%1)', how) : trans.__('no limit');
  }
  if (isolation.verified === 'pending' && !isPromise) {
    return trans.__('not yet in force (%1, by %2)', isolation.strength, how);
  }
  return trans.__('%1 by %2', strengthName(known, trans), how);
}

/** How it is known that a limit is in force, in words. */
export function verifiedName(isolation: IIsolation, trans: TranslationBundle): string {
  switch (isolation.verified) {
    case 'pending':
      return trans.__('not looked at yet');
    case 'read-back':
      return trans.__('read back after it was set');
    case 'probed':
      return trans.__('probed: a child that exceeded it was stopped');
  }
}

function trim(decimal: string): string {
  return decimal.replace(/\.0$/, '');
}
