// Puts the parts together, and takes them apart again.
import * as vscode from 'vscode';
import { ApprovalDesk } from './host/approvals';
import { ChatView, VIEW_ID } from './host/chatView';
import { type Parts, registerCommands } from './host/commands';
import { CondenseDrafts } from './host/condensePreview';
import { Connection } from './host/connection';
import { QuestionDesk } from './host/questions';
import { Restores } from './host/restore';
import { ModelKeys } from './host/keys';
import { MemoryTree } from './host/memoryTree';
import { GraphPanel } from './host/graphPanel';
import { Lag } from './host/lag';
import { concerns, LAUNCH_SETTINGS, SERVER_SETTINGS } from './host/settings';
import { SessionTree } from './host/sessionTree';
import { StatusItem } from './host/status';

let connection: Connection | undefined;

export function activate(context: vscode.ExtensionContext): void {
  const channels = {
    extension: vscode.window.createOutputChannel('Indusagi', { log: true }),
    server: vscode.window.createOutputChannel('Indusagi Server', { log: true }),
    trace: vscode.window.createOutputChannel('Indusagi Trace', { log: true }),
  };
  const isShown = (question: { sessionId: string }): boolean => chat.visible && chat.session?.id === question.sessionId;
  const show = async (question: { sessionId: string; workspace: string }): Promise<void> => {
    await chat.open({ id: question.sessionId, workspace: question.workspace });
    await chat.focus();
  };
  const desk: ApprovalDesk = new ApprovalDesk(isShown, show);
  const questions: QuestionDesk = new QuestionDesk(isShown, show);
  const keys = new ModelKeys(context.secrets);
  const live = new Connection(
    channels,
    (question, token) => desk.ask(question, token),
    (question, token) => questions.ask(question, token),
    () => keys.environment(),
  );
  connection = live;
  const chat: ChatView = new ChatView(
    context,
    live,
    () => desk,
    channels.extension,
    () => questions,
  );
  const tree = new SessionTree(live);
  const memory = new MemoryTree(live);
  const status = new StatusItem(live, () => desk.count + questions.count);

  const drafts = new CondenseDrafts();
  const restores = new Restores(live, channels.extension);
  const lag = new Lag();
  const graph = new GraphPanel(() => parts);
  const parts: Parts = {
    context,
    connection: live,
    chat,
    tree,
    channels,
    drafts,
    restores,
    lag,
    graph,
    memory,
    keys,
  };

  const setContext = (): void => {
    lag.follow(chat.running);
    const session = chat.session;
    void vscode.commands.executeCommand('setContext', 'indusagi.state', live.state);
    void vscode.commands.executeCommand('setContext', 'indusagi.hasSession', session !== undefined);
    void vscode.commands.executeCommand('setContext', 'indusagi.running', chat.running);
    if (session?.id !== tree.current) {
      tree.current = session?.id;
      tree.refresh();
    }
  };

  context.subscriptions.push(
    channels.extension,
    channels.server,
    channels.trace,
    desk,
    questions,
    chat,
    tree,
    memory,
    status,
    lag,
    graph,
    live,
    vscode.window.registerWebviewViewProvider(VIEW_ID, chat),
    vscode.window.createTreeView('indusagi.sessions', { treeDataProvider: tree, showCollapseAll: true }),
    vscode.window.createTreeView('indusagi.memory', { treeDataProvider: memory, showCollapseAll: true }),
    live.onMemoryChanged(() => memory.refresh()),
    keys.onChanged(() => void live.restart()),
    ...registerCommands(parts),
    ...drafts.register(parts),
    ...[desk, questions].map((one) =>
      one.onChanged(() => {
        chat.refreshAsked();
        status.draw();
      }),
    ),
    restores.register(),
    chat.onChanged(setContext),
    chat.onWentBack(({ session, node, before }) => {
      if (vscode.workspace.isTrusted) {
        void restores.offer(session, { node, before });
      }
    }),
    live.onSessionsChanged(() => {
      tree.refresh();
      graph.refresh();
    }),
    live.onState((state) => {
      if (state !== 'running') {
        desk.drop();
        questions.drop();
      }
      tree.refresh();
      memory.refresh();
      setContext();
    }),
    vscode.workspace.onDidGrantWorkspaceTrust(() => {
      void live.trust();
    }),
    vscode.workspace.onDidChangeConfiguration((change) => {
      if (concerns(change, LAUNCH_SETTINGS)) {
        void live.restart();
      } else if (concerns(change, SERVER_SETTINGS) && live.state === 'running') {
        live
          .configure()
          .then(() => chat.refreshModel())
          .catch((reason: unknown) => chat.fail(reason));
      }
    }),
    vscode.workspace.onDidChangeWorkspaceFolders(() => {
      tree.refresh();
      memory.refresh();
    }),
  );
  setContext();
  void live.restart();
}

export async function deactivate(): Promise<void> {
  await connection?.stop();
}
