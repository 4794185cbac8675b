/**
 * A sentence with its next step.
 */
import * as React from 'react';

/** A sentence with its next step. */
export function Notice(props: {
  readonly tone: 'info' | 'warn' | 'error';
  readonly message: string;
  readonly hint?: string;
  readonly children?: React.ReactNode;
}): JSX.Element {
  return (
    <div className={`jp-GPUPool-notice jp-mod-${props.tone}`}>
      {props.message && <p>{props.message}</p>}
      {props.hint && <p className="jp-GPUPool-muted">{props.hint}</p>}
      {props.children}
    </div>
  );
}
