/**
 * What this person holds.
 */
import * as React from 'react';

import { mine } from '../select';
import { IPool } from '../types';
import { CopyLine } from './CopyLine';
import { LeaseItem } from './LeaseItem';
import { Section } from './Section';
import { IEnv, IView } from './view';

/** The line that a person tries first. */
const FIRST_REQUEST = '%gpupool request 0.25';

/** What this person holds, or how to get something. */
export function MyLeases(props: {
  readonly pool: IPool;
  readonly view: IView;
  readonly env: IEnv;
}): JSX.Element {
  const { pool, view, env } = props;
  const { trans } = env;
  const leases = mine(pool);
  return (
    <Section id="leases" title={trans.__('My leases')} note={countNote(leases.length)} env={env}>
      {leases.length > 0 ? (
        <ul className="jp-GPUPool-leases" aria-label={trans.__('My leases')}>
          {leases.map(lease => (
            <LeaseItem
              key={lease.id}
              lease={lease}
              isEnding={view.state.ending.has(lease.id)}
              env={env}
            />
          ))}
        </ul>
      ) : (
        <div className="jp-GPUPool-teach">
          <p>{trans.__('Nothing is leased to you. Take a quarter of a device from a cell:')}</p>
          <CopyLine text={FIRST_REQUEST} trans={trans} />
        </div>
      )}
    </Section>
  );
}

function countNote(count: number): string {
  return count ? String(count) : '';
}
