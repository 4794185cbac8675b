/**
 * Keeps the keyboard where it was. Rule of this module: it moves the focus only when what had it went away or cannot
 * be used any more, never when the person moved it; while the focus is elsewhere it costs nothing.
 */
import { IDisposable } from '@lumino/disposable';

/** Gives the focus to the nearest thing that is left when what had it goes away. */
export class FocusKeeper implements IDisposable {
  /**
   * @param node - Within it the focus is kept; it takes the focus itself when nothing else is left.
   */
  constructor(private readonly node: HTMLElement) {
    node.addEventListener('focusin', this.onFocus);
    node.addEventListener('focusout', this.onBlur);
    document.addEventListener('pointerdown', this.forget, true);
  }

  /** True after `dispose`. */
  get isDisposed(): boolean {
    return this._isDisposed;
  }

  /** Let everything go. */
  dispose(): void {
    this._isDisposed = true;
    this.forget();
    this.node.removeEventListener('focusin', this.onFocus);
    this.node.removeEventListener('focusout', this.onBlur);
    document.removeEventListener('pointerdown', this.forget, true);
  }

  private readonly onFocus = (event: FocusEvent): void => {
    const place = event.target as HTMLElement;
    this.place = place;
    this.homes = [...around(place, this.node), this.node];
    this.observer.observe(this.node, {
      childList: true,
      subtree: true,
      attributeFilter: ['disabled']
    });
  };

  /** Without a next place it is the window that lost it, or what had it goes away. */
  private readonly onBlur = (event: FocusEvent): void => {
    const next = event.relatedTarget as Node | null;
    if (next && !this.node.contains(next)) {
      this.forget();
    }
  };

  private readonly forget = (): void => {
    this.place = null;
    this.homes = [];
    this.observer.disconnect();
  };

  private look(): void {
    const active = document.activeElement;
    if (
      this.place &&
      !isUsable(this.place) &&
      (!active || active === document.body || active === this.place)
    ) {
      this.homes.find(isUsable)?.focus();
    }
  }

  private readonly observer = new MutationObserver(() => this.look());
  private place: HTMLElement | null = null;
  private homes: readonly HTMLElement[] = [];
  private _isDisposed = false;
}

/** What around a place can have the focus, the nearest first: the list that it is in, the heading of its part. */
function around(place: HTMLElement, top: HTMLElement): HTMLElement[] {
  const found: HTMLElement[] = [];
  for (let at = place.parentElement; at && at !== top; at = at.parentElement) {
    const heading = at.matches('[data-section]')
      ? at.querySelector<HTMLElement>('h3 button')
      : null;
    if (at.tabIndex >= 0 || heading) {
      found.push(heading ?? at);
    }
  }
  return found;
}

function isUsable(element: HTMLElement): boolean {
  return element.isConnected && !element.matches(':disabled');
}
