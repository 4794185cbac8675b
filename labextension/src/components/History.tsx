/**
 * The pool over hours: two charts with one cursor. Rule of this component: whatever the pointer can do (choose a
 * part, go back, stop) the keyboard can do, too.
 */
import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';
import type uPlot from 'uplot';

import { Curves } from '../series';
import { Chart, Colour } from './Chart';
import { Section } from './Section';
import { IEnv } from './view';

/** A part of the past: its begin and its end. */
type Cut = readonly [number, number];

/** The ranges that can be chosen, seconds. */
const RANGES = [600, 3600, 8 * 3600] as const;
/** The shortest part that keys choose, seconds. */
const SHORTEST = 15;
/** Both charts follow one cursor by this name. */
const SYNC = 'jp-GPUPool';
/** Places of the curves in `series.PAST_CURVES`. */
const PERCENT = [0, 1, 2] as const;
const WAITING = [3] as const;

/** The pool over hours. */
export function History(props: { readonly env: IEnv }): JSX.Element {
  const { env } = props;
  const { trans } = env;
  const [range, setRange] = React.useState<number>(RANGES[0]);
  const [isPaused, pause] = React.useState(false);
  const [cut, setCut] = React.useState<Cut | null>(null);
  const curves = env.past.pool;
  const look = [env.theme, range, cut?.join('-') ?? ''].join(' ');
  const zoom = (plot: uPlot): void => {
    const { left, width } = plot.select;
    if (width > 4) {
      setCut([plot.posToVal(left, 'x'), plot.posToVal(left + width, 'x')]);
    }
  };
  const scope: IScope = { range, cut, zoom };
  const onKey = (event: React.KeyboardEvent): void => {
    const [times] = curves.data;
    const newest = times[times.length - 1];
    const next = newest === undefined ? undefined : cutByKey(event.key, cut, newest, range);
    if (next !== undefined) {
      event.preventDefault();
      setCut(next);
    }
  };
  return (
    <Section id="history" title={trans.__('History')} env={env}>
      <div
        className="jp-GPUPool-row jp-GPUPool-actions"
        role="group"
        aria-label={trans.__('Range')}
      >
        {RANGES.map(seconds => (
          <button
            key={seconds}
            type="button"
            className="jp-GPUPool-button"
            aria-pressed={seconds === range && !cut}
            onClick={() => {
              setRange(seconds);
              setCut(null);
            }}
          >
            {rangeName(seconds, trans)}
          </button>
        ))}
        <span className="jp-GPUPool-grow" />
        <button
          type="button"
          className="jp-GPUPool-button"
          aria-pressed={isPaused}
          onClick={() => pause(!isPaused)}
        >
          {isPaused ? trans.__('Go on') : trans.__('Pause')}
        </button>
      </div>
      <Key curves={curves} trans={trans} />
      <div
        className="jp-GPUPool-charts"
        role="group"
        aria-label={trans.__('Charts')}
        aria-describedby="jp-GPUPool-historyHint"
        tabIndex={0}
        onKeyDown={onKey}
      >
        <Chart
          curves={curves}
          only={PERCENT}
          height={110}
          label={summaryText(curves, range, trans)}
          look={look}
          isPaused={isPaused}
          options={colour => percentOptions(colour, scope)}
        />
        <Chart
          curves={curves}
          only={WAITING}
          height={64}
          label={trans.__('Requests that waited over the same time')}
          look={look}
          isPaused={isPaused}
          options={colour => waitingOptions(colour, scope)}
        />
      </div>
      <p className="jp-GPUPool-muted" id="jp-GPUPool-historyHint">
        {cut
          ? trans.__('A part is shown: choose a range to go back, or press Escape.')
          : trans.__('Drag over a chart to see a part of it, or press + − ← →.')}
      </p>
    </Section>
  );
}

/**
 * The part that is shown after a key: + and − halve and double it, the arrows go a quarter of it to a side, Escape
 * goes back to the range. Nothing for any other key.
 */
export function cutByKey(
  key: string,
  cut: Cut | null,
  newest: number,
  range: number
): Cut | null | undefined {
  const [from, to] = cut ?? [newest - range, newest];
  const width = to - from;
  switch (key) {
    case '+':
    case '=':
      return width > 2 * SHORTEST ? [from + width / 4, to - width / 4] : [from, to];
    case '-':
      return 2 * width < range ? within(from - width / 2, 2 * width, newest, range) : null;
    case 'ArrowLeft':
      return cut && within(from - width / 4, width, newest, range);
    case 'ArrowRight':
      return cut && within(from + width / 4, width, newest, range);
    case 'Escape':
      return cut ? null : undefined;
    default:
      return undefined;
  }
}

function within(from: number, width: number, newest: number, range: number): Cut {
  const first = Math.max(newest - range, Math.min(from, newest - width));
  return [first, first + width];
}

interface IScope {
  readonly range: number;
  readonly cut: Cut | null;
  readonly zoom: (plot: uPlot) => void;
}

/** What the lines mean, with the newest values. */
function Key(props: { readonly curves: Curves; readonly trans: TranslationBundle }): JSX.Element {
  const { curves, trans } = props;
  const names = [
    trans.__('leased'),
    trans.__('busy'),
    trans.__('memory in use'),
    trans.__('waiting')
  ];
  const tones = ['jp-mod-leased', 'jp-mod-busy', 'jp-mod-memory', 'jp-mod-waiting'];
  const [, ...values] = curves.data;
  return (
    <div className="jp-GPUPool-legend">
      {names.map((name, place) => (
        <span key={name}>
          <span className={`jp-GPUPool-line-swatch ${tones[place]}`} />
          {name} {latest(values[place], place < 3)}
        </span>
      ))}
    </div>
  );
}

function latest(values: readonly (number | null)[], isPercent: boolean): string {
  const value = values[values.length - 1] ?? null;
  return value === null ? '—' : `${Math.round(value)}${isPercent ? ' %' : ''}`;
}

function rangeName(seconds: number, trans: TranslationBundle): string {
  return seconds < 3600 ? trans.__('%1 min', seconds / 60) : trans.__('%1 h', seconds / 3600);
}

/** The chart in words. */
export function summaryText(curves: Curves, range: number, trans: TranslationBundle): string {
  const [times, leased, busy] = curves.data;
  const newest = times[times.length - 1] ?? 0;
  const inRange = (values: readonly (number | null)[]): number[] =>
    values.filter(
      (value, index): value is number => value !== null && times[index] >= newest - range
    );
  const [part, work] = [inRange(leased), inRange(busy)];
  if (!part.length) {
    return trans.__('Nothing is known of the pool’s past yet.');
  }
  const first = trans.__(
    'Over the last %1: between %2 % and %3 % of the pool was leased, now %4 %.',
    rangeName(range, trans),
    Math.round(Math.min(...part)),
    Math.round(Math.max(...part)),
    Math.round(part[part.length - 1])
  );
  return work.length
    ? `${first} ${trans.__('It was busy to %1 % at most.', Math.round(Math.max(...work)))}`
    : first;
}

function percentOptions(colour: Colour, scope: IScope): Omit<uPlot.Options, 'width' | 'height'> {
  return {
    ...common(colour, scope),
    scales: { x: xScale(scope), y: { range: [0, 100] } },
    axes: [timeAxis(colour), axis(colour, { size: 30, splits: () => [0, 50, 100] })],
    series: [
      {},
      { stroke: colour('--jp-brand-color1'), width: 1.5, points: { show: false } },
      { stroke: colour('--jp-ui-font-color1'), width: 1, points: { show: false } },
      {
        stroke: colour('--jp-ui-font-color2'),
        width: 1,
        dash: [4, 3],
        points: { show: false }
      }
    ]
  };
}

function waitingOptions(colour: Colour, scope: IScope): Omit<uPlot.Options, 'width' | 'height'> {
  return {
    ...common(colour, scope),
    scales: {
      x: xScale(scope),
      y: { range: (_, __, most) => [0, Math.max(1, Math.ceil(most ?? 1))] }
    },
    axes: [timeAxis(colour), axis(colour, { size: 30, incrs: [1, 2, 5, 10, 50, 100, 500] })],
    series: [{}, { stroke: colour('--jp-warn-color1'), width: 1.5, points: { show: false } }]
  };
}

function common(
  colour: Colour,
  scope: IScope
): Pick<uPlot.Options, 'padding' | 'cursor' | 'legend' | 'hooks'> {
  return {
    // at the right there is room for half of a time that stands at the end
    padding: [6, 16, 0, 0],
    legend: { show: false },
    cursor: {
      sync: { key: SYNC, setSeries: false },
      drag: { x: true, y: false, setScale: false },
      points: { size: 5, fill: colour('--jp-layout-color1') }
    },
    hooks: { setSelect: [scope.zoom] }
  };
}

function xScale(scope: IScope): uPlot.Scale {
  return {
    time: true,
    range: (_, __, newest) =>
      scope.cut ? [scope.cut[0], scope.cut[1]] : [newest - scope.range, newest]
  };
}

/** Times as this browser's language writes them. */
function timeAxis(colour: Colour): uPlot.Axis {
  const write = new Intl.DateTimeFormat(undefined, {
    hour: '2-digit',
    minute: '2-digit',
    hourCycle: 'h23'
  });
  return axis(colour, {
    size: 18,
    space: 48,
    values: (_, splits) => splits.map(time => write.format(time * 1000))
  });
}

function axis(colour: Colour, more: uPlot.Axis): uPlot.Axis {
  return {
    stroke: colour('--jp-ui-font-color2'),
    font: `10px ${colour('--jp-ui-font-family')}`,
    gap: 3,
    grid: { stroke: colour('--jp-border-color2'), width: 1 },
    ticks: { show: false },
    ...more
  };
}
