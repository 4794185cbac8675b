/**
 * What clicks and commands do. Rule of this module: it asks before it ends something, and what the pool refuses is
 * said in the pool's words.
 */
import { Dialog, showDialog, showErrorMessage } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';

import { share } from './format';
import { ApiError } from './restapi';
import { IPoolManager } from './tokens';
import { ILease } from './types';

/** A refusal in words, with the next step. */
export function refusalText(error: unknown): string {
  const hint = error instanceof ApiError && error.hint ? ` ${error.hint}` : '';
  return `${error instanceof Error ? error.message : String(error)}${hint}`;
}

/** What can be done with leases, from wherever. */
export class LeaseActions {
  /**
   * @param manager - The state owner.
   * @param trans - Words.
   */
  constructor(
    private readonly manager: IPoolManager,
    private readonly trans: TranslationBundle
  ) {}

  /** End a lease, after asking. */
  async release(lease: ILease): Promise<void> {
    const { manager, trans } = this;
    const where = lease.shares.map(part => part.device_name).join(', ');
    const answer = await showDialog({
      title: trans.__('Release %1 of %2?', share(lease.compute_milli), where),
      body: trans.__(
        'The kernel keeps running, without its share: its limits are taken away, and others may take the room.'
      ),
      buttons: [
        Dialog.cancelButton({ label: trans.__('Keep') }),
        Dialog.warnButton({ label: trans.__('Release') })
      ]
    });
    if (answer.button.accept) {
      await this.attempt(manager.release(lease.id), trans.__('Not released'));
    }
  }

  /** Take a request out of the queue. */
  async cancel(lease: ILease): Promise<void> {
    await this.attempt(this.manager.cancel(lease.id), this.trans.__('Not cancelled'));
  }

  /** Have a lease not taken back, or let it be. */
  async pin(lease: ILease, pinned: boolean): Promise<void> {
    const title = pinned ? this.trans.__('Not pinned') : this.trans.__('Not unpinned');
    await this.attempt(this.manager.pin(lease.id, pinned), title);
  }

  /** Ask for another size; resolves to the refusal in words, or to nothing when it is done. */
  async resize(lease: ILease, computeMilli: number): Promise<string> {
    try {
      await this.manager.resize(lease.id, computeMilli, null);
      return '';
    } catch (error) {
      return refusalText(error);
    }
  }

  private async attempt(action: Promise<void>, title: string): Promise<void> {
    try {
      await action;
    } catch (error) {
      await showErrorMessage(title, refusalText(error));
    }
  }
}
