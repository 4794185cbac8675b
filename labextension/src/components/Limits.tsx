/**
 * What is in force, or would be: the device's limits in a line each, all of them with mechanism and proof
 * on demand.
 */
import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { limitText, resourceName, strengthWord, verifiedName } from '../format';
import { hardIcon, noLimitIcon, pendingIcon, softIcon } from '../icon';
import { IIsolation, Resource } from '../types';
import { Icon } from './Icon';

/** What a device is about; the node's own resources stand in the details. */
const OF_THE_DEVICE: readonly Resource[] = ['memory', 'compute'];

/** The limits of a lease, or those that a new lease would get. */
export const Limits = React.memo(function Limits(props: {
  readonly isolation: readonly IIsolation[];
  readonly isPromise: boolean;
  readonly trans: TranslationBundle;
}): JSX.Element {
  const { isPromise, trans } = props;
  const isolation = unlike(props.isolation);
  const first = isolation.filter(limit => OF_THE_DEVICE.includes(limit.resource));
  return (
    <details className={`jp-GPUPool-inForce${isPromise ? ' jp-mod-promise' : ''}`}>
      <summary>
        {isPromise && <span>{trans.__('A new lease gets:')}</span>}
        {(first.length ? first : isolation).map((limit, index) => (
          <span
            key={`${limit.resource} ${index}`}
            className={`jp-GPUPool-limit jp-mod-${tone(limit, isPromise)}`}
          >
            <Strength tone={tone(limit, isPromise)} />
            {trans.__(
              '%1: %2',
              resourceName(limit.resource, trans),
              isPromise ? strengthWord(limit, trans) : limitText(limit, isPromise, trans)
            )}
          </span>
        ))}
      </summary>
      <dl>
        {isolation.map((limit, index) => (
          <React.Fragment key={`${limit.resource} ${index}`}>
            <dt>{resourceName(limit.resource, trans)}</dt>
            <dd>
              {limit.strength !== 'none' && <div>{limit.limit}</div>}
              <div>{limitText(limit, isPromise, trans)}</div>
              {limit.strength !== 'none' && (!isPromise || limit.verified === 'probed') && (
                <div className="jp-GPUPool-muted">{verifiedName(limit, trans)}</div>
              )}
              {limit.note && <div className="jp-GPUPool-muted">{limit.note}</div>}
            </dd>
          </React.Fragment>
        ))}
      </dl>
    </details>
  );
});

/** A lease of several devices has a limit on each of them: those that read the same are said once. */
function unlike(isolation: readonly IIsolation[]): readonly IIsolation[] {
  return [...new Map(isolation.map(limit => [JSON.stringify(limit), limit])).values()];
}

/** True where a share is a part of the memory only. */
export function buysNoCompute(isolation: readonly IIsolation[]): boolean {
  return isolation.some(
    limit =>
      limit.resource === 'compute' &&
      limit.strength === 'none' &&
      !limit.mechanism.startsWith('emulated')
  );
}

/** How well a limit holds, as a sign; the words beside it say the same. */
function Strength(props: { readonly tone: Tone }): JSX.Element {
  return <Icon icon={ICONS[props.tone]} className="jp-GPUPool-strength" />;
}

type Tone = 'pending' | IIsolation['strength'];

const ICONS = { pending: pendingIcon, hard: hardIcon, soft: softIcon, none: noLimitIcon };

function tone(limit: IIsolation, isPromise: boolean): Tone {
  return limit.verified === 'pending' && !isPromise ? 'pending' : limit.strength;
}
