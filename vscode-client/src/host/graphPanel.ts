// A session's graph in an editor tab: one tab, showing the session that was asked for last. A click on a turn asks what
// to do there.
import * as vscode from 'vscode';
import type { TreeResult } from '../protocol';
import { Methods } from '../protocol';
import { isGraphPageMessage, outlineOf } from '../shared/graph';
import { oneLine, unmask } from '../shared/format';
import type { Parts } from './commands';
import { compareBranches } from './compare';
import type { SessionRef } from './prompts';
import { labelNode } from './sessionCommands';
import { resourceRoots, webviewPage } from './webviewPage';

export class GraphPanel implements vscode.Disposable {
  private panel: vscode.WebviewPanel | undefined;
  private session: SessionRef | undefined;
  private timer: NodeJS.Timeout | undefined;

  constructor(private readonly parts: () => Parts) {}

  async show(session: SessionRef): Promise<void> {
    this.session = session;
    if (this.panel !== undefined) {
      this.panel.reveal();
      await this.draw();
      return;
    }
    const { context, channels } = this.parts();
    const panel = vscode.window.createWebviewPanel('indusagi.graph', vscode.l10n.t('Session graph'), {
      viewColumn: vscode.ViewColumn.Active,
    });
    this.panel = panel;
    panel.onDidDispose(() => {
      this.panel = undefined;
      clearTimeout(this.timer);
      this.timer = undefined;
    });
    panel.webview.onDidReceiveMessage((raw: unknown) => {
      if (!isGraphPageMessage(raw)) {
        channels.extension.warn('A message of the graph page did not have the expected shape; it was dropped.');
      } else if (raw.type === 'problem') {
        channels.extension.warn(`Graph page: ${raw.text}`);
      } else {
        const work = raw.type === 'ready' ? this.draw() : this.open(raw.node);
        work.catch((reason: unknown) => this.parts().chat.fail(reason));
      }
    });
    panel.webview.options = { enableScripts: true, localResourceRoots: resourceRoots(context.extensionUri) };
    panel.webview.html = webviewPage(
      panel.webview,
      context.extensionUri,
      'graph',
      '<header id="head"></header><main><div id="canvas"></div></main>',
    );
  }

  /** Draws the graph anew when a session has changed, at most a few times a second. */
  refresh(): void {
    if (this.panel !== undefined) {
      this.timer ??= setTimeout(() => {
        this.timer = undefined;
        this.draw().catch((reason: unknown) => this.parts().chat.fail(reason));
      }, 500);
    }
  }

  private async tree(): Promise<TreeResult | undefined> {
    const { connection } = this.parts();
    const session = this.session;
    return session === undefined || connection.state !== 'running'
      ? undefined
      : connection.request(Methods.sessionTree, { sessionId: session.id, workspace: session.workspace });
  }

  private async draw(): Promise<void> {
    const tree = await this.tree();
    if (tree !== undefined) {
      const title = this.parts().chat.titleOf(this.session?.id ?? '') || vscode.l10n.t('Session graph');
      await this.panel?.webview.postMessage({ type: 'graph', outline: outlineOf(tree, title) });
    }
  }

  private async open(id: string): Promise<void> {
    const session = this.session;
    const tree = await this.tree();
    const node = tree?.nodes.find((entry) => entry.id === id);
    if (session === undefined || tree === undefined || node === undefined) {
      return;
    }
    const { chat } = this.parts();
    const head = tree.head;
    const actions: (vscode.QuickPickItem & { run: () => Promise<void> })[] = [
      {
        label: vscode.l10n.t('$(debug-start) Resume here'),
        run: async () => {
          await chat.open(session, id === head ? undefined : id);
          await chat.focus();
        },
      },
      {
        label: vscode.l10n.t('$(repo-forked) Fork after this turn'),
        run: () => chat.fork(id, false, session),
      },
    ];
    if (node.role === 'user') {
      actions.push({
        label: vscode.l10n.t('$(edit) Edit this prompt and fork'),
        run: () => chat.fork(id, true, session),
      });
    }
    actions.push({
      label: vscode.l10n.t('$(tag) Label this turn…'),
      run: () => labelNode(this.parts(), session, id, node.label ?? ''),
    });
    if (head !== null && head !== id) {
      actions.push({
        label: vscode.l10n.t('$(diff) Compare with the live branch'),
        run: () => compareBranches(this.parts(), session, head, id),
      });
    }
    const choice = await vscode.window.showQuickPick(actions, { title: oneLine(unmask(node.preview), 80) || '…' });
    await choice?.run();
    this.refresh();
  }

  dispose(): void {
    this.panel?.dispose();
  }
}
