/**
 * Many devices, a line each. Rule of this component: only the lines that are seen exist; all have one height.
 */
import * as React from 'react';

import { byNode, IPiece, NO_PIECES } from '../select';
import { IPoolState } from '../tokens';
import { IDevice, INode, IPool } from '../types';
import { DeviceCard } from './DeviceCard';
import { ComputeBar, MemoryBar } from './DeviceBars';
import { NodeBadge } from './NodeBadge';
import { IEnv } from './view';

/** Height of a line, pixels; the style sheet says the same. */
const ROW_PX = 26;
/** So many lines are seen at once at most. */
const SEEN = 16;
/** So many more exist above and below, so that slow scrolling shows no gaps. */
const SPARE = 4;

/** Longer names are cut, letters. */
const LONGEST = 16;

/** A line: a node's name, or one of its devices. */
type Line =
  | { readonly kind: 'node'; readonly node: INode | null; readonly key: string }
  | { readonly kind: 'device'; readonly device: IDevice; readonly key: string };

/** Many devices, a line each, grouped by node; the chosen one below as a card. */
export function DeviceTable(props: {
  readonly pool: IPool;
  readonly state: IPoolState;
  readonly env: IEnv;
}): JSX.Element {
  const { pool, state, env } = props;
  const { trans } = env;
  const [chosen, choose] = React.useState('');
  const [top, setTop] = React.useState(0);
  const lines = linesOf(pool);
  const first = Math.max(0, Math.floor(top / ROW_PX) - SPARE);
  const seen = lines.slice(first, first + SEEN + 2 * SPARE);
  const card = pool.devices.find(device => device.id === chosen);
  return (
    <>
      <div
        className="jp-GPUPool-table"
        role="table"
        aria-label={trans.__('Devices')}
        aria-rowcount={lines.length + 1}
        style={{ ['--jp-GPUPool-letters' as string]: longestName(pool) }}
      >
        <div className="jp-GPUPool-line jp-mod-head" role="row" aria-rowindex={1}>
          <span role="columnheader">{trans.__('Device')}</span>
          <span role="columnheader">{trans.__('Compute')}</span>
          <span role="columnheader">{trans.__('Memory')}</span>
          <span role="columnheader">{trans.__('Busy')}</span>
        </div>
        <div
          className="jp-GPUPool-lines"
          role="rowgroup"
          tabIndex={0}
          style={{ maxHeight: SEEN * ROW_PX }}
          onScroll={event => setTop(event.currentTarget.scrollTop)}
        >
          <div role="none" style={{ height: first * ROW_PX }} />
          {seen.map((line, index) =>
            line.kind === 'node' ? (
              <NodeLine key={line.key} node={line.node} index={first + index + 2} env={env} />
            ) : (
              <DeviceLine
                key={line.key}
                device={line.device}
                pieces={state.pieces[line.device.id] ?? NO_PIECES}
                index={first + index + 2}
                isChosen={line.device.id === chosen}
                choose={choose}
                env={env}
              />
            )
          )}
          <div
            role="none"
            style={{ height: Math.max(0, lines.length - first - seen.length) * ROW_PX }}
          />
        </div>
      </div>
      <Emulated devices={pool.devices} env={env} />
      {card && (
        <DeviceCard
          device={card}
          pieces={state.pieces[card.id] ?? NO_PIECES}
          heading="h4"
          env={env}
        />
      )}
    </>
  );
}

/** What is only made up is said to be, wherever it is shown. */
function Emulated(props: {
  readonly devices: readonly IDevice[];
  readonly env: IEnv;
}): JSX.Element | null {
  const count = props.devices.filter(device => device.emulated).length;
  return count ? (
    <p className="jp-GPUPool-muted">
      {props.env.trans._n('%1 device is emulated.', '%1 devices are emulated.', count)}
    </p>
  ) : null;
}

const NodeLine = React.memo(function NodeLine(props: {
  readonly node: INode | null;
  readonly index: number;
  readonly env: IEnv;
}): JSX.Element {
  const { node, index, env } = props;
  return (
    <div className="jp-GPUPool-line jp-mod-node" role="row" aria-rowindex={index}>
      <span role="cell" aria-colspan={4} title={node?.hostname}>
        {node?.hostname ?? env.trans.__('unknown node')}
        {node && <NodeBadge node={node} env={env} />}
      </span>
    </div>
  );
});

const DeviceLine = React.memo(function DeviceLine(props: {
  readonly device: IDevice;
  readonly pieces: readonly IPiece[];
  readonly index: number;
  readonly isChosen: boolean;
  readonly choose: (id: string) => void;
  readonly env: IEnv;
}): JSX.Element {
  const { device, pieces, index, isChosen, choose, env } = props;
  const { trans } = env;
  const busy = device.readings.utilization_percent;
  const isWell = device.health === 'healthy' && device.offered;
  const trouble = device.health_reason || device.withheld || trans.__('Not offered at the moment.');
  return (
    <div className="jp-GPUPool-line" role="row" aria-rowindex={index} data-device={device.name}>
      <span role="rowheader">
        <button
          type="button"
          className="jp-GPUPool-link"
          aria-expanded={isChosen}
          title={`${device.name}: ${isWell ? device.model : trouble}`}
          onClick={() => choose(isChosen ? '' : device.id)}
        >
          {device.name}
        </button>
        {!isWell && (
          <span className="jp-GPUPool-trouble" role="img" aria-label={trouble} title={trouble}>
            !
          </span>
        )}
      </span>
      <span role="cell">
        <ComputeBar device={device} pieces={pieces} trans={trans} />
      </span>
      <span role="cell">
        <MemoryBar device={device} pieces={pieces} trans={trans} />
      </span>
      <span role="cell">{busy === null ? '—' : trans.__('%1 %', Math.round(busy))}</span>
    </div>
  );
});

/** Letters of the longest name that is shown in full: instances of a GPU differ in the last one. */
function longestName(pool: IPool): number {
  return Math.min(LONGEST, Math.max(0, ...pool.devices.map(device => device.name.length)));
}

function linesOf(pool: IPool): Line[] {
  const lines: Line[] = [];
  for (const [node, devices] of byNode(pool)) {
    if (pool.nodes.length > 1) {
      lines.push({ kind: 'node', node, key: `node ${devices[0].node_id}` });
    }
    lines.push(...devices.map((device): Line => ({ kind: 'device', device, key: device.id })));
  }
  return lines;
}
