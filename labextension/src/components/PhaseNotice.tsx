/**
 * Where the page stands with the pool, and what to do about it.
 */
import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { Phase } from '../tokens';
import { Notice } from './Notice';
import { IView } from './view';

/** A phase in a word. */
export function phaseName(phase: Phase, trans: TranslationBundle): string {
  switch (phase) {
    case 'starting':
      return trans.__('starting…');
    case 'connected':
      return trans.__('connected');
    case 'reconnecting':
      return trans.__('reconnecting…');
    case 'unavailable':
      return trans.__('unavailable');
    case 'absent':
      return trans.__('not here');
  }
}

/** A sentence for every phase but the normal one. */
export function PhaseNotice(props: { readonly view: IView }): JSX.Element | null {
  const { state, trans } = props.view;
  switch (state.phase) {
    case 'connected':
      return null;
    case 'starting':
      return <Notice tone="info" message={state.message || trans.__('The pool is starting…')} />;
    case 'reconnecting':
      return (
        <Notice
          tone="warn"
          message={state.message || trans.__('The pool does not answer at the moment.')}
          hint={state.hint || trans.__('Reconnecting by itself. Leases are not affected.')}
        />
      );
    case 'unavailable':
    case 'absent':
      return (
        <Notice
          tone="error"
          message={state.message || trans.__('There is no pool to show.')}
          hint={state.hint}
        >
          <RetryButton view={props.view} />
        </Notice>
      );
  }
}

function RetryButton(props: { readonly view: IView }): JSX.Element {
  const { actions, trans } = props.view;
  const [isTrying, setTrying] = React.useState(false);
  const retry = () => {
    setTrying(true);
    void actions.retry().finally(() => setTrying(false));
  };
  return (
    <button type="button" className="jp-GPUPool-button" disabled={isTrying} onClick={retry}>
      {isTrying ? trans.__('Trying…') : trans.__('Retry')}
    </button>
  );
}
