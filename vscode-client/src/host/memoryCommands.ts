// What one does with what is remembered: keep a text, find it, change it, forget it, see where it was said.
import * as vscode from 'vscode';
import type { MemoryEntryView } from '../protocol';
import { Methods } from '../protocol';
import { oneLine, unmask } from '../shared/format';
import { defaultWorkspace } from './chatView';
import type { Parts } from './commands';
import { liveQuickPick } from './livePick';
import { type MemoryRow, type Scope, SCOPES } from './memoryTree';

type EntryRow = Extract<MemoryRow, { kind: 'entry' }>;

function placeOf(workspace: string | undefined): { workspace?: string } {
  return workspace === undefined ? {} : { workspace };
}

export async function rememberSelection(parts: Parts): Promise<void> {
  const editor = vscode.window.activeTextEditor;
  const text = editor?.document.getText(editor.selection) ?? '';
  if (editor === undefined || text.trim() === '') {
    void vscode.window.showInformationMessage(vscode.l10n.t('Select the text that is to be remembered first.'));
    return;
  }
  const folder = vscode.workspace.getWorkspaceFolder(editor.document.uri)?.uri.toString() ?? defaultWorkspace();
  const { created } = await parts.connection.request(Methods.memoryRemember, {
    text,
    tags: ['selection'],
    metadata: {
      uri: editor.document.uri.toString(),
      line: editor.selection.start.line + 1,
      language: editor.document.languageId,
    },
    ...placeOf(folder),
  });
  sayRemembered(parts, created);
}

export async function rememberText(parts: Parts, text: string, node?: string): Promise<void> {
  const session = parts.chat.session;
  const { created } = await parts.connection.request(Methods.memoryRemember, {
    text,
    ...placeOf(session?.workspace ?? defaultWorkspace()),
    ...(session === undefined ? {} : { source: { session: session.id, ...(node === undefined ? {} : { node }) } }),
  });
  sayRemembered(parts, created);
}

function sayRemembered(parts: Parts, created: boolean): void {
  parts.memory.refresh();
  void vscode.window.showInformationMessage(
    created ? vscode.l10n.t('Remembered.') : vscode.l10n.t('That was remembered already.'),
  );
}

export async function recall(parts: Parts): Promise<void> {
  const where = placeOf(parts.chat.session?.workspace ?? defaultWorkspace());
  const button = { iconPath: new vscode.ThemeIcon('trash'), tooltip: vscode.l10n.t('Forget') };
  const chosen = await liveQuickPick<vscode.QuickPickItem & { entry: MemoryEntryView }>(
    vscode.l10n.t('What was remembered about…'),
    async (text) => {
      const entries =
        text.trim() === ''
          ? (await parts.connection.request(Methods.memoryList, { ...where, limit: 50 })).entries.map((entry) => ({
              entry,
              score: null,
            }))
          : (await parts.connection.request(Methods.memoryRecall, { ...where, text, limit: 20 })).hits;
      return entries.map(({ entry, score }) => ({
        label: oneLine(unmask(entry.content), 100),
        description: [entry.scope, ...entry.tags, ...(score === null ? [] : [score.toFixed(2)])].join(' · '),
        alwaysShow: true, // the server has chosen; the picker must not filter by letters
        buttons: [button],
        entry,
      }));
    },
    {
      pressed: ({ entry }) => forgetEntry(parts, entry, where),
      failed: (reason) => parts.chat.fail(reason),
    },
  );
  if (chosen !== undefined) {
    await parts.chat.fill(chosen.entry.content, false);
  }
}

export async function addMemory(parts: Parts, row?: MemoryRow): Promise<void> {
  const text = await vscode.window.showInputBox({ prompt: vscode.l10n.t('What is to be remembered?') });
  if (text === undefined || text.trim() === '') {
    return;
  }
  let scope = row?.kind === 'scope' ? row.scope : undefined;
  if (scope === undefined) {
    const rows = (['shared', 'global', 'agent'] as Scope[]).map((name) => ({ label: SCOPES[name](), scope: name }));
    scope = (await vscode.window.showQuickPick(rows, { placeHolder: vscode.l10n.t('For whom?') }))?.scope;
  }
  if (scope !== undefined) {
    const workspace = row?.kind === 'scope' ? row.workspace : row?.kind === 'workspace' ? row.uri : defaultWorkspace();
    const { created } = await parts.connection.request(Methods.memoryRemember, {
      text: text.trim(),
      scope,
      ...placeOf(workspace),
    });
    sayRemembered(parts, created);
  }
}

/** Changes an entry: the new text is remembered with all that the old one had, and the old one is forgotten. */
export async function editMemory(parts: Parts, row?: EntryRow): Promise<void> {
  if (row === undefined) {
    return;
  }
  const { entry, workspace } = row;
  const text = await vscode.window.showInputBox({
    prompt: vscode.l10n.t('What is remembered'),
    value: entry.content,
  });
  if (text === undefined || text.trim() === '' || text === entry.content) {
    return;
  }
  const { entry: fresh } = await parts.connection.request(Methods.memoryRemember, asParams(entry, workspace, text));
  if (fresh.id !== entry.id) {
    await parts.connection.request(Methods.memoryForget, { ...placeOf(workspace), id: entry.id });
  }
  parts.memory.refresh();
}

export async function forgetMemory(parts: Parts, row?: EntryRow): Promise<void> {
  if (row !== undefined) {
    await forgetEntry(parts, row.entry, placeOf(row.workspace));
  }
}

async function forgetEntry(parts: Parts, entry: MemoryEntryView, where: { workspace?: string }): Promise<void> {
  const { forgotten } = await parts.connection.request(Methods.memoryForget, { ...where, id: entry.id });
  parts.memory.refresh();
  if (!forgotten) {
    return;
  }
  const undo = vscode.l10n.t('Undo');
  void vscode.window
    .showInformationMessage(vscode.l10n.t('Forgotten: {0}', oneLine(unmask(entry.content), 80)), undo)
    .then(async (choice) => {
      if (choice === undo) {
        await parts.connection.request(Methods.memoryRemember, asParams(entry, where.workspace, entry.content));
        parts.memory.refresh();
      }
    })
    .then(undefined, (reason: unknown) => parts.chat.fail(reason));
}

function asParams(
  { tags, metadata, scope, source, expiresAt }: MemoryEntryView,
  workspace: string | undefined,
  text: string,
) {
  const left = expiresAt === null ? null : (expiresAt - Date.now()) / 1000;
  return {
    text,
    tags,
    metadata,
    scope,
    source,
    ...(left === null ? {} : { ttlSeconds: Math.max(1, left) }),
    ...placeOf(workspace),
  };
}

/** Shows the turn in which a text was said. */
export async function showMemorySource(parts: Parts, row?: EntryRow): Promise<void> {
  const source = row?.entry.source;
  const workspace = row?.workspace ?? defaultWorkspace();
  if (source == null || workspace === undefined) {
    return;
  }
  const session = { id: source.session, workspace };
  await parts.chat.open(session);
  await parts.chat.focus();
  if (source.node == null || parts.chat.reveal(source.node)) {
    return;
  }
  const resume = vscode.l10n.t('Resume there');
  const choice = await vscode.window.showInformationMessage(
    vscode.l10n.t('The turn lies on another branch, or further up.'),
    resume,
  );
  if (choice === resume) {
    await parts.chat.open(session, source.node);
  }
}

export async function searchMemory({ memory }: Parts): Promise<void> {
  const query = await vscode.window.showInputBox({
    prompt: vscode.l10n.t('Show what was remembered about this; empty shows all.'),
    value: memory.query,
  });
  if (query !== undefined) {
    memory.query = query.trim();
    memory.refresh();
  }
}
