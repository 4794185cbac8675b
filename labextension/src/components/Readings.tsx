/**
 * What is known of a device's telemetry. Rule of this component: a reading that cannot be had is a dash that
 * says why, never 0; one that a device does not have at all is not shown.
 */
import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { bytes } from '../format';
import { IDevice, IReadings } from '../types';

interface IReading {
  readonly key: keyof IReadings;
  readonly name: string;
  readonly text: (value: number) => string;
  readonly missing: string;
}

/** What is known of a device's telemetry, and what is not, with the reason. */
export function Readings(props: {
  readonly device: IDevice;
  readonly trans: TranslationBundle;
}): JSX.Element | null {
  const { device, trans } = props;
  // how busy it is stands beside its chart
  const shown = all(trans).filter(
    ({ key }) =>
      (device.readings[key] !== null && key !== 'utilization_percent') || key in device.missing
  );
  return shown.length ? (
    <div className="jp-GPUPool-facts">
      {shown.map(reading => (
        <Reading key={reading.key} reading={reading} device={device} trans={trans} />
      ))}
    </div>
  ) : null;
}

function Reading(props: {
  readonly reading: IReading;
  readonly device: IDevice;
  readonly trans: TranslationBundle;
}): JSX.Element {
  const { reading, device, trans } = props;
  const value = device.readings[reading.key];
  if (value !== null) {
    return <span>{reading.text(value)}</span>;
  }
  const why = trans.__('%1: not known, %2', reading.name, device.missing[reading.key]);
  return (
    <span className="jp-GPUPool-missing" role="img" tabIndex={0} title={why} aria-label={why}>
      {reading.missing}
    </span>
  );
}

function all(trans: TranslationBundle): IReading[] {
  return [
    {
      key: 'utilization_percent',
      name: trans.__('Utilization'),
      text: value => trans.__('%1 % busy', Math.round(value)),
      missing: trans.__('— % busy')
    },
    {
      key: 'memory_used_bytes',
      name: trans.__('Memory in use'),
      text: value => trans.__('%1 in use', bytes(value)),
      missing: trans.__('— in use')
    },
    {
      key: 'temperature_celsius',
      name: trans.__('Temperature'),
      text: value => trans.__('%1 °C', Math.round(value)),
      missing: trans.__('— °C')
    },
    {
      key: 'power_watts',
      name: trans.__('Power'),
      text: value => trans.__('%1 W', Math.round(value)),
      missing: trans.__('— W')
    }
  ];
}
