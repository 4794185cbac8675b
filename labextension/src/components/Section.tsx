/**
 * A part of the panel that can be closed.
 */
import { caretDownIcon, caretRightIcon } from '@jupyterlab/ui-components';
import * as React from 'react';

import { Icon } from './Icon';
import { IEnv } from './view';

/** A part of the panel with a heading that opens and closes it. */
export function Section(props: {
  readonly id: string;
  readonly title: string;
  readonly note?: string;
  readonly env: IEnv;
  readonly children: React.ReactNode;
}): JSX.Element {
  const { id, title, note, env, children } = props;
  const isOpen = !env.closed.has(id);
  const bodyId = `jp-GPUPool-section-${id}`;
  return (
    <section className="jp-GPUPool-section" aria-label={title} data-section={id}>
      <h3>
        <button
          type="button"
          className="jp-GPUPool-sectionHead"
          aria-expanded={isOpen}
          aria-controls={bodyId}
          onClick={() => env.actions.toggle(id, !isOpen)}
        >
          <Icon icon={isOpen ? caretDownIcon : caretRightIcon} className="jp-GPUPool-caret" />
          <span>{title}</span>
          {note && <span className="jp-GPUPool-sectionNote">{note}</span>}
        </button>
      </h3>
      <div id={bodyId} hidden={!isOpen}>
        {isOpen && children}
      </div>
    </section>
  );
}
