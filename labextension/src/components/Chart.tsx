/**
 * A chart that follows its curves. Rules of this component: the library is loaded when the first chart is seen;
 * it draws only when there is something new; its text alternative is the caller's.
 */
import * as React from 'react';
import type uPlot from 'uplot';

import { Curves } from '../series';
import { Beat } from './view';

/** A CSS variable's value, for a canvas. */
export type Colour = (name: string) => string;

/** A chart that follows its curves, as wide as its place. */
export function Chart(props: {
  readonly curves: Curves;
  /** Draw only some of the curves: their places. */
  readonly only?: readonly number[];
  readonly height: number;
  readonly label: string;
  /** Everything but the size; called when the chart is made, and again when `look` changes. */
  readonly options: (colour: Colour) => Omit<uPlot.Options, 'width' | 'height'>;
  /** Changes when the chart has to be made anew (the theme, what it shows). */
  readonly look: string;
  /** True to leave what is drawn as it is. */
  readonly isPaused?: boolean;
}): JSX.Element {
  const { curves, only, height, label, look, isPaused } = props;
  const place = React.useRef<HTMLDivElement>(null);
  const plot = React.useRef<uPlot | null>(null);
  const drawn = React.useRef(-1);
  React.useContext(Beat);
  const fresh = React.useRef(props);
  fresh.current = props;

  React.useEffect(() => {
    const node = place.current;
    let isGone = false;
    let observer: ResizeObserver | null = null;
    if (node) {
      void import('uplot').then(({ default: UPlot }) => {
        if (isGone) {
          return;
        }
        const style = getComputedStyle(node);
        const colour: Colour = name => style.getPropertyValue(name).trim();
        const size = { width: Math.max(20, node.clientWidth), height };
        const options = { ...fresh.current.options(colour), ...size };
        plot.current = new UPlot(options, pick(curves, only), node);
        drawn.current = curves.version;
        observer = new ResizeObserver(() => {
          const width = node.clientWidth;
          if (width > 0 && plot.current && width !== plot.current.width) {
            plot.current.setSize({ width, height });
          }
        });
        observer.observe(node);
      });
    }
    return () => {
      isGone = true;
      observer?.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
    // `only` and `options` are functions of `look`
  }, [curves, height, look]);

  React.useEffect(() => {
    if (plot.current && !isPaused && drawn.current !== curves.version) {
      drawn.current = curves.version;
      plot.current.setData(pick(curves, only));
    }
  });

  return (
    <div
      className="jp-GPUPool-chart"
      style={{ height }}
      role="img"
      aria-label={label}
      ref={place}
    />
  );
}

function pick(curves: Curves, only: readonly number[] | undefined): uPlot.AlignedData {
  const [times, ...values] = curves.data;
  return [times, ...(only ? only.map(place => values[place]) : values)];
}
