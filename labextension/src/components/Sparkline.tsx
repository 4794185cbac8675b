/**
 * How busy a device was in the last ten minutes.
 */
import * as React from 'react';
import type uPlot from 'uplot';

import { RECENT_SECONDS } from '../series';
import { IDevice } from '../types';
import { Chart, Colour } from './Chart';
import { IEnv } from './view';

/** Height of the small chart, pixels. */
const HEIGHT = 18;

/** How busy a device was in the last ten minutes; nothing while nothing is known. */
export function Sparkline(props: {
  readonly device: IDevice;
  readonly env: IEnv;
}): JSX.Element | null {
  const { device, env } = props;
  const curves = env.past.device(device.id);
  if (!curves) {
    return null;
  }
  const now = device.readings.utilization_percent;
  const label =
    now === null
      ? env.trans.__('How busy %1 was in the last ten minutes', device.name)
      : env.trans.__(
          'How busy %1 was in the last ten minutes; now %2 %',
          device.name,
          Math.round(now)
        );
  return (
    <Chart curves={curves} height={HEIGHT} label={label} look={env.theme} options={sparkOptions} />
  );
}

function sparkOptions(colour: Colour): Omit<uPlot.Options, 'width' | 'height'> {
  return {
    padding: [1, 0, 1, 0],
    cursor: { show: false },
    legend: { show: false },
    axes: [{ show: false }, { show: false }],
    scales: {
      x: { time: true, range: (_, __, newest) => [newest - RECENT_SECONDS, newest] },
      y: { range: [0, 100] }
    },
    series: [
      {},
      {
        stroke: colour('--jp-ui-font-color2'),
        fill: colour('--jp-layout-color3'),
        width: 1,
        points: { show: false }
      }
    ]
  };
}
