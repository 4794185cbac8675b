/**
 * A slider and a number for another size. Rule of this component: the pool decides; what it refuses is said here.
 */
import * as React from 'react';

import { share } from '../format';
import { ILease } from '../types';
import { ShareField } from './ShareField';
import { IEnv } from './view';

/** A slider and a number for another size of a lease. */
export function ResizeForm(props: {
  readonly lease: ILease;
  readonly env: IEnv;
  readonly close: () => void;
}): JSX.Element {
  const { lease, env, close } = props;
  const { trans } = env;
  const [milli, setMilli] = React.useState(lease.compute_milli);
  const [isAsking, setAsking] = React.useState(false);
  const [refusal, setRefusal] = React.useState('');
  const ask = async (event: React.FormEvent): Promise<void> => {
    event.preventDefault();
    if (isAsking) {
      return;
    }
    setAsking(true);
    const answer = await env.actions.resize(lease, milli);
    setAsking(false);
    setRefusal(answer);
    if (!answer) {
      close();
    }
  };
  return (
    <form
      className="jp-GPUPool-form"
      onSubmit={event => void ask(event)}
      onKeyDown={event => {
        if (event.key === 'Escape') {
          event.stopPropagation();
          close();
        }
      }}
    >
      <ShareField
        id={`jp-GPUPool-resize-${lease.id}`}
        label={trans.__('New share')}
        milli={milli}
        change={setMilli}
        focusOn={0}
      />
      <p className="jp-GPUPool-muted">{trans.__('Its memory follows, in the same fraction.')}</p>
      {refusal && (
        <p className="jp-GPUPool-refusal" role="alert">
          {refusal}
        </p>
      )}
      <div className="jp-GPUPool-row jp-GPUPool-actions">
        <button
          type="submit"
          className="jp-GPUPool-button jp-mod-main"
          aria-disabled={isAsking}
          disabled={milli === lease.compute_milli}
        >
          {isAsking ? trans.__('Resizing…') : trans.__('Resize to %1', share(milli))}
        </button>
        <button type="button" className="jp-GPUPool-button" onClick={close}>
          {trans.__('Leave as it is')}
        </button>
      </div>
    </form>
  );
}
