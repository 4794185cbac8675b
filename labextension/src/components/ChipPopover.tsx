/**
 * What opens from a notebook's chip: its lease and the main actions.
 */
import * as React from 'react';

import { share } from '../format';
import { chipOf } from '../chiptext';
import { IPoolState } from '../tokens';
import { ILease } from '../types';
import { LeaseItem } from './LeaseItem';
import { PhaseNotice } from './PhaseNotice';
import { Age, IEnv } from './view';

/** What a notebook without a lease is offered, thousandths. */
const OFFERS = [250, 500, 1000];

/** A notebook's lease and the main actions. */
export function ChipPopover(props: {
  readonly state: IPoolState;
  readonly kernelId: string;
  readonly env: IEnv;
  readonly showPanel: () => void;
  readonly close: () => void;
}): JSX.Element {
  const { state, kernelId, env, showPanel, close } = props;
  const { trans } = env;
  const { lease } = chipOf(state, kernelId, trans);
  return (
    <Age.Provider value={state.age_seconds}>
      <PhaseNotice view={{ ...env, state }} />
      {!lease && <Offers env={env} close={close} />}
      {lease?.state === 'queued' && <Waiting lease={lease} env={env} />}
      {lease && lease.state !== 'queued' && (
        <ul className="jp-GPUPool-leases">
          <LeaseItem lease={lease} isEnding={state.ending.has(lease.id)} env={env} />
        </ul>
      )}
      <button
        type="button"
        className="jp-GPUPool-button jp-GPUPool-showPanel"
        onClick={() => {
          close();
          showPanel();
        }}
      >
        {trans.__('Show the GPU pool')}
      </button>
    </Age.Provider>
  );
}

function Offers(props: { readonly env: IEnv; readonly close: () => void }): JSX.Element {
  const { env, close } = props;
  const { trans, actions } = env;
  return (
    <>
      <p>{trans.__('This notebook has no share of a device. Write a request into it:')}</p>
      <div className="jp-GPUPool-row jp-GPUPool-actions">
        {OFFERS.map(milli => (
          <button
            key={milli}
            type="button"
            className="jp-GPUPool-button"
            onClick={() => {
              close();
              actions.insert(`%gpupool request ${share(milli)}`);
            }}
          >
            {share(milli)}
          </button>
        ))}
      </div>
    </>
  );
}

function Waiting(props: { readonly lease: ILease; readonly env: IEnv }): JSX.Element {
  const { lease, env } = props;
  const { trans, actions } = env;
  return (
    <>
      <p>{lease.reason}</p>
      <div className="jp-GPUPool-row jp-GPUPool-actions">
        <button
          type="button"
          className="jp-GPUPool-button"
          onClick={() => void actions.cancel(lease)}
        >
          {trans.__('Cancel the request for %1', share(lease.compute_milli))}
        </button>
      </div>
    </>
  );
}
