/**
 * One dimension of a device: what is leased, by whom, and what is free.
 */
import * as React from 'react';

/** One piece of a bar. */
export interface ISegment {
  /** Identity between two renders. */
  readonly key: string;
  /** Part of the whole bar, 0 to 1. */
  readonly fraction: number;
  /** Whose it is. */
  readonly tone: 'mine' | 'other' | 'unmanaged' | 'used';
  /** True when it has done nothing for a while. */
  readonly isIdle?: boolean;
  /** What it is, for the pointer. */
  readonly title: string;
}

/** A bar with a text alternative that says the same. */
export function SegmentBar(props: {
  readonly label: string;
  readonly segments: readonly ISegment[];
}): JSX.Element {
  return (
    <div className="jp-GPUPool-bar" role="img" aria-label={props.label} title={props.label}>
      {props.segments.map(segment => (
        <span
          key={segment.key}
          className={`jp-GPUPool-segment jp-mod-${segment.tone}${segment.isIdle ? ' jp-mod-idle' : ''}`}
          style={{ flexBasis: `${(Math.min(1, segment.fraction) * 100).toFixed(2)}%` }}
          title={segment.title}
        />
      ))}
    </div>
  );
}
