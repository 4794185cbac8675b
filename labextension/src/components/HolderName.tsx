/**
 * Who uses a lease, as a person knows it.
 */
import * as React from 'react';

import { ILease } from '../types';
import { IEnv } from './view';

/** A notebook's name that opens it, or the next best thing that is known. */
export function HolderName(props: { readonly lease: ILease; readonly env: IEnv }): JSX.Element {
  const { lease, env } = props;
  const { trans, actions } = env;
  if (!lease.mine) {
    return <span className="jp-GPUPool-name">{lease.owner || trans.__('somebody else')}</span>;
  }
  const document = env.documentOf(lease.holder.kernel_id);
  if (!document?.path) {
    return <span className="jp-GPUPool-name">{document?.name || otherName(lease, env)}</span>;
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

/** Says in words what is this person's, where others' stand beside it, and what is the notebook's in front. */
export function MineBadges(props: {
  readonly lease: ILease;
  readonly env: IEnv;
  /** True where everything is this person's. */
  readonly isAmongMine?: boolean;
}): JSX.Element | null {
  const { lease, env, isAmongMine } = props;
  if (!lease.mine) {
    return null;
  }
  const kernelId = lease.holder.kernel_id;
  return (
    <>
      {!isAmongMine && <span className="jp-GPUPool-badge jp-mod-mine">{env.trans.__('mine')}</span>}
      {kernelId !== '' && kernelId === env.activeKernelId && (
        <span className="jp-GPUPool-badge jp-mod-mine">{env.trans.__('this notebook')}</span>
      )}
    </>
  );
}

function otherName(lease: ILease, env: IEnv): string {
  const { label, pid } = lease.holder;
  if (label) {
    return label;
  }
  return pid === null ? env.trans.__('a process') : env.trans.__('process %1', pid);
}
