/**
 * The whole panel: state of the pool, this person's leases, the devices, the queue, and what else there is.
 */
import { addIcon } from '@jupyterlab/ui-components';
import * as React from 'react';

import { held } from '../select';
import { Section as SectionId } from '../settings';
import { IPool } from '../types';
import { Devices } from './Devices';
import { History } from './History';
import { Icon } from './Icon';
import { KernelNotice } from './KernelNotice';
import { MyLeases } from './MyLeases';
import { Nodes } from './Nodes';
import { Notice } from './Notice';
import { PhaseNotice, phaseName } from './PhaseNotice';
import { Queue } from './QueueList';
import { RequestForm } from './RequestForm';
import { Snapshots } from './Snapshots';
import { Usage } from './Usage';
import { Age, Beat, IEnv, IView } from './view';

/** The whole panel. */
export function PoolPanel(props: { readonly view: IView; readonly env: IEnv }): JSX.Element {
  const { view, env } = props;
  const { state, trans } = view;
  const pool = state.phase === 'absent' ? null : state.pool;
  const [isAsking, ask] = React.useState(false);
  const opener = React.useRef<HTMLButtonElement>(null);
  const close = (): void => {
    ask(false);
    opener.current?.focus();
  };
  React.useEffect(() => {
    if (env.asked > 0) {
      ask(true);
    }
  }, [env.asked]);
  return (
    <div className="jp-GPUPool-panel">
      <Header
        view={view}
        pool={pool}
        isAsking={isAsking}
        ask={() => ask(!isAsking)}
        opener={opener}
      />
      <div className="jp-GPUPool-srOnly" role="status" aria-live="polite">
        <span>{state.phase === 'connected' ? '' : phaseName(state.phase, trans)}</span>
        <span>{state.news}</span>
      </div>
      <div className="jp-GPUPool-content">
        <PhaseNotice view={view} />
        {pool?.warnings.map(warning => (
          <Notice key={warning} tone="warn" message={warning} />
        ))}
        <KernelNotice view={view} />
        {pool && isAsking && <RequestForm pool={pool} env={env} close={close} />}
        {pool && (
          <Age.Provider value={state.age_seconds}>
            <Beat.Provider value={env.past.pool.version}>
              <div className={state.phase === 'connected' ? '' : 'jp-GPUPool-stale'}>
                <Sections pool={pool} view={view} env={env} />
              </div>
            </Beat.Provider>
          </Age.Provider>
        )}
      </div>
    </div>
  );
}

/** What the person wants to see, and there is something to see in. */
function Sections(props: {
  readonly pool: IPool;
  readonly view: IView;
  readonly env: IEnv;
}): JSX.Element {
  const { pool, view, env } = props;
  const { usage, snapshots } = view.state;
  const wants = (id: SectionId): boolean => env.settings.sections.has(id);
  return (
    <>
      {wants('leases') && <MyLeases pool={pool} view={view} env={env} />}
      {wants('devices') && <Devices pool={pool} view={view} env={env} />}
      {wants('queue') && <Queue pool={pool} view={view} env={env} />}
      {wants('history') && pool.devices.length > 0 && <History env={env} />}
      {wants('usage') && usage && (usage.leases > 0 || usage.quotas.length > 0) && (
        <Usage usage={usage} env={env} />
      )}
      {wants('snapshots') && snapshots.length > 0 && <Snapshots snapshots={snapshots} env={env} />}
      {wants('nodes') && pool.nodes.length > 1 && <Nodes pool={pool} env={env} />}
    </>
  );
}

function Header(props: {
  readonly view: IView;
  readonly pool: IPool | null;
  readonly isAsking: boolean;
  readonly ask: () => void;
  /** The button that opens the form: it has the keyboard again when the form is closed. */
  readonly opener: React.RefObject<HTMLButtonElement>;
}): JSX.Element {
  const { view, pool, isAsking, ask, opener } = props;
  const { state, trans } = view;
  return (
    <div className="jp-GPUPool-header">
      <div className="jp-GPUPool-row">
        <h2>{trans.__('GPU pool')}</h2>
        <span className={`jp-GPUPool-phase jp-mod-${state.phase}`}>
          {phaseName(state.phase, trans)}
        </span>
        <span className="jp-GPUPool-grow" />
        {pool && (
          <button
            ref={opener}
            type="button"
            className="jp-GPUPool-button jp-GPUPool-ask"
            aria-expanded={isAsking}
            aria-label={trans.__('Request a share')}
            title={trans.__('Request a share')}
            onClick={ask}
          >
            <Icon icon={addIcon} />
          </button>
        )}
      </div>
      {pool && (
        <div className="jp-GPUPool-facts">
          <span>{trans._n('%1 device', '%1 devices', pool.devices.length)}</span>
          <span>{trans._n('%1 lease', '%1 leases', held(pool).length)}</span>
          <span>{trans.__('%1 waiting', pool.queue.length)}</span>
        </div>
      )}
    </div>
  );
}
