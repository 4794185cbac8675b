/**
 * What was saved of this person's kernels.
 */
import * as React from 'react';

import { about, bytes } from '../format';
import { ISnapshot } from '../types';
import { CopyLine } from './CopyLine';
import { Section } from './Section';
import { IEnv } from './view';

/** So many are shown without being asked for. */
const FEW = 5;

/** What was saved of this person's kernels, newest first. */
export function Snapshots(props: {
  readonly snapshots: readonly ISnapshot[];
  readonly env: IEnv;
}): JSX.Element {
  const { snapshots, env } = props;
  const { trans } = env;
  const [isAll, showAll] = React.useState(false);
  const shown = isAll ? snapshots : snapshots.slice(0, FEW);
  return (
    <Section id="snapshots" title={trans.__('Snapshots')} note={String(snapshots.length)} env={env}>
      <ul className="jp-GPUPool-plain">
        {shown.map(snapshot => (
          <Snapshot key={`${snapshot.store} ${snapshot.id}`} snapshot={snapshot} env={env} />
        ))}
      </ul>
      {snapshots.length > FEW && (
        <button type="button" className="jp-GPUPool-button" onClick={() => showAll(!isAll)}>
          {isAll ? trans.__('Show fewer') : trans.__('Show all %1', snapshots.length)}
        </button>
      )}
    </Section>
  );
}

function Snapshot(props: { readonly snapshot: ISnapshot; readonly env: IEnv }): JSX.Element {
  const { snapshot, env } = props;
  const { trans } = env;
  const name = snapshot.name || snapshot.id;
  const ago = Math.max(1, (Date.now() - snapshot.created_ms) / 1000);
  return (
    <li className="jp-GPUPool-item">
      <details className="jp-GPUPool-inForce">
        <summary>
          <span className="jp-GPUPool-name">{name}</span>{' '}
          <span className="jp-GPUPool-muted">
            {[
              trans.__('%1 ago', about(ago, trans)),
              bytes(snapshot.total_bytes),
              snapshot.automatic ? trans.__('automatic') : ''
            ]
              .filter(Boolean)
              .join(' · ')}
          </span>
        </summary>
        <div className="jp-GPUPool-muted">
          {[snapshot.notebook.split('/').pop(), snapshot.note].filter(Boolean).join(' · ')}
        </div>
        <CopyLine text={`%gpupool restore ${name}`} trans={trans} />
      </details>
    </li>
  );
}
