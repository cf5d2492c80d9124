// The commands of the palette, the views and the editor.
import * as vscode from 'vscode';
import type { CondenseResult } from '../protocol';
import { Methods } from '../protocol';
import { ago, oneLine, tokens, unmask } from '../shared/format';
import { diagnosticsAttachment, fileAttachment, selectionAttachment } from './attachments';
import { type ChatView, defaultWorkspace } from './chatView';
import { compare } from './compare';
import type { Channels, Connection } from './connection';
import type { CondenseDrafts } from './condensePreview';
import type { Restores } from './restore';
import type { GraphPanel } from './graphPanel';
import { filesLike } from './files';
import type { ModelKeys } from './keys';
import type { Lag } from './lag';
import {
  addMemory,
  editMemory,
  forgetMemory,
  recall,
  rememberSelection,
  rememberText,
  searchMemory,
  showMemorySource,
} from './memoryCommands';
import type { MemoryRow, MemoryTree } from './memoryTree';
import { liveQuickPick } from './livePick';
import type { Attachment, SessionRef } from './prompts';
import { deleteSession, doctor, exportSession, label, rename, sessionOf } from './sessionCommands';
import { type Entry, type SessionTree, titleOf } from './sessionTree';
import { asServerError } from './wire';

export interface Parts {
  context: vscode.ExtensionContext;
  connection: Connection;
  chat: ChatView;
  tree: SessionTree;
  channels: Channels;
  drafts: CondenseDrafts;
  restores: Restores;
  lag: Lag;
  graph: GraphPanel;
  memory: MemoryTree;
  keys: ModelKeys;
}

export function registerCommands(parts: Parts): vscode.Disposable[] {
  const { connection, chat, tree, channels } = parts;
  const table: Record<string, (...args: never[]) => unknown> = {
    newSession: (entry?: Entry) => newSession(parts, entry),
    resume: (entry?: Entry) => resume(parts, entry),
    fork: (entry?: Entry) => fork(parts, entry),
    restoreFiles: () => restoreFiles(parts),
    condense: () => condense(parts),
    condensePreview: () => parts.drafts.open(parts),
    rename: (entry?: Entry) => rename(parts, entry),
    label: (entry?: Entry) => label(parts, entry),
    deleteSession: (entry?: Entry) => deleteSession(parts, entry),
    exportSession: (entry?: Entry) => exportSession(parts, entry),
    doctor: () => doctor(parts),
    showGraph: async (entry?: Entry) => {
      const session = sessionOf(parts, entry);
      if (session !== undefined) {
        await parts.graph.show(session);
      }
    },
    compare: (entry?: Entry) =>
      compare(parts, sessionOf(parts, entry), entry?.kind === 'branch' ? entry.branch.leaf : undefined),
    undoCondense: () => undoCondense(parts),
    adopt: (entry?: Entry) => adopt(parts, entry),
    stop: () => chat.abort(),
    rememberSelection: () => rememberSelection(parts),
    rememberText: (text: string, node?: string) => rememberText(parts, text, node),
    recall: () => recall(parts),
    addMemory: (row?: MemoryRow) => addMemory(parts, row),
    editMemory: (row?: Extract<MemoryRow, { kind: 'entry' }>) => editMemory(parts, row),
    forgetMemory: (row?: Extract<MemoryRow, { kind: 'entry' }>) => forgetMemory(parts, row),
    showMemorySource: (row?: Extract<MemoryRow, { kind: 'entry' }>) => showMemorySource(parts, row),
    searchMemory: () => searchMemory(parts),
    refreshMemory: () => parts.memory.refresh(),
    setModelKey: () => parts.keys.ask(),
    walkthrough: () =>
      vscode.commands.executeCommand('workbench.action.openWalkthrough', 'indusagi.indusagi#indusagi.start', false),
    attach: () => attach(parts),
    askSelection: async () => {
      attachSelection(parts);
      await chat.focus();
    },
    selectModel: () => selectModel(parts),
    restart: () => connection.restart(),
    showLogs: () => channels.extension.show(),
    showServerLogs: () => channels.server.show(),
    debugInformation: () => debugInformation(parts),
    refreshSessions: () => tree.refresh(),
    searchSessions: () => searchSessions(parts),
    statusMenu: () => statusMenu(),
  };
  return Object.entries(table).map(([name, run]) =>
    vscode.commands.registerCommand(`indusagi.${name}`, async (...args: unknown[]) => {
      try {
        await run(...(args as never[]));
      } catch (reason) {
        const error = asServerError(reason);
        channels.extension.error(`indusagi.${name}: ${error.kind}: ${error.full}`);
        void vscode.window.showErrorMessage(error.full);
      }
    }),
  );
}

async function newSession({ chat }: Parts, entry?: Entry): Promise<void> {
  const folders = vscode.workspace.workspaceFolders ?? [];
  let workspace = entry?.kind === 'folder' ? entry.uri : defaultWorkspace();
  if (entry === undefined && folders.length > 1) {
    const choice = await vscode.window.showWorkspaceFolderPick();
    if (choice === undefined) {
      return;
    }
    workspace = choice.uri.toString();
  }
  chat.startNew(workspace);
  await chat.focus();
}

async function pickSession({ connection }: Parts): Promise<SessionRef | undefined> {
  const folders = vscode.workspace.workspaceFolders ?? [];
  const lists = await Promise.all(
    (folders.length === 0 ? [undefined] : folders).map((folder) =>
      connection.request(Methods.sessionList, {
        limit: 200,
        ...(folder === undefined ? {} : { workspace: folder.uri.toString() }),
      }),
    ),
  );
  const items = lists
    .flatMap((list) => list.sessions)
    .sort((one, other) => other.updatedAt - one.updatedAt)
    .map((info) => ({
      label: titleOf(info),
      description: `${ago(info.updatedAt, Date.now())} · ${vscode.l10n.t('{0} turns', info.turns)}`,
      session: { id: info.id, workspace: info.workspace },
    }));
  if (items.length === 0) {
    void vscode.window.showInformationMessage(vscode.l10n.t('There is no session in this folder yet.'));
    return undefined;
  }
  const choice = await vscode.window.showQuickPick(items, { placeHolder: vscode.l10n.t('Resume a session') });
  return choice?.session;
}

async function resume(parts: Parts, entry?: Entry): Promise<void> {
  if (entry?.kind === 'branch') {
    const { info, branch } = entry;
    await parts.chat.open({ id: info.id, workspace: info.workspace }, branch.head ? undefined : branch.leaf);
    parts.tree.refresh();
  } else {
    const session =
      entry?.kind === 'session' ? { id: entry.info.id, workspace: entry.info.workspace } : await pickSession(parts);
    if (session === undefined) {
      return;
    }
    await parts.chat.open(session);
  }
  await parts.chat.focus();
}

async function fork(parts: Parts, entry?: Entry): Promise<void> {
  if (entry?.kind === 'branch') {
    await parts.chat.fork(entry.branch.leaf, false, { id: entry.info.id, workspace: entry.info.workspace });
    return;
  }
  const node = await pickPrompt(
    parts,
    vscode.l10n.t('There is no prompt to fork before.'),
    vscode.l10n.t('Fork before which prompt? It is handed back to edit.'),
  );
  if (node !== undefined) {
    await parts.chat.fork(node, true);
  }
}

async function restoreFiles(parts: Parts): Promise<void> {
  const session = parts.chat.session;
  if (session === undefined) {
    return;
  }
  const node = await pickPrompt(
    parts,
    vscode.l10n.t('There is no prompt to go back to.'),
    vscode.l10n.t('Bring the files back to where they were before which prompt?'),
  );
  if (node !== undefined) {
    await parts.restores.choose(session, { node, before: true });
  }
}

/** One of the user's prompts of the branch that is shown, the newest first. */
async function pickPrompt(parts: Parts, none: string, placeHolder: string): Promise<string | undefined> {
  const prompts = parts.chat.chat.all().flatMap((item) => (item.kind === 'user' && item.node !== null ? [item] : []));
  const items = prompts.reverse().map((item) => ({ label: oneLine(unmask(item.text), 100) || '…', node: item.node }));
  if (items.length === 0) {
    void vscode.window.showInformationMessage(none);
    return undefined;
  }
  const choice = await vscode.window.showQuickPick(items, { placeHolder });
  return choice?.node ?? undefined;
}

async function condense(parts: Parts): Promise<void> {
  const session = parts.chat.session;
  if (session === undefined) {
    return;
  }
  const result = await vscode.window.withProgress(
    { location: vscode.ProgressLocation.Notification, title: vscode.l10n.t('Condensing'), cancellable: true },
    (_progress, token) =>
      parts.connection.request(Methods.condense, { sessionId: session.id, workspace: session.workspace }, token),
  );
  await afterCondense(parts, session, result);
}

export async function afterCondense(parts: Parts, session: SessionRef, result: CondenseResult): Promise<void> {
  if (!result.condensed) {
    void vscode.window.showInformationMessage(
      vscode.l10n.t('Nothing was condensed: {0}', result.reason ?? vscode.l10n.t('there was nothing to drop')),
    );
    return;
  }
  await parts.chat.open(session);
  parts.tree.refresh();
  const undo = vscode.l10n.t('Undo');
  void vscode.window
    .showInformationMessage(
      vscode.l10n.t('Condensed {0} turns: {1} → {2} tokens.', result.cut, tokens(result.before), tokens(result.after)),
      undo,
    )
    .then((choice) => (choice === undo ? vscode.commands.executeCommand('indusagi.undoCondense') : undefined));
}

async function undoCondense(parts: Parts): Promise<void> {
  const session = parts.chat.session;
  if (session === undefined) {
    return;
  }
  await parts.connection.request(Methods.condenseUndo, { sessionId: session.id, workspace: session.workspace });
  await parts.chat.open(session);
  parts.tree.refresh();
}

async function adopt(parts: Parts, entry?: Entry): Promise<void> {
  const session =
    entry?.kind === 'session' ? { id: entry.info.id, workspace: entry.info.workspace } : parts.chat.session;
  if (session === undefined) {
    return;
  }
  const yes = vscode.l10n.t('Adopt');
  const choice = await vscode.window.showWarningMessage(
    vscode.l10n.t('Adopt this session? What it says will be sent to the model as part of your conversation.'),
    { modal: true },
    yes,
  );
  if (choice === yes) {
    await parts.connection.request(Methods.sessionAdopt, { sessionId: session.id, workspace: session.workspace });
    await parts.chat.open(session);
    parts.tree.refresh();
  }
}

function attachSelection({ chat }: Parts): void {
  const attachment = selectionAttachment();
  if (attachment !== undefined) {
    chat.attach(attachment);
  }
}

/** Files that are shown at once; typing more of the name finds the others. */
const FILES_SHOWN = 200;

async function attach(parts: Parts): Promise<void> {
  const selection = selectionAttachment();
  const special = [
    ...(selection === undefined ? [] : [{ icon: 'list-selection', attachment: selection }]),
    ...[diagnosticsAttachment()].flatMap((attachment) =>
      attachment === undefined ? [] : [{ icon: 'warning', attachment }],
    ),
  ].map(({ icon, attachment }) => ({ label: `$(${icon}) ${attachment.label}`, attachment }));
  const chosen = await liveQuickPick<vscode.QuickPickItem & { attachment?: Attachment }>(
    vscode.l10n.t('What goes with the prompt?'),
    async (value) => {
      const { files, more } = await filesLike(value, FILES_SHOWN);
      const rows = files.map((uri) => {
        const attachment = fileAttachment(uri);
        return { label: attachment.label, attachment };
      });
      const rest = { label: vscode.l10n.t('More files match: type more of the name.'), alwaysShow: true };
      return [...special, ...rows, ...(more ? [rest] : [])];
    },
  );
  if (chosen?.attachment !== undefined) {
    parts.chat.attach(chosen.attachment);
    await parts.chat.focus();
  }
}

async function selectModel(parts: Parts): Promise<void> {
  const result = await parts.connection.request(Methods.modelsList, {});
  const items = result.models.map((model) => ({
    label: model.id,
    description: [model.id === result.current ? vscode.l10n.t('in use') : '', model.note]
      .filter((part) => part !== '')
      .join(' · '),
    available: model.available,
  }));
  const choice = await vscode.window.showQuickPick(items, { placeHolder: result.hint || vscode.l10n.t('Model') });
  if (choice !== undefined) {
    await vscode.workspace
      .getConfiguration('indusagi')
      .update('model', choice.label, vscode.ConfigurationTarget.Global);
  }
}

async function searchSessions({ tree }: Parts): Promise<void> {
  const query = await vscode.window.showInputBox({
    prompt: vscode.l10n.t('Show the sessions whose title holds this text; empty shows all.'),
    value: tree.query,
  });
  if (query !== undefined) {
    tree.query = query.trim();
    tree.refresh();
  }
}

async function debugInformation({ connection, context, lag }: Parts): Promise<void> {
  const status = connection.state === 'running' ? await connection.request(Methods.status, {}) : null;
  const extension = context.extension.packageJSON as { version?: unknown };
  const report = {
    extension: extension.version,
    editor: vscode.version,
    platform: `${process.platform} ${process.arch}`,
    state: connection.state,
    failure: connection.failure,
    server: connection.serverInfo ?? null,
    startedFrom: connection.commandLine?.origin ?? null,
    trusted: vscode.workspace.isTrusted,
    lagP95: lag.p95,
    status,
  };
  const document = await vscode.workspace.openTextDocument({
    language: 'json',
    content: JSON.stringify(report, null, 2),
  });
  await vscode.window.showTextDocument(document);
}

async function statusMenu(): Promise<void> {
  const items = [
    { label: vscode.l10n.t('Open the chat'), command: 'indusagi.chat.focus' },
    { label: vscode.l10n.t('New session'), command: 'indusagi.newSession' },
    { label: vscode.l10n.t('Choose the model'), command: 'indusagi.selectModel' },
    { label: vscode.l10n.t('Restart the server'), command: 'indusagi.restart' },
    { label: vscode.l10n.t('Show logs'), command: 'indusagi.showLogs' },
    { label: vscode.l10n.t('Show server logs'), command: 'indusagi.showServerLogs' },
  ];
  const choice = await vscode.window.showQuickPick(items, { title: 'Indusagi' });
  if (choice !== undefined) {
    await vscode.commands.executeCommand(choice.command);
  }
}
