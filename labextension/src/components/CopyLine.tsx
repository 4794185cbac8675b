/**
 * A line to type elsewhere, with a button that copies it.
 */
import { Clipboard } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';
import { checkIcon, copyIcon } from '@jupyterlab/ui-components';
import * as React from 'react';

import { Icon } from './Icon';

/** A line to type elsewhere, with a button that copies it. */
export function CopyLine(props: {
  readonly text: string;
  readonly trans: TranslationBundle;
}): JSX.Element {
  const { text, trans } = props;
  const [copied, setCopied] = React.useState(false);
  const label = copied ? trans.__('Copied') : trans.__('Copy “%1”', text);
  const forget = () => setCopied(false);
  return (
    <div className="jp-GPUPool-copyLine">
      <code>{text}</code>
      <button
        className="jp-GPUPool-iconButton"
        type="button"
        title={label}
        aria-label={label}
        onClick={() => {
          Clipboard.copyToSystem(text);
          setCopied(true);
        }}
        onBlur={forget}
        onMouseLeave={forget}
      >
        <Icon icon={copied ? checkIcon : copyIcon} size="normal" />
      </button>
    </div>
  );
}
