/**
 * A share as a slider with snap points and as a number: the two always say the same.
 */
import * as React from 'react';

import { share } from '../format';

/** Where the slider rests, thousandths. */
const SNAPS = [125, 250, 333, 500, 667, 750, 1000];
/** So near to one of them it goes there, thousandths. */
const PULL = 20;

/** A share as a slider with snap points and as a number. */
export function ShareField(props: {
  readonly id: string;
  readonly label: string;
  readonly milli: number;
  readonly change: (milli: number) => void;
  /** It takes the keyboard when it is made, and whenever this changes. */
  readonly focusOn?: number;
}): JSX.Element {
  const { id, label, milli, change } = props;
  const [text, setText] = React.useState(share(milli));
  const slide = React.useRef<HTMLInputElement>(null);
  // Only what is dragged rests at the snap points: a key would never get away from one.
  const isDragged = React.useRef(false);
  React.useEffect(() => {
    setText(current => (Math.round(Number(current) * 1000) === milli ? current : share(milli)));
  }, [milli]);
  React.useEffect(() => {
    if (props.focusOn !== undefined) {
      slide.current?.focus();
    }
  }, [props.focusOn]);
  return (
    <div className="jp-GPUPool-field">
      <label htmlFor={id}>{label}</label>
      <input
        id={id}
        ref={slide}
        type="range"
        min={50}
        max={1000}
        step={10}
        list="jp-GPUPool-snaps"
        value={milli}
        aria-valuetext={share(milli)}
        onPointerDown={() => {
          isDragged.current = true;
        }}
        onKeyDown={() => {
          isDragged.current = false;
        }}
        onChange={event => {
          const chosen = Number(event.target.value);
          change(isDragged.current ? snapped(chosen) : chosen);
        }}
      />
      <input
        type="number"
        className="jp-GPUPool-number"
        aria-label={label}
        min={0.001}
        max={1}
        step="any"
        value={text}
        onChange={event => {
          setText(event.target.value);
          const typed = Math.round(Number(event.target.value) * 1000);
          if (typed >= 1 && typed <= 1000) {
            change(typed);
          }
        }}
      />
      <datalist id="jp-GPUPool-snaps">
        {SNAPS.map(snap => (
          <option key={snap} value={snap} />
        ))}
      </datalist>
    </div>
  );
}

/** Where the slider rests when it is let go here. */
export function snapped(milli: number): number {
  return (
    SNAPS.find(snap => Math.abs(snap - milli) < PULL && snap !== milli && milli % 50 !== 0) ?? milli
  );
}
