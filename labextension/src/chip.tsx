/**
 * The chip in a notebook's toolbar, and what opens from it. Rule of this module: one popover at a time; the keyboard
 * goes into it when it opens and comes back when it closes.
 */
import { NotebookPanel } from '@jupyterlab/notebook';
import { ReactWidget } from '@jupyterlab/ui-components';
import { Message } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';
import * as React from 'react';

import { chipOf } from './chiptext';
import { ChipPopover } from './components/ChipPopover';
import { IEnv } from './components/view';
import { FocusKeeper } from './focus';
import { IPoolManager } from './tokens';
import { IPoolViews } from './views';

/** Where the tab key stops. */
const STOPS = ':is(button, input, select):enabled, summary';

/** What a chip joins. */
export interface IChipOptions {
  readonly manager: IPoolManager;
  readonly views: IPoolViews;
  /** The notebook. */
  readonly panel: NotebookPanel;
  /** Show the pool's panel. */
  readonly showPanel: () => void;
}

/** The chip in a notebook's toolbar. */
export class PoolChip extends ReactWidget {
  /**
   * @param options - What it joins.
   */
  constructor(private readonly options: IChipOptions) {
    super();
    this.addClass('jp-GPUPool-chipPlace');
    options.manager.stateChanged.connect(this.onChange, this);
    options.panel.sessionContext.kernelChanged.connect(this.update, this);
  }

  /** Show the newest state. */
  protected override render(): JSX.Element {
    const { manager, views } = this.options;
    const { tone, text, title } = chipOf(manager.state, this.kernelId, views.trans);
    this.shown = text + title;
    return (
      <button
        type="button"
        className={`jp-GPUPool-chip jp-mod-${tone}`}
        title={title}
        aria-haspopup="dialog"
        aria-label={views.trans.__('GPU pool: %1', text)}
        onClick={event => this.open(event.currentTarget)}
      >
        {text}
      </button>
    );
  }

  private get kernelId(): string {
    return this.options.panel.sessionContext.session?.kernel?.id ?? '';
  }

  /** Most changes of the pool are none of this notebook's. */
  private onChange(): void {
    const { manager, views } = this.options;
    const { text, title } = chipOf(manager.state, this.kernelId, views.trans);
    if (this.shown !== text + title && !document.hidden) {
      this.update();
    }
  }

  private open(anchor: HTMLElement): void {
    new PoolPopover(this.options, this.kernelId, anchor).show();
  }

  private shown = '';
}

/** What opens from a chip; it closes with Escape, with a click elsewhere, and when the keyboard leaves it. */
class PoolPopover extends ReactWidget {
  constructor(
    private readonly options: IChipOptions,
    private readonly kernelId: string,
    private readonly anchor: HTMLElement
  ) {
    super();
    const { trans } = options.views;
    this.addClass('jp-GPUPool');
    this.addClass('jp-GPUPool-popover');
    this.node.setAttribute('role', 'dialog');
    this.node.setAttribute('aria-label', trans.__('The notebook’s share of the GPU pool'));
    this.node.tabIndex = -1;
    this.keeper = new FocusKeeper(this.node);
    options.manager.stateChanged.connect(this.update, this);
  }

  /** Open it below its chip. */
  override show(): void {
    Widget.attach(this, document.body);
    const { left, bottom } = this.anchor.getBoundingClientRect();
    const room = document.documentElement.clientWidth - this.node.offsetWidth - 8;
    this.node.style.left = `${Math.max(8, Math.min(left, room))}px`;
    this.node.style.top = `${bottom + 4}px`;
    this.node.focus();
  }

  /** Take the events that close it. */
  handleEvent(event: Event): void {
    const target = event.target as Node | null;
    if (event.type === 'keydown') {
      this.onKey(event as KeyboardEvent);
    } else if (event.type === 'pointerdown' && target && !this.node.contains(target)) {
      this.dispose();
    } else if (event.type === 'focusout') {
      const next = (event as FocusEvent).relatedTarget as Node | null;
      if (next && !this.node.contains(next)) {
        this.dispose();
      }
    }
  }

  /** Let everything go. */
  override dispose(): void {
    this.keeper.dispose();
    super.dispose();
  }

  /** It stands at the end of the page: who leaves it with the tab key goes on from its chip. */
  private onKey(event: KeyboardEvent): void {
    const stops = [...this.node.querySelectorAll<HTMLElement>(STOPS)];
    const edge = event.shiftKey ? stops[0] : stops[stops.length - 1];
    const leaves =
      event.key === 'Tab' &&
      (event.target === edge || (event.shiftKey && event.target === this.node));
    if (event.key === 'Escape' || leaves) {
      event.stopPropagation();
      if (event.key === 'Escape' || event.shiftKey) {
        event.preventDefault();
      }
      this.dispose();
      this.anchor.focus();
    }
  }

  /** Show the newest state. */
  protected override render(): JSX.Element {
    const { manager, views, showPanel } = this.options;
    const env: IEnv = { ...views.env(), closed: new Set(), asked: 0 };
    return (
      <ChipPopover
        state={manager.state}
        kernelId={this.kernelId}
        env={env}
        showPanel={showPanel}
        close={() => this.dispose()}
      />
    );
  }

  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    this.node.addEventListener('keydown', this);
    this.node.addEventListener('focusout', this);
    document.addEventListener('pointerdown', this, true);
  }

  protected override onBeforeDetach(message: Message): void {
    this.node.removeEventListener('keydown', this);
    this.node.removeEventListener('focusout', this);
    document.removeEventListener('pointerdown', this, true);
    super.onBeforeDetach(message);
  }

  private readonly keeper: FocusKeeper;
}
