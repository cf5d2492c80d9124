// What one does to a whole session: name it, label a turn, export it, check it, delete it.
import * as vscode from 'vscode';
import { Methods } from '../protocol';
import type { SessionRef } from './prompts';
import type { Parts } from './commands';
import type { Entry } from './sessionTree';

/** The session of a row of the tree, else the one that the chat shows. */
export function sessionOf(parts: Parts, entry?: Entry): SessionRef | undefined {
  return entry === undefined || entry.kind === 'folder'
    ? parts.chat.session
    : { id: entry.info.id, workspace: entry.info.workspace };
}

/** Draws anew what may have changed. */
async function refresh(parts: Parts, session: SessionRef): Promise<void> {
  parts.tree.refresh();
  if (parts.chat.session?.id === session.id) {
    await parts.chat.open(session);
  }
}

export async function rename(parts: Parts, entry?: Entry): Promise<void> {
  const session = sessionOf(parts, entry);
  if (session === undefined) {
    return;
  }
  const old =
    entry !== undefined && entry.kind !== 'folder' ? entry.info.title : (parts.chat.chat.current?.title ?? '');
  const title = await vscode.window.showInputBox({ prompt: vscode.l10n.t('The title of the session'), value: old });
  if (title !== undefined && title.trim() !== '') {
    await parts.connection.request(Methods.sessionRename, {
      sessionId: session.id,
      workspace: session.workspace,
      title: title.trim(),
    });
    await refresh(parts, session);
  }
}

export async function label(parts: Parts, entry?: Entry): Promise<void> {
  const session = sessionOf(parts, entry);
  const node =
    entry?.kind === 'branch' ? entry.branch.leaf : parts.chat.chat.all().findLast((item) => item.node !== null)?.node;
  if (session === undefined || node == null) {
    return;
  }
  await labelNode(parts, session, node, entry?.kind === 'branch' ? (entry.branch.label ?? '') : '');
}

/** Asks for the name of a turn. */
export async function labelNode(parts: Parts, session: SessionRef, node: string, value: string): Promise<void> {
  const name = await vscode.window.showInputBox({
    prompt: vscode.l10n.t('A name for this turn; empty takes it away. The name "pin" keeps it when condensing.'),
    value,
  });
  if (name !== undefined) {
    await parts.connection.request(Methods.sessionLabel, {
      sessionId: session.id,
      workspace: session.workspace,
      node,
      name: name.trim() === '' ? null : name.trim(),
    });
    await refresh(parts, session);
  }
}

export async function exportSession(parts: Parts, entry?: Entry): Promise<void> {
  const session = sessionOf(parts, entry);
  if (session === undefined) {
    return;
  }
  const formats = [
    { label: 'Markdown', format: 'markdown' as const },
    { label: 'HTML', format: 'html' as const },
    { label: 'JSONL', format: 'jsonl' as const },
  ];
  const choice = await vscode.window.showQuickPick(formats, { placeHolder: vscode.l10n.t('Export as') });
  if (choice === undefined) {
    return;
  }
  const made = await parts.connection.request(Methods.sessionExport, {
    sessionId: session.id,
    workspace: session.workspace,
    format: choice.format,
    ...(entry?.kind === 'branch' ? { leaf: entry.branch.leaf } : {}),
  });
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri;
  const target = await vscode.window.showSaveDialog(
    folder === undefined ? {} : { defaultUri: vscode.Uri.joinPath(folder, made.fileName) },
  );
  if (target !== undefined) {
    await vscode.workspace.fs.writeFile(target, new TextEncoder().encode(made.text));
    await vscode.window.showTextDocument(target);
  }
}

export async function deleteSession(parts: Parts, entry?: Entry): Promise<void> {
  const session = sessionOf(parts, entry);
  if (session === undefined) {
    return;
  }
  const yes = vscode.l10n.t('Delete');
  const choice = await vscode.window.showWarningMessage(
    vscode.l10n.t('Delete this session for good, with all its branches?'),
    { modal: true },
    yes,
  );
  if (choice === yes) {
    await parts.connection.request(Methods.sessionDelete, { sessionId: session.id, workspace: session.workspace });
    if (parts.chat.session?.id === session.id) {
      parts.chat.startNew(session.workspace);
    }
    parts.tree.refresh();
  }
}

export async function doctor(parts: Parts): Promise<void> {
  const workspace = parts.chat.session?.workspace;
  const result = await parts.connection.request(Methods.sessionDoctor, workspace === undefined ? {} : { workspace });
  await vscode.window.showTextDocument(
    await vscode.workspace.openTextDocument({ content: result.text, language: 'markdown' }),
  );
}
