/**
 * What this person has used this week, and how far their limits are.
 */
import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { bytes, kindName } from '../format';
import { IQuota, IUsage } from '../types';
import { Section } from './Section';
import { SegmentBar } from './SegmentBar';
import { IEnv } from './view';

/** What this person has used this week, and how far their limits are; nothing before anything was used. */
export function Usage(props: { readonly usage: IUsage; readonly env: IEnv }): JSX.Element {
  const { usage, env } = props;
  const { trans } = env;
  return (
    <Section id="usage" title={trans.__('My usage')} env={env}>
      <div className="jp-GPUPool-facts">
        {usage.held.map(held => (
          <span key={held.kind}>
            {trans.__(
              '%1 device-hours on %2 this week',
              hours(held.week_hours),
              kindName(held.kind)
            )}
          </span>
        ))}
        {usage.held.length === 0 && (
          <span>{trans.__('%1 device-hours so far', hours(usage.device_seconds / 3600))}</span>
        )}
      </div>
      {usage.quotas.map(quota => (
        <Quota
          key={`${quota.group} ${quota.what} ${quota.kind ?? ''}`}
          quota={quota}
          trans={trans}
        />
      ))}
    </Section>
  );
}

function Quota(props: { readonly quota: IQuota; readonly trans: TranslationBundle }): JSX.Element {
  const { quota, trans } = props;
  const name = quotaName(quota, trans);
  const text = trans.__('%1 of %2', amount(quota, quota.used), amount(quota, quota.limit));
  const fraction = quota.limit > 0 ? quota.used / quota.limit : 1;
  return (
    <div className="jp-GPUPool-quota">
      <div className="jp-GPUPool-row jp-GPUPool-muted" aria-hidden="true">
        <span>{name}</span>
        <span className="jp-GPUPool-grow" />
        <span>{text}</span>
      </div>
      <SegmentBar
        label={trans.__('%1: %2.', name, text)}
        segments={[{ key: 'used', fraction, tone: 'used', title: text }]}
      />
    </div>
  );
}

function quotaName(quota: IQuota, trans: TranslationBundle): string {
  const kind = quota.kind ? kindName(quota.kind) : '';
  const name = whatName(quota.what, kind, trans);
  return quota.group ? trans.__('%1 (group %2)', name, quota.group) : name;
}

function whatName(what: string, kind: string, trans: TranslationBundle): string {
  switch (what) {
    case 'compute':
      return trans.__('%1 devices at once', kind);
    case 'memory':
      return trans.__('%1 memory at once', kind);
    case 'leases':
      return trans.__('Leases at once');
    case 'hours_per_week':
      return trans.__('%1 device-hours this week', kind);
    case 'cpus':
      return trans.__('Cores at once');
    case 'memory_host':
      return trans.__('Main memory at once');
    default:
      return what;
  }
}

function amount(quota: IQuota, value: number): string {
  return quota.what.startsWith('memory') ? bytes(value) : hours(value);
}

function hours(value: number): string {
  return String(Number(value.toFixed(value < 10 ? 2 : 1)));
}
