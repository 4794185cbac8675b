/**
 * Who uses a lease, as a person knows it.
 */
import * as React from 'react';

import { ILease } from '../types';
import { IView } from './view';

/** A notebook's name that opens it, or the next best thing that is known. */
export function HolderName(props: { readonly lease: ILease; readonly view: IView }): JSX.Element {
  const { lease, view } = props;
  const { trans, actions } = view;
  if (!lease.mine) {
    return <span className="jp-GPUPool-name">{lease.owner || trans.__('somebody else')}</span>;
  }
  const document = view.documentOf(lease.holder.kernel_id);
  if (!document?.path) {
    return <span className="jp-GPUPool-name">{document?.name || otherName(lease, view)}</span>;
  }
  return (
    <button
      type="button"
      className="jp-GPUPool-name jp-GPUPool-link"
      title={trans.__('Open %1', document.path)}
      onClick={() => actions.openDocument(document.path)}
    >
      {document.name}
    </button>
  );
}

/** Says in words what is this person's, and what is the notebook's in front. */
export function MineBadges(props: {
  readonly lease: ILease;
  readonly view: IView;
}): JSX.Element | null {
  const { lease, view } = props;
  if (!lease.mine) {
    return null;
  }
  const kernelId = lease.holder.kernel_id;
  return (
    <>
      <span className="jp-GPUPool-badge jp-mod-mine">{view.trans.__('mine')}</span>
      {kernelId !== '' && kernelId === view.activeKernelId && (
        <span className="jp-GPUPool-badge jp-mod-mine">{view.trans.__('this notebook')}</span>
      )}
    </>
  );
}

function otherName(lease: ILease, view: IView): string {
  const { label, pid } = lease.holder;
  if (label) {
    return label;
  }
  return pid === null ? view.trans.__('a process') : view.trans.__('process %1', pid);
}
