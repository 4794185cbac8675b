/**
 * The item in the status bar: the lease of the notebook in front, else what is free of the pool.
 */
import { ReactWidget } from '@jupyterlab/ui-components';
import * as React from 'react';

import { chipOf } from './chiptext';
import { poolIcon } from './icon';
import { IPoolManager, IPoolState } from './tokens';
import { IPoolViews } from './views';

/** The item in the status bar. */
export class PoolStatus extends ReactWidget {
  /**
   * @param manager - The state owner.
   * @param views - What all views share.
   * @param open - Show the pool's panel.
   */
  constructor(
    private readonly manager: IPoolManager,
    private readonly views: IPoolViews,
    private readonly open: () => void
  ) {
    super();
    this.addClass('jp-GPUPool-statusPlace');
    manager.stateChanged.connect(this.onChange, this);
    views.changed.connect(this.onChange, this);
  }

  /** True while there is something to show, and the person wants to see it. */
  get isActive(): boolean {
    const { state } = this.manager;
    return state.settings.statusBar && state.phase !== 'absent';
  }

  /** Show the newest state. */
  protected override render(): JSX.Element {
    const text = this.text();
    this.shown = text;
    return (
      <button
        type="button"
        className="jp-GPUPool-status"
        title={this.views.trans.__('Show the GPU pool')}
        aria-label={this.views.trans.__('GPU pool: %1', text)}
        onClick={this.open}
      >
        <poolIcon.react tag="span" className="jp-GPUPool-statusIcon" elementSize="small" />
        {text}
      </button>
    );
  }

  private text(): string {
    const { state } = this.manager;
    const { notebooks, trans } = this.views;
    const kernelId = notebooks.activeKernelId;
    const chip = chipOf(state, kernelId, trans);
    return chip.lease ? chip.text : freeText(state, this.views);
  }

  private onChange(): void {
    if (this.shown !== this.text() && !document.hidden) {
      this.update();
    }
  }

  private shown = '';
}

/** What is free of the pool, or why that is not known. */
function freeText(state: IPoolState, views: IPoolViews): string {
  const { trans } = views;
  if (!state.pool || state.phase !== 'connected') {
    return state.phase === 'reconnecting' ? trans.__('reconnecting…') : trans.__('no pool');
  }
  const offered = state.pool.devices.filter(device => device.offered);
  const free = offered.reduce((sum, device) => sum + device.free_compute_milli / 1000, 0);
  if (!offered.length) {
    return trans.__('no devices');
  }
  return trans.__('%1 of %2 free', String(Number(free.toFixed(2))), offered.length);
}
