/**
 * The kernel of the notebook in front cannot use the pool: say so, and how to mend it.
 */
import * as React from 'react';

import { CopyLine } from './CopyLine';
import { Notice } from './Notice';
import { IView } from './view';

/** What loads the magic where nobody can tell whether it is installed. */
const LOAD = '%load_ext jupyter_gpupool';

/** The kernel of the notebook in front cannot use the pool: say so, and how to mend it. */
export function KernelNotice(props: { readonly view: IView }): JSX.Element | null {
  const { state, activeKernelId, trans } = props.view;
  const kernel = state.kernels.get(activeKernelId);
  if (!kernel || kernel.installed) {
    return null;
  }
  if (kernel.language && kernel.language !== 'python') {
    const message = trans.__('The kernel of this notebook is not Python: it cannot use the pool.');
    return <Notice tone="info" message={message} />;
  }
  if (!kernel.install_command) {
    const message = trans.__(
      'Whether the kernel of this notebook has jupyter_gpupool cannot be told. If it has, type:'
    );
    return (
      <Notice tone="info" message={message}>
        <CopyLine text={LOAD} trans={trans} />
      </Notice>
    );
  }
  return (
    <Notice
      tone="info"
      message={trans.__('The kernel of this notebook has no jupyter_gpupool.')}
      hint={trans.__('Run this in a terminal, then restart the kernel:')}
    >
      <CopyLine text={kernel.install_command} trans={trans} />
    </Notice>
  );
}
