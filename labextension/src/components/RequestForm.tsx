/**
 * A form that makes a request. Rule of this component: it asks for nothing itself; it writes the line that does,
 * so that a notebook that is run again asks for the same.
 */
import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { forecast, IWish, magicOf } from '../fit';
import { kindName } from '../format';
import { DeviceKind, IPool, Priority } from '../types';
import { CopyLine } from './CopyLine';
import { ShareField } from './ShareField';
import { IEnv } from './view';

const GIB = 1024 ** 3;
const START: IWish = {
  compute_milli: 250,
  memory_bytes: null,
  kind: null,
  priority: 'normal',
  wait_seconds: null,
  count: 1
};

/** What can be chosen of how long to wait: seconds; empty for ever. */
const WAITS = ['', '0', '120', '600', '3600'];

/** A form that makes a request. */
export function RequestForm(props: {
  readonly pool: IPool;
  readonly env: IEnv;
  readonly close: () => void;
}): JSX.Element {
  const { pool, env, close } = props;
  const { trans, actions } = env;
  const [wish, setWish] = React.useState(START);
  const change = (part: Partial<IWish>): void => setWish({ ...wish, ...part });
  const code = magicOf(wish);
  const { fits, message } = forecast(wish, pool, trans);
  return (
    <form
      className="jp-GPUPool-form jp-GPUPool-request"
      aria-label={trans.__('Request a share')}
      onSubmit={event => event.preventDefault()}
      onKeyDown={event => event.key === 'Escape' && close()}
    >
      <ShareField
        id="jp-GPUPool-request-share"
        label={trans.__('Share')}
        milli={wish.compute_milli}
        change={compute_milli => change({ compute_milli })}
        focusOn={env.asked}
      />
      <Fields pool={pool} wish={wish} change={change} trans={trans} />
      <p
        className={`jp-GPUPool-forecast jp-mod-${fits ? 'fits' : 'waits'}`}
        role="status"
        aria-live="polite"
      >
        {message}
      </p>
      <CopyLine text={code} trans={trans} />
      <div className="jp-GPUPool-row jp-GPUPool-actions">
        {env.activeName && (
          <button
            type="button"
            className="jp-GPUPool-button jp-mod-main"
            onClick={() => actions.insert(code)}
            title={trans.__('Write this line into a cell of %1', env.activeName)}
          >
            {trans.__('Insert into notebook')}
          </button>
        )}
        <button
          type="button"
          className={`jp-GPUPool-button${env.activeName ? '' : ' jp-mod-main'}`}
          onClick={() => actions.createNotebook(code)}
        >
          {trans.__('New notebook')}
        </button>
        <span className="jp-GPUPool-grow" />
        <button type="button" className="jp-GPUPool-button" onClick={close}>
          {trans.__('Close')}
        </button>
      </div>
    </form>
  );
}

function Fields(props: {
  readonly pool: IPool;
  readonly wish: IWish;
  readonly change: (part: Partial<IWish>) => void;
  readonly trans: TranslationBundle;
}): JSX.Element {
  const { pool, wish, change, trans } = props;
  const kinds = [...new Set(pool.devices.map(device => device.kind))];
  return (
    <div className="jp-GPUPool-fields">
      <label htmlFor="jp-GPUPool-memory">{trans.__('Memory (GiB)')}</label>
      <input
        id="jp-GPUPool-memory"
        type="number"
        min={0.1}
        step="any"
        placeholder={trans.__('as the share')}
        onChange={event => {
          const gib = Number(event.target.value);
          change({ memory_bytes: gib > 0 ? Math.round(gib * GIB) : null });
        }}
      />
      <Choice<DeviceKind | ''>
        id="kind"
        label={trans.__('Kind')}
        value={wish.kind ?? ''}
        choices={[
          ['', trans.__('any')],
          ...kinds.map((it): [DeviceKind, string] => [it, kindName(it)])
        ]}
        change={kind => change({ kind: kind || null })}
      />
      <Choice<Priority>
        id="priority"
        label={trans.__('Priority')}
        value={wish.priority}
        choices={[
          ['low', trans.__('low')],
          ['normal', trans.__('normal')],
          ['high', trans.__('high')]
        ]}
        change={priority => change({ priority })}
      />
      <Choice<string>
        id="wait"
        label={trans.__('Wait')}
        value={wish.wait_seconds === null ? '' : String(wish.wait_seconds)}
        choices={WAITS.map(seconds => [seconds, waitText(seconds, trans)])}
        change={seconds => change({ wait_seconds: seconds === '' ? null : Number(seconds) })}
      />
    </div>
  );
}

function Choice<T extends string>(props: {
  readonly id: string;
  readonly label: string;
  readonly value: T;
  readonly choices: readonly (readonly [T, string])[];
  readonly change: (value: T) => void;
}): JSX.Element {
  const { label, value, choices, change } = props;
  const id = `jp-GPUPool-${props.id}`;
  return (
    <>
      <label htmlFor={id}>{label}</label>
      <select id={id} value={value} onChange={event => change(event.target.value as T)}>
        {choices.map(([choice, name]) => (
          <option key={choice} value={choice}>
            {name}
          </option>
        ))}
      </select>
    </>
  );
}

function waitText(seconds: string, trans: TranslationBundle): string {
  switch (seconds) {
    case '':
      return trans.__('until granted');
    case '0':
      return trans.__('not at all');
    default:
      return Number(seconds) < 3600
        ? trans.__('%1 minutes', Number(seconds) / 60)
        : trans.__('an hour');
  }
}
