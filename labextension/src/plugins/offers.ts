/**
 * Offers, when a notebook's kernel has died, to restore what that left behind.
 */
import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ISessionContext, Notification } from '@jupyterlab/apputils';
import { INotebookTracker } from '@jupyterlab/notebook';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { IOfferBoard, Offers } from '../offers';
import { I18N_DOMAIN } from '../tokens';

/** Offers stay until they are answered; what came of them goes away by itself. */
const board: IOfferBoard = {
  offer: (message, label, accept) => {
    Notification.info(message, {
      autoClose: false,
      actions: [{ label, callback: accept, displayType: 'accent' }]
    });
  },
  say: (message, ok) => {
    (ok ? Notification.success : Notification.error)(message, { autoClose: ok ? 8000 : false });
  }
};

/** Offers, when a notebook's kernel has died, to restore what that left behind. */
export const offersPlugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-gpupool:offers',
  description: 'Offers to restore the state of a kernel that has died.',
  autoStart: true,
  requires: [INotebookTracker],
  optional: [ITranslator],
  activate: (
    app: JupyterFrontEnd,
    tracker: INotebookTracker,
    translator: ITranslator | null
  ): void => {
    const { kernels, serverSettings } = app.serviceManager;
    const offers = new Offers({
      serverSettings,
      trans: (translator ?? nullTranslator).load(I18N_DOMAIN),
      board,
      running: () => new Set(Array.from(kernels.running(), model => model.id))
    });
    tracker.widgetAdded.connect((_, panel) => follow(panel.sessionContext, offers));
  }
};

/**
 * Look whenever the notebook has another kernel, or the same one again after it died. What is left behind is
 * known as soon as it died; a later look is for what could not be asked then.
 */
function follow(context: ISessionContext, offers: Offers): void {
  let died = false;
  const look = (): void => {
    const kernel = context.session?.kernel;
    if (kernel) {
      void offers.look(context.path, kernel, died);
    }
  };
  context.kernelChanged.connect((_, change) => {
    died = false;
    if (change.newValue) {
      look();
    }
  });
  context.statusChanged.connect((_, status) => {
    died = died || status === 'autorestarting';
    if (died) {
      look();
      died = status !== 'idle';
    }
  });
}
