/**
 * A time that goes on between two snapshots.
 */
import * as React from 'react';

import { clock } from '../format';
import { Age } from './view';

/** A time that goes on between two snapshots, or runs out. */
export function Elapsed(props: {
  readonly seconds: number;
  readonly isCountdown?: boolean;
  readonly text: (time: string) => string;
  readonly title?: string;
}): JSX.Element {
  const age = React.useContext(Age);
  const seconds = props.isCountdown ? props.seconds - age : props.seconds + age;
  return <span title={props.title}>{props.text(clock(seconds))}</span>;
}
