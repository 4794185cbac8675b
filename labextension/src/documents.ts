/**
 * What is done to notebooks. Rule of this module: code is written where the person sees it, and never run: a
 * person runs it.
 */
import { JupyterFrontEnd } from '@jupyterlab/application';
import { INotebookTracker, NotebookActions, NotebookPanel } from '@jupyterlab/notebook';

/** Write code into a cell of a notebook: the active one if that is empty, else a new one below it. */
export function insertCode(panel: NotebookPanel, code: string): void {
  const notebook = panel.content;
  const active = notebook.activeCell?.model;
  const isEmpty = active?.type === 'code' && active.sharedModel.getSource().trim() === '';
  if (!isEmpty) {
    NotebookActions.insertBelow(notebook);
  }
  notebook.activeCell?.model.sharedModel.setSource(code);
  notebook.activate();
}

/** Brings documents to the front, and writes into notebooks. */
export class Documents {
  /**
   * @param app - The application.
   * @param tracker - The open notebooks; null where the application has none.
   */
  constructor(
    private readonly app: JupyterFrontEnd,
    private readonly tracker: INotebookTracker | null
  ) {}

  /** Bring a document to the front. */
  open(path: string): void {
    void this.app.commands.execute('docmanager:open', { path });
  }

  /** Write code into the notebook in front, if there is one. */
  insert(code: string): void {
    const panel = this.tracker?.currentWidget;
    if (panel) {
      this.app.shell.activateById(panel.id);
      insertCode(panel, code);
    }
  }

  /** Make a notebook that begins with code, on the server's own kernel. */
  async create(code: string): Promise<void> {
    const { commands, serviceManager } = this.app;
    await serviceManager.kernelspecs.ready;
    const kernelName = serviceManager.kernelspecs.specs?.default;
    const made: unknown = await commands.execute('notebook:create-new', { kernelName });
    if (made instanceof NotebookPanel) {
      await made.context.ready;
      await made.revealed;
      insertCode(made, code);
    }
  }
}
