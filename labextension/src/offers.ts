/**
 * Offers to restore what a kernel left behind. Rule of this module: it knows the kernels and the words,
 * not the page; each snapshot is offered once, and nothing is restored unasked.
 */
import { Kernel, KernelMessage, ServerConnection } from '@jupyterlab/services';
import { TranslationBundle } from '@jupyterlab/translation';

import { bytes, MIB } from './format';
import { listSnapshots } from './restapi';
import { ISnapshot } from './types';

/** A kernel, as far as an offer needs it. */
export type IOfferKernel = Pick<Kernel.IKernelConnection, 'id' | 'requestExecute'>;

/** Shows an offer, and how it went. */
export interface IOfferBoard {
  /** Show an offer; `accept` is for its button. */
  offer(message: string, button: string, accept: () => void): void;
  /** Say how it went. */
  say(message: string, ok: boolean): void;
}

/** Finds what kernels left behind, offers it, and restores it. */
export class Offers {
  /**
   * @param options - What it works with.
   */
  constructor(private readonly options: Offers.IOptions) {}

  /**
   * Look for what was left behind, now that a notebook has another kernel.
   *
   * @param path - The notebook.
   * @param kernel - Its kernel now.
   * @param died - Whether that is the same kernel, started again after its process died.
   */
  async look(path: string, kernel: IOfferKernel, died: boolean): Promise<void> {
    const found = leftBehind(await this.list(path), kernel.id, died, this.options.running());
    if (!found || this.offered.has(found.id)) {
      return;
    }
    this.offered.add(found.id);
    const { board, trans } = this.options;
    board.offer(offerText(found, trans), trans.__('Restore'), () => {
      void this.restore(found, kernel);
    });
  }

  private async list(path: string): Promise<ISnapshot[]> {
    try {
      return await listSnapshots(path, this.options.serverSettings);
    } catch {
      return []; // no pool, an older one, or not allowed: then there is nothing to offer
    }
  }

  private async restore(snapshot: ISnapshot, kernel: IOfferKernel): Promise<void> {
    const { board, trans } = this.options;
    const shown: string[] = [];
    const future = kernel.requestExecute({ code: restoreCode(snapshot.id), store_history: false });
    future.onIOPub = message => {
      if (KernelMessage.isDisplayDataMsg(message)) {
        shown.push(String(message.content.data['text/plain'] ?? ''));
      }
    };
    const { content } = await future.done;
    if (content.status === 'ok') {
      board.say(shown.join('\n') || trans.__('The state was restored.'), true);
    } else {
      const why = 'evalue' in content ? content.evalue : trans.__('The kernel was interrupted.');
      board.say(trans.__('The state was not restored: %1', why), false);
    }
  }

  private readonly offered = new Set<string>();
}

/** Statics of `Offers`. */
export namespace Offers {
  /** What offers work with. */
  export interface IOptions {
    /** The server's URLs and token. */
    readonly serverSettings: ServerConnection.ISettings;
    /** Words. */
    readonly trans: TranslationBundle;
    /** Where offers are shown. */
    readonly board: IOfferBoard;
    /** Ids of the kernels that run. */
    readonly running: () => ReadonlySet<string>;
  }
}

/**
 * The newest snapshot that a kernel left behind which is gone; null when there is none.
 *
 * @param snapshots - Those of one notebook, newest first.
 * @param kernelId - The notebook's kernel now.
 * @param died - Whether that was started again after its process died.
 * @param running - Ids of the kernels that run.
 */
export function leftBehind(
  snapshots: readonly ISnapshot[],
  kernelId: string,
  died: boolean,
  running: ReadonlySet<string>
): ISnapshot | null {
  const gone = (id: string): boolean => (id === kernelId ? died : !running.has(id));
  return snapshots.find(it => it.last_words && gone(it.kernel_id)) ?? null;
}

/** One sentence that offers a snapshot. */
export function offerText(snapshot: ISnapshot, trans: TranslationBundle): string {
  const when = new Date(snapshot.created_ms).toLocaleString(undefined, {
    dateStyle: 'short',
    timeStyle: 'short'
  });
  return trans.__(
    'The kernel of this notebook is gone. Restore its state of %1 (%2, about %3 s)?',
    when,
    snapshot.total_bytes < MIB ? trans.__('less than 1 MiB') : bytes(snapshot.total_bytes),
    Math.max(1, Math.round(snapshot.restore_seconds))
  );
}

/** What the kernel runs; it binds no name. Ids have hexadecimal digits only. */
export function restoreCode(id: string): string {
  const name = JSON.stringify(id);
  return `__import__('IPython').display.display(__import__('jupyter_gpupool').restore(${name}))`;
}
