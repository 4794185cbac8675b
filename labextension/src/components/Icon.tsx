/**
 * An icon that is drawn once: JupyterLab's icons work out their style anew at each render.
 */
import { LabIcon } from '@jupyterlab/ui-components';
import * as React from 'react';

/** An icon that is drawn once. */
export const Icon = React.memo(function Icon(props: {
  readonly icon: LabIcon;
  readonly className?: string;
  readonly size?: 'small' | 'normal';
}): JSX.Element {
  const { icon, className, size } = props;
  return <icon.react tag="span" className={className} elementSize={size ?? 'small'} />;
});
