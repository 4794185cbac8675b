/**
 * Puts together what all views of the pool share.
 */
import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IThemeManager } from '@jupyterlab/apputils';
import { INotebookTracker } from '@jupyterlab/notebook';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { Signal } from '@lumino/signaling';

import { LeaseActions } from '../actions';
import { Documents } from '../documents';
import { Notebooks } from '../notebooks';
import { I18N_DOMAIN, IPoolManager } from '../tokens';
import { IPoolViews, SharedEnv } from '../views';

/** Puts together what all views of the pool share. */
export const viewsPlugin: JupyterFrontEndPlugin<IPoolViews> = {
  id: 'jupyter-gpupool:views',
  description: 'What all views of the GPU pool share.',
  autoStart: true,
  requires: [IPoolManager],
  optional: [ITranslator, INotebookTracker, IThemeManager],
  provides: IPoolViews,
  activate: (
    app: JupyterFrontEnd,
    manager: IPoolManager,
    translator: ITranslator | null,
    tracker: INotebookTracker | null,
    themes: IThemeManager | null
  ): IPoolViews => {
    const trans = (translator ?? nullTranslator).load(I18N_DOMAIN);
    const notebooks = new Notebooks(app.serviceManager.sessions, tracker);
    const documents = new Documents(app, tracker);
    const leases = new LeaseActions(manager, trans);
    const env = (): SharedEnv => ({
      activeKernelId: notebooks.activeKernelId,
      activeName: notebooks.activeName,
      documentOf: kernelId => notebooks.documentOf(kernelId),
      trans,
      settings: manager.state.settings,
      past: manager.past,
      theme: themes?.theme ?? '',
      actions: {
        openDocument: path => documents.open(path),
        insert: code => documents.insert(code),
        createNotebook: code => void documents.create(code),
        retry: () => manager.retry(),
        release: lease => leases.release(lease),
        cancel: lease => leases.cancel(lease),
        resize: (lease, milli) => leases.resize(lease, milli),
        pin: (lease, pinned) => leases.pin(lease, pinned),
        toggle: () => undefined
      }
    });
    const owner = {};
    const views: IPoolViews = {
      notebooks,
      documents,
      leases,
      trans,
      changed: new Signal<IPoolViews, void>(owner as IPoolViews),
      env
    };
    const changed = views.changed as Signal<IPoolViews, void>;
    notebooks.changed.connect(() => changed.emit());
    themes?.themeChanged.connect(() => changed.emit());
    return views;
  }
};
